"""The main job's second half: simulate the best designs of a run and hold the estimates against them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import Interrupted, NothingFeasible
from hydra_dse.results import METRICS, Evaluation
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import nondominated
from hydra_dse.studies.designs_table import ScoredDesigns, point_in
from hydra_dse.studies.executor import executor
from hydra_dse.studies.files import csv_bytes, locked
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.progress import ValidationProgress, ValidationState
from hydra_dse.studies.run_directory import RunDirectory, existing_run
from hydra_dse.studies.runs import designs_of, experiment_of
from hydra_dse.studies.selection import select
from hydra_dse.studies.simulating import Simulation, SimulationOfFile, simulate
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.studies.validation_table import (
    MetricError,
    ValidationRow,
    from_csv,
    relative_error,
    summary,
    to_csv,
)

VALIDATION, VALIDATED = "validation.csv", "pareto_validated.csv"


@dataclass(frozen=True)
class Chosen:
    """A design chosen for simulation, with its estimates."""

    identity: str
    rank: int
    point: Point
    estimates: Mapping[str, float]

    @property
    def load(self) -> float:
        """Estimated load, NaN where unknown."""
        return self.estimates.get("load", math.nan)


@dataclass(frozen=True)
class ValidationResult:
    """What a validation found.

    Attributes:
        chosen: the designs, in the order of choice.
        rows: one per design and metric.
        errors: median absolute errors by metric and load band.
        front: ids of the chosen designs that no other one dominates in simulation.
        resumed: designs taken from an earlier, interrupted validation.
    """

    run_dir: Path
    chosen: tuple[Chosen, ...]
    rows: tuple[ValidationRow, ...]
    errors: tuple[MetricError, ...]
    front: tuple[str, ...]
    resumed: int


def validate(
    run_dir: str | Path,
    *,
    top: int | None = None,
    requests: int | None = None,
    replications: int | None = None,
    workers: int = 1,
    progress: ValidationProgress | None = None,
    simulator: str = "serving",
    experiment: Experiment | None = None,
    simulation: Simulation | None = None,
) -> ValidationResult:
    """Simulate the best designs of a run; write `validation.csv` and `pareto_validated.csv`.

    A validation that was interrupted goes on where it stopped: designs that are in `validation.csv` with the
    same number of requests and replications are not simulated again.

    Args:
        run_dir: a run directory with scored designs.
        top: designs to simulate; by default what the experiment says, as for the two that follow.
        requests: requests per replication.
        replications: independent runs per design.
        workers: processes that simulate; 1 is this process.
        progress: told after every design.
        simulator: name in the entry-point group `hydra_dse.simulators`.
        experiment: the run's experiment where it is loaded already.
        simulation: simulates instead of that simulator.

    Raises:
        InputError: no run directory, a corrupt one, or no such simulator.
        NothingFeasible: the run has no feasible design to simulate.
        Interrupted: the user stopped; what was simulated is kept.
    """
    run = existing_run(run_dir)
    experiment = experiment or experiment_of(run)
    settings = experiment.validation
    options = EvaluationOptions(
        requests=requests or settings.requests,
        replications=replications or settings.replications,
        warmup_share=settings.warmup_share,
    )
    chosen = choose(experiment, designs_of(run), top or settings.top)
    if simulation is None:
        find_simulator(simulator)  # a missing simulator is told before any worker starts
        file = run.experiment_file.resolve()
        simulation = SimulationOfFile(str(file), simulator, digest_of(file))
    with locked(run.path):
        work = _Validation(run, experiment, chosen, options, progress)
        try:
            with executor(workers) as pool:
                work.go(pool, simulation)
        except KeyboardInterrupt:
            raise Interrupted(f"stopped; the designs simulated so far are kept in {run.path / VALIDATION}") from None
        return work.result()


def choose(experiment: Experiment, designs: ScoredDesigns, top: int) -> tuple[Chosen, ...]:
    """The designs to simulate, best first; see `selection`.

    Raises:
        NothingFeasible: no design is feasible.
    """
    objectives = Objectives.named(experiment.objectives)
    scores = designs.scores
    losses = objectives.scaled(objectives.losses(scores.metrics))
    load = scores.metrics.get("load", np.full(len(scores), np.nan))
    picked = select(losses, scores.violation, load, scores.identities, top)
    if not picked:
        raise NothingFeasible("the run has no feasible design to simulate")
    return tuple(
        Chosen(
            scores.identities[index],
            rank,
            point_in(experiment.space, designs.points[index]),
            {name: float(column[index]) for name, column in scores.metrics.items()},
        )
        for rank, index in enumerate(picked, start=1)
    )


class _Validation:
    """The loop, with the rows so far by design."""

    def __init__(
        self,
        run: RunDirectory,
        experiment: Experiment,
        chosen: tuple[Chosen, ...],
        options: EvaluationOptions,
        progress: ValidationProgress | None,
    ) -> None:
        self._run = run
        self._experiment = experiment
        self._chosen = chosen
        self._options = options
        self._progress = progress
        self._seed = experiment.search.seed
        self._rows = self._stored()
        self._resumed = len(self._rows)

    def go(self, pool: Executor, simulation: Simulation) -> None:
        """Simulate what is missing; write after every design."""
        self._tell("")
        waiting: dict[Future[Evaluation], Chosen] = {}
        for design in self._chosen:
            if design.identity not in self._rows:
                future = pool.submit(simulate, simulation, design.point, self._options, self._seed)
                if future.done():  # in this process: keep it before the next one starts
                    self._keep(design, future.result())
                else:
                    waiting[future] = design
        for future in as_completed(waiting):
            self._keep(waiting[future], future.result())
        self._write()

    def result(self) -> ValidationResult:
        """The result of a complete validation."""
        rows = self._ordered()
        return ValidationResult(
            self._run.path, self._chosen, rows, summary(rows), tuple(self._simulated_front()), self._resumed
        )

    def _keep(self, design: Chosen, evaluation: Evaluation) -> None:
        with uninterrupted():
            self._rows[design.identity] = rows_of(design, evaluation, self._options, self._seed)
            self._write()
        self._tell(design.identity)

    def _tell(self, identity: str) -> None:
        if self._progress is not None:
            self._progress.update(ValidationState(len(self._rows), len(self._chosen), identity))

    def _stored(self) -> dict[str, list[ValidationRow]]:
        """Rows of an earlier validation with the same settings, for the designs chosen now."""
        path = self._run.path / VALIDATION
        self._run.refuse_links(VALIDATION, VALIDATED)
        if not path.exists():
            return {}
        ranks = {design.identity: design.rank for design in self._chosen}
        found: dict[str, list[ValidationRow]] = {}
        mine = (self._options.requests, self._options.replications, self._seed)
        for row in from_csv(path.read_bytes(), str(path)):
            if row.design in ranks and (row.requests, row.replications, row.seed) == mine:
                found.setdefault(row.design, []).append(replace(row, rank=ranks[row.design]))
        return found

    def _ordered(self) -> tuple[ValidationRow, ...]:
        return tuple(row for design in self._chosen for row in self._rows.get(design.identity, ()))

    def _write(self) -> None:
        self._run.write(VALIDATION, to_csv(self._ordered()))
        self._run.write(VALIDATED, self._pareto())

    def _simulated(self) -> tuple[list[Chosen], dict[str, list[float]]]:
        """Designs with a simulated value for every objective, and those values by objective."""
        names = self._experiment.objectives
        values = {
            design.identity: {row.metric: row.simulated for row in self._rows.get(design.identity, ())}
            for design in self._chosen
        }
        whole = [
            design
            for design in self._chosen
            if all(math.isfinite(values[design.identity].get(name, math.nan)) for name in names)
        ]
        return whole, {name: [values[design.identity][name] for design in whole] for name in names}

    def _simulated_front(self) -> list[str]:
        whole, values = self._simulated()
        if not whole:
            return []
        losses = Objectives.named(self._experiment.objectives).losses(
            {name: np.array(column) for name, column in values.items()}
        )
        return [whole[index].identity for index in np.flatnonzero(nondominated(losses)).tolist()]

    def _pareto(self) -> bytes:
        """Every simulated design: parameters, objectives as estimated and as simulated, and whether it is best."""
        best = self._simulated_front()
        names = self._experiment.objectives
        whole, values = self._simulated()
        parameters = list(self._chosen[0].point)
        sides = [f"{name}:{side}" for name in names for side in ("estimate", "simulated")]
        rows = [
            [
                design.identity,
                *design.point.values(),
                *(side for name in names for side in (design.estimates[name], values[name][index])),
                str(design.identity in best).lower(),
            ]
            for index, design in enumerate(whole)
        ]
        return csv_bytes(["design", *parameters, *sides, "on_simulated_front"], rows)


def rows_of(design: Chosen, evaluation: Evaluation, options: EvaluationOptions, seed: int) -> list[ValidationRow]:
    """One row per metric that is estimated or simulated, in the order of the registry."""
    names = [*METRICS, *sorted(name for name in {*design.estimates, *evaluation.metrics} if name not in METRICS)]
    rows = []
    for name in names:
        estimate = design.estimates.get(name, math.nan)
        found = evaluation.metrics.get(name)
        simulated = math.nan if found is None else float(found)
        if math.isfinite(estimate) or math.isfinite(simulated):
            low, high = evaluation.intervals.get(name, (math.nan, math.nan))
            error = relative_error(estimate, simulated)
            counts = (options.requests, options.replications, seed)
            rows.append(
                ValidationRow(
                    design.identity, design.rank, design.load, name, estimate, simulated, low, high, error, *counts
                )
            )
    return rows
