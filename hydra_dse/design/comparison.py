"""A comparison: contenders that serve the same requests, case by case, and how they are searched and simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.design.experiment import Bound, InputFile, SearchSettings
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import SearchSpace
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.workload.nouns import Workload

THROUGHPUT, PER_TTFT, MAX_RATE = "throughput", "throughput_per_ttft", "max_rate"
AIMS = (THROUGHPUT, PER_TTFT, MAX_RATE)
"""What a contender is chosen for: saturation throughput, that over mean TTFT (HYDRA's B*), or the highest rate."""


@dataclass(frozen=True)
class Change:
    """How a derived contender differs from the one it comes from.

    Attributes:
        placement: algorithm that takes the place of the other's placement.
        policy: fields of the policy and their values.
        take_from, parameters: contender whose chosen values of these search parameters are taken.
        scale: resource → factor on its rate (see `hydra_dse.bundle.whatif`); area and power stay the original's.
    """

    placement: str | None = None
    policy: Mapping[str, object] = field(default_factory=dict)
    take_from: str | None = None
    parameters: tuple[str, ...] = ()
    scale: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Contender:
    """A side of a comparison: a given design, the best of a search, or a variant of another contender.

    Attributes:
        spaces: searched together with the comparison's budget, in equal parts.
        placements: random placements tried for every finalist of the search; 0 = the space's own placement.
        design: a given one.
        of, change: the contender that it derives from, and how.
    """

    name: str
    spaces: tuple[SearchSpace, ...] = ()
    placements: int = 0
    design: Design | None = None
    of: str | None = None
    change: Change = Change()


@dataclass(frozen=True)
class Load:
    """One workload for one model, with its SLO: what a case is about, whatever contenders are chosen for."""

    model: str
    workload: str
    requests: Workload


@dataclass(frozen=True)
class ComparedSearch:
    """How contenders are searched.

    Attributes:
        settings: the same for every contender.
        load: searches that see TTFT run at this share of the best saturation rate among `pilot` random designs of the
            first contender with a space, so that all are chosen at the same rate.
        finalists: the best estimates, which are simulated to choose one.
        selection_requests: requests of those runs; their random numbers are not those of the comparison.
    """

    settings: SearchSettings = field(default_factory=SearchSettings)
    load: float = 0.5
    pilot: int = 128
    finalists: int = 3
    selection_requests: int = 500


@dataclass(frozen=True)
class ComparedSimulation:
    """How contenders are simulated.

    Attributes:
        requests: of a run, warm-up included.
        replications: runs, each with random numbers that all contenders share.
        tolerance: width at which the bisection of the highest rate ends, relative to it.
        power_limit_w: of a package; rates at which it draws more do not count.  None = no limit.
        detail: where iteration times come from, see `EvaluationOptions`.
    """

    requests: int = 1000
    replications: int = 3
    warmup_share: float = 0.1
    seed: int = 1
    tolerance: float = 0.01
    power_limit_w: float | None = None
    detail: str = "ledger"


@dataclass(frozen=True)
class Comparison:
    """Everything a comparison needs, resolved.

    Attributes:
        aims: of `AIMS`, or names of metrics; a case is a load and an aim.
        reference: name of the contender that ratios are relative to.
        fractions: offered rates as shares of a highest rate, the reference's and each one's own.
        primary: the fraction of the reference's highest rate that is looked at first.
        memory_share: times what every memory of every contender gives, in searches and simulations; 0.85 repeats a
            comparison at 15 % less.
        volume: packages of every contender over which design and masks are spread; None = as its technology states.
    """

    name: str
    loads: tuple[Load, ...]
    aims: tuple[str, ...]
    contenders: tuple[Contender, ...]
    reference: str
    fractions: tuple[float, ...]
    primary: float
    search: ComparedSearch
    simulation: ComparedSimulation
    calibration: CalibrationSet
    memory_share: float = 1.0
    volume: int | None = None
    bounds: tuple[Bound, ...] = ()
    purpose: str = ""
    resolved: Mapping[str, object] = field(default_factory=dict)
    inputs: tuple[InputFile, ...] = ()

    def contender(self, name: str) -> Contender:
        """The contender called `name`."""
        return next(one for one in self.contenders if one.name == name)
