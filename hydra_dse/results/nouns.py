"""What an evaluator returns for one design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # not at run time: names of metrics are read where numpy would cost the start
    from hydra_dse.results.quantiles import Quantiles


@dataclass(frozen=True)
class Violation:
    """A constraint that a design breaks: what it asks for, what there is, and what would help."""

    constraint: str
    demand: float
    bound: float
    unit: str
    levers: tuple[str, ...] = ()

    @property
    def excess(self) -> float:
        """Relative excess of demand over the bound (> 0 when violated): the constraint value of a search."""
        scale = abs(self.bound) if self.bound else 1.0
        return (self.demand - self.bound) / scale

    def __str__(self) -> str:
        levers = f"; levers: {', '.join(self.levers)}" if self.levers else ""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{self.constraint}: needs {self.demand:.4g}{unit}, has {self.bound:.4g}{unit}{levers}"


@dataclass(frozen=True)
class Component:
    """A die, a memory stack or a directed link of a package over the measured window.

    Attributes:
        kind: `"die"`, `"memory"` or `"link"`.
        place: slot, or the slots at its ends.
        utilization: share of the time in which it was busy.
        dynamic_w, static_w: mean power by what it did, and of its leakage, clock and background.
    """

    name: str
    kind: str
    place: str
    utilization: float
    dynamic_w: float
    static_w: float


@dataclass(frozen=True)
class Components:
    """Every component of a package, and its power by what it is spent on.

    Attributes:
        seconds: the measured time, all replications together.
        power_w: mean power by cause: `"compute"`, `"sram"`, `"memory"`, `"noi"` and `"static"`; in J: times `seconds`.
    """

    seconds: float
    parts: tuple[Component, ...]
    power_w: Mapping[str, float]


@dataclass(frozen=True)
class Evaluation:
    """Metrics of one design under one workload.

    Attributes:
        source: `"estimated"`, `"simulated"` or `"measured"`.
        metrics: value by metric name; None where it cannot be computed (infeasible or overloaded).
        intervals: 90 % (estimated) or 95 % (simulated) interval by metric name, where known.
        violations: empty for a feasible design.
        notes: what a reader must know, e.g. that the input lies outside the validated range.
        components: utilisation and power of every component, where the evaluator knows them.
        distributions: of each latency (`"ttft"` …) by replication, where the evaluator knows them.
    """

    source: str
    metrics: Mapping[str, float | None]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    notes: tuple[str, ...] = ()
    components: Components | None = None
    distributions: Mapping[str, tuple[Quantiles, ...]] = field(default_factory=dict)

    @property
    def feasible(self) -> bool:
        """Whether no constraint is broken."""
        return not self.violations
