"""Placed designs of the hydra-24 space under workloads: each side with its own cost of an iteration.

The simulator counts operators on the placed package, the estimator takes closed forms; their difference is what a
user of the estimator meets.  Models, points, policies, arrivals and loads are drawn by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.validation.cases import BANDS, arrivals_kind, drawn_arrivals
from benchmarks.validation.estimated import Estimated
from benchmarks.validation.serving import Dates
from benchmarks.validation.simulate import Effort
from hydra_dse.config import load_calibration, load_model, load_space, load_workload
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point, SearchSpace
from hydra_dse.estimator import estimate_designs
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.placement import place_design
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Arrivals, Lengths, RequestClass, Requests, Workload
from simulators.serving import System, run
from simulators.serving.build import build_system

SEEDS = {"placed-tuning": 4_2024, "placed-test": 9_2025}
SIZES = {"placed-tuning": 24, "placed-test": 120}
MODELS = ("nemotron-h-8b", "zamba2-7b", "bamba-9b")
WORKLOADS = ("hydra-chat", "azure-conversation")
SERVING = (("disaggregated", "chunked"), ("colocated", "chunked"), ("colocated", "prefill_first"))
EFFORT = Effort(2_000, 5_000, 4, 20_000, 2, 1_000)


@dataclass(frozen=True)
class PlacedCase:
    """One placed design under one workload.

    Attributes:
        name: of the set and its number in it.
        model, workload: bundled names; the workload gives the lengths.
        point: of hydra-24, in the order of the space's parameters.
        serving, batching: of the policy.
        arrivals: a process of rate 1; load: offered over simulated saturation rate.
    """

    name: str
    model: str
    workload: str
    point: tuple[tuple[str, float], ...]
    serving: str
    batching: str
    arrivals: Arrivals
    load: float
    scheduling: str = "fcfs"

    @property
    def made_of(self) -> str:
        """Everything that decides its results: where the dies are placed is found anew by each state of the program."""
        return f"{self!r} {slots_of(self)}"

    @property
    def max_batch(self) -> int:
        """Sequences in service."""
        return int(dict(self.point)["max_batch"])

    @property
    def lengths(self) -> Lengths:
        """Of the workload."""
        return workload_of(self.workload, self.model).classes[0].lengths

    @property
    def policy(self) -> str:
        """As in the other comparison."""
        return "disaggregated" if self.serving == "disaggregated" else self.batching

    @property
    def arrival_kind(self) -> str:
        """Poisson, gamma, regular or phases."""
        return arrivals_kind(self.arrivals)


@cache
def calibration() -> CalibrationSet:
    """The default one, taken as exact: both sides use it."""
    found = load_calibration("default")
    return replace(found, default=replace(found.default, relative_error=0.0))


@cache
def workload_of(workload: str, model: str) -> Workload:
    """A bundled workload with another model, without its record."""
    found = load_workload(workload)
    kind = found.classes[0]
    only = RequestClass(kind.name, kind.lengths)
    return replace(found, models=(load_model(model),), classes=(only,), replay=None, shifts=(), cycle_s=None)


@cache
def space() -> SearchSpace:
    """The space that all designs are of."""
    return load_space("hydra-24")


@cache
def _points() -> Sequence[Point]:
    return list(space().points())


def placed_cases(which: str, count: int | None = None) -> list[PlacedCase]:
    """The first cases of a set; those that no package holds are drawn again."""
    return [_case(which, number) for number in range(SIZES[which] if count is None else count)]


def _case(which: str, number: int) -> PlacedCase:
    rng = derive(SEEDS[which], "placed", number)
    low, high = BANDS[(number // 3) % 3]
    serving, batching = SERVING[number % 3]
    point = _points()[int(rng.integers(len(_points())))]
    return PlacedCase(
        name=f"{which}-{number:03d}",
        model=str(rng.choice(MODELS)),
        workload=str(rng.choice(WORKLOADS)),
        point=tuple((name, float(value)) for name, value in point.items()),
        serving=serving,
        batching=batching,
        arrivals=drawn_arrivals(rng),
        load=float(rng.uniform(low, high)),
    )


@cache
def design_of(case: PlacedCase) -> tuple[Design, str]:
    """The placed design, and why there is none."""
    point = {name: int(value) for name, value in case.point}
    plain = space().build(point)
    policy = replace(plain.policy, serving=case.serving, batching=case.batching)
    design, violations = place_design(replace(plain, policy=policy), load_model(case.model), 0)
    return design, violations[0].constraint if violations else ""


def slots_of(case: PlacedCase) -> tuple[int, ...]:
    """Where the dies and stacks of the design are placed; empty where no package holds it."""
    placement = design_of(case)[0].placement
    return () if placement is None else placement.slots


@cache
def _system(case: PlacedCase) -> System:
    return build_system(design_of(case)[0], load_model(case.model), calibration())[1]


def serve_placed(case: PlacedCase, requests: Requests, scheduling: str) -> Dates:
    """Serve requests on the placed package with `simulators.serving`."""
    system = _system(case)
    visits = run(replace(system, policy=replace(system.policy, scheduling=scheduling)), requests).visits
    return Dates(visits.first_token_s, visits.last_token_s, visits.preemptions)


def estimated_placed(case: PlacedCase, simulated_saturation_per_s: float) -> Estimated:
    """The estimate of the design at the rate that was simulated."""
    arrivals = case.arrivals.with_rate(case.load * simulated_saturation_per_s)
    workload = replace(workload_of(case.workload, case.model), arrivals=arrivals)
    table = estimate_designs([design_of(case)[0]], workload, calibration())
    return Estimated(
        {name: float(values[0]) for name, values in table.metrics.items()},
        {name: float(values[0]) for name, values in table.low.items()},
        {name: float(values[0]) for name, values in table.high.items()},
    )


def fits(case: PlacedCase) -> bool:
    """Whether the estimator knows a saturation rate above zero for the design."""
    if design_of(case)[1]:
        return False
    rate = estimated_placed(case, 1e-3).values.get("saturation_requests_per_s", np.nan)
    return bool(np.isfinite(rate) and rate > 0)
