"""One run of a study of task maps: metrics, and service by the time since the last shift."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError
from hydra_dse.records import IterationBlock, IterationRecord, Visit
from hydra_dse.rng import derive
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.studies.dynamic_course import course_of
from hydra_dse.studies.dynamic_loads import Load, loads_of, requests_for
from hydra_dse.studies.estimating import stored_experiment
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.workload import served
from hydra_dse.workload.nouns import Slo, Workload

BINS = 20
"""Parts of a phase by which service after a shift is told."""
METRICS = (
    "slo_attainment",
    "ttft_p99_s",
    "ttft_mean_s",
    "tpot_mean_s",
    "tpot_p99_s",
    "goodput_requests_per_s",
    "throughput_requests_per_s",
)
STATIC, ELASTIC = "static", "elastic"


@dataclass(frozen=True)
class MapRun:
    """One simulation: a task map, a load by name and mean rate, and the number of the replication."""

    task_map: str
    load: str
    rate_per_s: float
    replication: int


@dataclass(frozen=True)
class MapSimulation:
    """Simulates one package under task maps and loads of a stored experiment; picklable.

    Attributes:
        digest: of the file, so that a process reads it again when it has changed.
    """

    path: str
    point: Point
    digest: str
    simulator: str = "serving"

    def __hash__(self) -> int:
        return hash((self.path, self.digest))

    def run(self, run: MapRun) -> dict[str, Any]:
        """Metrics of the run, and counts by phase and time since its start."""
        experiment = stored_experiment(self.path, self.digest)
        settings = experiment.dynamic
        if settings is None:
            raise InputError(Fault("the experiment has no section 'dynamic'", file=self.path))
        loads = loads_of(experiment.workload, settings, run.rate_per_s)
        load = next(load for load in loads if load.name == run.load)
        validation = experiment.validation
        count = requests_for(load, settings, validation.requests, validation.warmup_share)
        options = EvaluationOptions(count, 1, validation.warmup_share, saturate=False)
        seed = int(derive(experiment.search.seed, "task maps", run.replication).integers(2**62))
        visits = _Visits()
        design = with_map(placed_design(experiment, self.point), run.task_map, experiment)
        engine = find_simulator(self.simulator)
        [found] = engine.evaluate([design], load.workload, experiment.calibration, options, seed, visits)
        metrics = {name: found.metrics.get(name) for name in METRICS}
        late = [visit for visit in visits.kept if visit.request >= validation.warmup_share * count]
        told = by_time_since_shift(late, load)
        course = course_of(visits.kept, load, int(np.ceil(validation.warmup_share * count)), BINS)
        told = [{**phase, **more} for phase, more in zip(told, course, strict=True)] if course else told
        return {"metrics": metrics, "phases": told, "requests": count}


def placed_design(experiment: Experiment, point: Point) -> Design:
    """The design of a point, placed for the experiment's models.

    Raises:
        InputError: it cannot be placed.
    """
    from hydra_dse.placement import place_design

    models = [kind.model for kind in served(experiment.workload)]
    placed, violations = place_design(experiment.space.build(point), models, PLACEMENT_SEED)
    if violations:
        raise InputError(Fault(f"the design cannot be placed: {violations[0]}"))
    return placed


def with_map(design: Design, task_map: str, experiment: Experiment) -> Design:
    """The same package and policy with another task map."""
    policy, settings = replace(design.policy, task_map=task_map), experiment.dynamic
    if settings is not None and task_map == ELASTIC:
        roles = settings.policy
        policy = replace(
            policy,
            role_up_prompts=roles["role_up_prompts"],
            role_down_prompts=roles["role_down_prompts"],
            role_unit_dies=roles["role_unit_dies"],
            role_units_to_prefill=roles["role_units_to_prefill"],
            role_units_to_decode=roles["role_units_to_decode"],
        )
    return replace(design, policy=policy)


def by_time_since_shift(visits: Sequence[Visit], load: Load) -> list[dict[str, list[float]]]:
    """By phase of the cycle: requests, requests that met their SLO, and sums of TTFT, by part of the phase."""
    if load.cycle_s is None:
        return []
    starts = np.array(load.starts_s)
    lengths = np.diff([*load.starts_s, load.cycle_s])
    arrival = np.array([visit.arrival_s for visit in visits])
    met = np.array([meets(visit, load.workload) for visit in visits], dtype=float)
    wait = np.array([visit.first_token_s - visit.arrival_s for visit in visits])
    since = np.mod(arrival, load.cycle_s)
    phase = np.searchsorted(starts, since, side="right") - 1
    part = np.minimum(((since - starts[phase]) / lengths[phase] * BINS).astype(int), BINS - 1)
    told = []
    for number in range(len(starts)):
        mine = part[phase == number]
        told.append(
            {
                "requests": np.bincount(mine, minlength=BINS).astype(float).tolist(),
                "met": np.bincount(mine, met[phase == number], minlength=BINS).tolist(),
                "ttft_s": np.bincount(mine, wait[phase == number], minlength=BINS).tolist(),
            }
        )
    return told


def meets(visit: Visit, workload: Workload) -> bool:
    """Whether a request met the SLO of its class; one that was not served did not."""
    slo: Slo = workload.classes[visit.class_index].slo
    ttft = visit.first_token_s - visit.arrival_s
    steps = visit.output_tokens - 1
    tpot = (visit.last_token_s - visit.first_token_s) / steps if steps > 0 else 0.0
    if math.isnan(ttft) or math.isnan(tpot):
        return False
    return (slo.ttft_s is None or ttft <= slo.ttft_s) and (slo.tpot_s is None or tpot <= slo.tpot_s)


class _Visits:
    """Keeps visits and drops all else."""

    def __init__(self) -> None:
        self.kept: list[Visit] = []

    def visit(self, record: Visit) -> None:
        """Keep it."""
        self.kept.append(record)

    def iteration(self, record: IterationRecord) -> None:
        """Drop it."""

    def iteration_block(self, block: IterationBlock) -> None:
        """Drop it."""
