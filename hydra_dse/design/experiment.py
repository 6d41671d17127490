"""An experiment: a workload, a space, what to optimise, how to search and how to validate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.design.space import SearchSpace
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.workload.nouns import Workload


@dataclass(frozen=True)
class Bound:
    """A constraint on a metric: at most `upper`, at least `lower`."""

    metric: str
    upper: float | None = None
    lower: float | None = None


@dataclass(frozen=True)
class SearchSettings:
    """How to search: `trials` is the number of designs to score; `sampler` an Optuna sampler's short name."""

    sampler: str = "nsga2"
    trials: int = 2000
    population: int = 40
    seed: int = 0


@dataclass(frozen=True)
class ValidationSettings:
    """How front designs are simulated.

    Attributes:
        max_replications: of a design whose place is undecided; None = twice `replications`.
        outside: random feasible designs that are simulated beside the chosen ones; None = a quarter of `top`.
    """

    top: int = 5
    requests: int = 2000
    replications: int = 3
    warmup_share: float = 0.1
    max_replications: int | None = None
    outside: int | None = None


@dataclass(frozen=True)
class Scenario:
    """One of several loads that a design must serve: a workload with its model.

    Attributes:
        name: `<model>/<workload>`, unique in an experiment.
    """

    name: str
    model: str
    load: str
    workload: Workload


@dataclass(frozen=True)
class ScenarioSettings:
    """Several loads in one experiment, and what they are measured by.

    Attributes:
        items: the scenarios, in order.
        load: rate of each as a share of the highest saturation among the probed designs; None = their own rates.
        probe: packages drawn at random, with all their inner variants, that give rates and references.
    """

    items: tuple[Scenario, ...] = ()
    load: float | None = None
    probe: int = 16


@dataclass(frozen=True)
class DynamicSettings:
    """A study of task maps under a load that shifts.

    Attributes:
        task_maps: to compare; the first is what others are compared with.
        cycles_s: lengths that the workload's cycle of shifts is stretched to.
        loads: offered rates as shares of the highest one that meets the SLO (first map, mean mix, estimated).
        least_cycles: of a run, which may so have more requests than `validation` says.
        policy: fields of the policy of maps whose dies move, by name.
    """

    task_maps: tuple[str, ...]
    cycles_s: tuple[float, ...]
    loads: tuple[float, ...] = (0.8,)
    least_cycles: int = 4
    policy: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class InputFile:
    """An input of a run, by absolute path and SHA-256 digest."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Experiment:
    """Everything a sweep needs, resolved.

    Attributes:
        objectives: metric names; their direction comes from the metric registry.
        bounds: constraints on metrics.
        resolved: the experiment as plain data with all defaults written out (what a run directory stores).
        inputs: files read, for provenance.
        dynamic: task maps under shifting loads, where the experiment is such a study.
        scenarios: loads that aggregated objectives look at; none in most experiments.
    """

    name: str
    workload: Workload
    space: SearchSpace
    objectives: tuple[str, ...]
    calibration: CalibrationSet
    bounds: tuple[Bound, ...] = ()
    search: SearchSettings = field(default_factory=SearchSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    resolved: Mapping[str, object] = field(default_factory=dict)
    inputs: tuple[InputFile, ...] = ()
    scenarios: ScenarioSettings = field(default_factory=ScenarioSettings)
    dynamic: DynamicSettings | None = None

    def __repr__(self) -> str:
        """A line for notebooks; the whole of it is `resolved`."""
        served = ", ".join(model.name for model in self.workload.models)
        return (
            f"Experiment({self.name!r}: {served} under {self.workload.name!r}, space {self.space.name!r}, "
            f"objectives {', '.join(self.objectives)}, {self.search.trials} designs)"
        )
