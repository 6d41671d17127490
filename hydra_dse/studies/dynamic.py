"""Which task map serves a load that shifts?  One package, all maps, in simulation with the same requests.

The package is the best that a search finds for the mean mix under the first map, by the experiment's first objective,
of those whose dies can change roles.
The rate is a share of the highest one at which it keeps its promises there.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.experiment import DynamicSettings, Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError, NothingFeasible
from hydra_dse.mapping.roles import role_plan
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.estimating import MAX_RATE, EstimatorScorer
from hydra_dse.search.scores import ScoreTable, constrained
from hydra_dse.search.study import Search
from hydra_dse.studies.cases import CaseJournal, case_key
from hydra_dse.studies.dynamic_files import write_dynamic
from hydra_dse.studies.dynamic_loads import Load, loads_of, mean_shares, steady
from hydra_dse.studies.dynamic_simulation import ELASTIC, STATIC, MapRun, MapSimulation, with_map
from hydra_dse.studies.dynamic_tables import CourseRow, Gain, MapRow, course_rows, gains_of, rows_of
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.journaled import journaled, records_of
from hydra_dse.studies.progress import StudyProgress, StudyState
from hydra_dse.studies.run_directory import RunDirectory, open_run
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.workload.sampling import arrival_statistics, at_rate
from hydra_dse.workload.shifts import phases

CASES = "cases.jsonl"


@dataclass(frozen=True)
class DynamicResult:
    """What a study of task maps found.

    Attributes:
        design, point: the package; max_rate: its highest rate that meets the SLO, mean mix, estimated.
        rows: by share of that rate, load and map.
        gains: of every map over the first.
        resumed: simulations read from an earlier, interrupted study.
        course: service and queues over the cycle of shifting loads.
    """

    run_dir: Path
    design: str
    point: Point
    max_rate: float
    settings: DynamicSettings
    rows: tuple[MapRow, ...]
    gains: tuple[Gain, ...]
    resumed: int
    course: tuple[CourseRow, ...] = ()


def dynamic(
    experiment: Experiment,
    run_dir: str | Path,
    *,
    workers: int = 1,
    resume: bool = False,
    progress: StudyProgress | None = None,
    command: Sequence[str] = (),
    cluster: str | None = None,
) -> DynamicResult:
    """Compare task maps on loads at rest and on shifting ones; write the run directory.

    Args:
        experiment: with a section `dynamic`; `validation` says how many requests and replications.
        run_dir: new or empty, or with `resume` that of an unfinished study.
        workers: processes that simulate.
        resume: go on; what is in the journal is not simulated again.
        progress: told after every simulation.
        command: the command line, for provenance.
        cluster: address of a Dask scheduler whose workers simulate instead; they must see the run directory.

    Raises:
        InputError: no such section, a mistake in the experiment, or the directory holds something else.
        NothingFeasible: no design keeps the promises of the mean mix at any rate.
        Interrupted: the user stopped; `resume` goes on.
    """
    if experiment.dynamic is None:
        raise InputError(Fault("a study of task maps needs a section 'dynamic'", path="dynamic"))
    find_simulator()
    run = open_run(Path(run_dir), experiment, resume=resume, command=command)
    with journaled(run, CASES, workers, "cases", cluster) as (journal, pool):
        return _study(experiment, experiment.dynamic, run, journal, pool, progress)


def _study(
    experiment: Experiment,
    settings: DynamicSettings,
    run: RunDirectory,
    journal: CaseJournal,
    pool: Executor,
    progress: StudyProgress | None,
) -> DynamicResult:
    point, identity, max_rate = _package(experiment, journal)
    _check_maps(experiment, point)
    file = run.experiment_file.resolve()
    simulation = MapSimulation(str(file), point, digest_of(file))
    rates = {share: share * max_rate for share in settings.loads}
    loads = {share: loads_of(experiment.workload, settings, rate) for share, rate in rates.items()}
    runs = [
        MapRun(task_map, load.name, rates[share], number)
        for share in settings.loads
        for load in loads[share]
        for task_map in settings.task_maps
        for number in range(experiment.validation.replications)
    ]
    records = _simulated(runs, simulation, journal, pool, progress)
    promised = max(kind.slo.percentile for kind in experiment.workload.classes)
    rows: list[MapRow] = []
    gains: list[Gain] = []
    course: list[CourseRow] = []
    for share, rate in rates.items():
        rows += rows_of(records, loads[share], settings.task_maps, share, rate, promised)
        gains += gains_of(records, loads[share], settings.task_maps, share, rate)
        course += course_rows(records, loads[share], settings.task_maps, share, rate)
    found = (run.path, identity, point, max_rate, settings, tuple(rows), tuple(gains), journal.resumed)
    result = DynamicResult(*found, tuple(course))
    write_dynamic(run, result)
    return result


def _check_maps(experiment: Experiment, point: Point) -> None:
    policy = experiment.space.build(point).policy
    if policy.serving != "disaggregated" or policy.task_map != STATIC or policy.batching == "static":
        message = "task maps are compared on packages with two pools: give the space a policy that is disaggregated"
        raise InputError(Fault(f"{message}, with open batches and a static map", path="space"))


def _package(experiment: Experiment, journal: CaseJournal) -> tuple[Point, str, float]:
    """The best design for the mean mix, and its highest rate."""
    record = journal.get("package")
    if record is None:
        point, identity, rate = _searched(experiment)
        record = {"point": dict(point), "design": identity, "max_rate": rate}
        with uninterrupted():
            journal.add("package", record)
    return dict(record["point"]), str(record["design"]), float(record["max_rate"])


def _searched(experiment: Experiment) -> tuple[Point, str, float]:
    parts = phases(experiment.workload)
    rate = arrival_statistics(experiment.workload).rate_per_s
    mean = at_rate(steady(experiment.workload, mean_shares(parts)), rate)
    wanted = replace(experiment, workload=mean, objectives=tuple(dict.fromkeys([*experiment.objectives, MAX_RATE])))
    scorer, search = EstimatorScorer(wanted), Search(wanted)
    best: tuple[float, str, Point, float] | None = None
    first = search.objectives.metrics[0]
    while batch := search.propose():
        tables: list[ScoreTable] = []
        for candidate in batch:
            table = constrained(scorer.score(candidate.points), wanted.objectives, wanted.bounds)
            tables.append(table)
            signs = -1.0 if first.direction == MAXIMISE else 1.0
            for row in np.flatnonzero([not broken for broken in table.violations]).tolist():
                highest = float(table.metrics[MAX_RATE][row])
                rank = (signs * float(table.metrics[first.name][row]), table.identities[row])
                better = highest > 0.0 and (best is None or rank < best[:2])
                if better and _can_move(experiment, candidate.points[row]):
                    best = (*rank, candidate.points[row], highest)
        search.take(batch, tables)
    if best is None:
        message = "no design whose dies can take the roles of the maps keeps the promises of the mean mix at any rate"
        raise NothingFeasible(f"{message}; relax the SLO, raise search.trials, or name other maps")
    return best[2], best[1], best[3]


def _can_move(experiment: Experiment, point: Point) -> bool:
    """Whether the dies of a package can change roles, where elastic maps are compared."""
    if experiment.dynamic is None or ELASTIC not in experiment.dynamic.task_maps:
        return True
    design = with_map(experiment.space.build(point), ELASTIC, experiment)
    return design.policy.serving == "disaggregated" and len(role_plan(design).states) > 1


def _simulated(
    runs: Sequence[MapRun],
    simulation: MapSimulation,
    journal: CaseJournal,
    pool: Executor,
    progress: StudyProgress | None,
) -> dict[MapRun, dict[str, Any]]:
    cases = [(case_key("map", run), partial(simulation.run, run)) for run in runs]
    records: dict[MapRun, dict[str, Any]] = {}
    for number, (run, record) in enumerate(zip(runs, records_of(cases, journal, pool), strict=True)):
        records[run] = dict(record)
        if progress is not None:
            progress.update(StudyState(number + 1, len(runs), f"{run.task_map}, {run.load}"))
    return records


__all__ = ["CASES", "DynamicResult", "Load", "dynamic"]
