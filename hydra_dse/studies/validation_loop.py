"""The loop of a validation: simulate, refine what is undecided, promote what simulation puts on the front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.results import METRICS, Evaluation
from hydra_dse.search.objectives import Objectives
from hydra_dse.studies.chosen import Chosen, chosen_rows
from hydra_dse.studies.designs_table import ScoredDesigns
from hydra_dse.studies.dominance import statuses, to_be_refined
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.front_check import PROMOTED, FrontCheck, check_front
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.latency_table import LATENCIES, Tables, read_latencies
from hydra_dse.studies.latency_table import to_parquet as latencies_to_parquet
from hydra_dse.studies.progress import ValidationProgress, ValidationState
from hydra_dse.studies.promotion import promoted
from hydra_dse.studies.run_directory import RunDirectory
from hydra_dse.studies.simulated_front import SimulatedFront
from hydra_dse.studies.simulating import Simulation, simulate
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
class Budget:
    """How every design is simulated, and how many replications an undecided one may get."""

    options: EvaluationOptions
    max_replications: int


@dataclass(frozen=True)
class ValidationResult:
    """What a validation found.

    Attributes:
        chosen: the designs, in the order of choice.
        rows: one per design and metric.
        errors: median absolute errors by metric and load band.
        front: ids of the simulated designs that no other one dominates in simulation.
        resumed: designs taken from an earlier, interrupted validation.
        status: by design: on the front, dominated, or undecided at 95 % confidence.
        check: whether the estimates order the designs well, and what the choice overlooked; None without simulation.
        notes: what a reader must know of the runs.
    """

    run_dir: Path
    chosen: tuple[Chosen, ...]
    rows: tuple[ValidationRow, ...]
    errors: tuple[MetricError, ...]
    front: tuple[str, ...]
    resumed: int
    status: Mapping[str, str]
    check: FrontCheck | None
    notes: tuple[str, ...] = ()


class ValidationLoop:
    """Simulates designs in rounds and keeps the rows so far by design."""

    def __init__(
        self,
        run: RunDirectory,
        experiment: Experiment,
        designs: ScoredDesigns,
        chosen: tuple[Chosen, ...],
        budget: Budget,
        progress: ValidationProgress | None,
    ) -> None:
        self._run = run
        self._experiment = experiment
        self._designs = designs
        self._chosen = chosen
        self._options, self._most = budget.options, budget.max_replications
        self._progress = progress
        self._seed = experiment.search.seed
        self._objectives = Objectives.named(experiment.objectives)
        self._earlier = self._stored()
        names = [design.identity for design in chosen]
        self._rows = {name: self._earlier[name] for name in names if name in self._earlier}
        self._resumed = len(self._rows)
        self._latencies: dict[str, Tables] = read_latencies(run, self._options.requests, self._seed)
        self._stable: bool | None = None
        self._rounds = 0

    def go(self, pool: Executor, simulation: Simulation, rounds: int) -> None:
        """Simulate what is missing; with `rounds`, promote until the front is stable or they are used up."""
        self._simulate(pool, simulation, self._missing())
        self._refine(pool, simulation)
        while rounds and self._stable is None:
            added = self._promotions() if self._rounds < rounds else ()
            if not added:
                self._stable = self._rounds < rounds
                break
            self._rounds += 1
            self._chosen += added
            for design in added:
                if design.identity in self._earlier:
                    self._rows[design.identity] = self._as_now(design, self._earlier[design.identity])
            self._simulate(pool, simulation, self._missing())
            self._refine(pool, simulation)
        self._write()

    @property
    def pending(self) -> int:
        """Designs that are not simulated yet."""
        return len(self._missing())

    def result(self) -> ValidationResult:
        """The result of a complete validation."""
        rows, front = self._ordered(), self._front()
        check = None
        if front.designs:
            roles = [design.role for design in self._chosen if design.identity in front.designs]
            check = check_front(self._objectives, roles, front.estimates, front.simulated, front.losses)
            check = replace(check, stable=self._stable, rounds=self._rounds)
        return ValidationResult(
            self._run.path,
            self._chosen,
            rows,
            summary(rows),
            front.best,
            self._resumed,
            dict(zip(front.designs, statuses(front.losses), strict=True)),
            check,
        )

    # -- rounds -------------------------------------------------------------------------------------------------

    def _missing(self) -> list[tuple[Chosen, int]]:
        wanted = self._options.replications
        return [(design, wanted) for design in self._chosen if design.identity not in self._rows]

    def _refine(self, pool: Executor, simulation: Simulation) -> None:
        """Double the replications of designs whose place is undecided, as far as the budget goes."""
        while True:
            front = self._front()
            doubtful = {front.designs[index] for index in to_be_refined(front.losses)} if front.designs else set()
            again = [
                (design, min(2 * self._replications(design), self._most))
                for design in self._chosen
                if design.identity in doubtful and self._replications(design) < self._most
            ]
            if not again:
                return
            self._simulate(pool, simulation, again)

    def _promotions(self) -> tuple[Chosen, ...]:
        front = self._front()
        if not front.designs:
            return ()
        rows = promoted(self._objectives, self._designs, front, len(self._chosen))
        return chosen_rows(self._experiment, self._designs, rows, PROMOTED, len(self._chosen) + 1)

    def _simulate(self, pool: Executor, simulation: Simulation, wanted: Sequence[tuple[Chosen, int]]) -> None:
        """Simulate designs with these replications; write after every design."""
        self._tell("")
        waiting: dict[Future[Evaluation], tuple[Chosen, EvaluationOptions]] = {}
        for design, replications in wanted:
            options = replace(self._options, replications=replications)
            future = pool.submit(simulate, simulation, design.point, options, self._seed)
            if future.done():  # in this process: keep it before the next one starts
                self._keep(design, options, future.result())
            else:
                waiting[future] = design, options
        for future in as_completed(waiting):
            self._keep(*waiting[future], future.result())

    def _keep(self, design: Chosen, options: EvaluationOptions, evaluation: Evaluation) -> None:
        with uninterrupted():
            self._rows[design.identity] = rows_of(design, evaluation, options, self._seed)
            self._latencies[design.identity] = evaluation.distributions
            self._write()
        self._tell(design.identity)

    def _tell(self, identity: str) -> None:
        if self._progress is not None:
            self._progress.update(ValidationState(len(self._rows), len(self._chosen), identity))

    # -- rows ---------------------------------------------------------------------------------------------------

    def _replications(self, design: Chosen) -> int:
        rows = self._rows.get(design.identity, ())
        return rows[0].replications if rows else self._most

    def _stored(self) -> dict[str, list[ValidationRow]]:
        """Rows of an earlier validation with the same requests and seed and enough replications, by design."""
        path = self._run.path / VALIDATION
        self._run.refuse_links(VALIDATION, VALIDATED, LATENCIES)
        if not path.exists():
            return {}
        ranks = {design.identity: design for design in self._chosen}
        found: dict[str, list[ValidationRow]] = {}
        for row in from_csv(path.read_bytes(), str(path)):
            same = (row.requests, row.seed) == (self._options.requests, self._seed)
            if same and self._options.replications <= row.replications <= self._most:
                found.setdefault(row.design, []).append(row)
        return {name: self._as_now(ranks[name], rows) if name in ranks else rows for name, rows in found.items()}

    @staticmethod
    def _as_now(design: Chosen, rows: Sequence[ValidationRow]) -> list[ValidationRow]:
        return [replace(row, rank=design.rank, role=design.role) for row in rows]

    def _ordered(self) -> tuple[ValidationRow, ...]:
        return tuple(row for design in self._chosen for row in self._rows.get(design.identity, ()))

    def _front(self) -> SimulatedFront:
        return SimulatedFront.of(self._objectives, [design.identity for design in self._chosen], self._rows)

    def _write(self) -> None:
        # First: a design that is in the table of metrics is not simulated again.
        of = {design.identity: self._latencies.get(design.identity, {}) for design in self._chosen}
        of = {identity: tables for identity, tables in of.items() if identity in self._rows}
        if any(of.values()) or (self._run.path / LATENCIES).exists():
            self._run.write(LATENCIES, latencies_to_parquet(of, self._options.requests, self._seed))
        self._run.write(VALIDATION, to_csv(self._ordered()))
        self._run.write(VALIDATED, self._pareto())

    def _pareto(self) -> bytes:
        """Every simulated design: parameters, objectives as estimated and as simulated, and its place."""
        front = self._front()
        by_id = {design.identity: design for design in self._chosen}
        status = statuses(front.losses) if front.designs else ()
        parameters = list(self._chosen[0].point)
        sides = [f"{name}:{side}" for name in front.names for side in ("estimate", "simulated", "low", "high")]
        rows = []
        for index, identity in enumerate(front.designs):
            design = by_id[identity]
            values = [value for name in front.names for value in front.sides(name, index)]
            place = [str(identity in front.best).lower(), status[index], design.role, self._replications(design)]
            rows.append([identity, *design.point.values(), *values, *place])
        ends = ["on_simulated_front", "status_95", "role", "replications"]
        return csv_bytes(["design", *parameters, *sides, *ends], rows)


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
            rows.append(
                ValidationRow(
                    design.identity, design.rank, design.load, name, estimate, simulated, low, high,
                    relative_error(estimate, simulated), options.requests, options.replications, seed, design.role,
                )
            )  # fmt: skip
    return rows
