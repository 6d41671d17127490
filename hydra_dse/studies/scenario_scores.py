"""Scores under scenarios, in any executor and with a journal: tasks that are finished are not computed again.

A task is one scenario and at most 256 points.  Tasks are cut by the points alone, never by the number of workers or
by what the journal holds, so that every bit of a result is the same however a study was run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Protocol

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import Violation
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import ScenarioEstimator
from hydra_dse.search.scores import ScoreTable, concatenate
from hydra_dse.studies.cases import CaseJournal, Record, case_key
from hydra_dse.studies.journaled import records_of

POINTS_A_TASK = 256


class EstimatorFactory(Protocol):
    """Makes the estimator of some scenarios; hashable, and picklable where it travels to another process."""

    def __call__(self) -> ScenarioEstimator:
        """Return the estimator."""

    def __hash__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class ScenariosHere:
    """The estimator of an experiment that is loaded already."""

    experiment: Experiment
    references: References
    metrics: tuple[str, ...]

    def __call__(self) -> ScenarioEstimator:
        """Return the estimator."""
        return ScenarioEstimator(self.references.applied(self.experiment), self.metrics)


@dataclass(frozen=True)
class ScenariosOfStored:
    """The estimator of a stored experiment, loaded where it works."""

    path: str
    references: References
    metrics: tuple[str, ...]

    def __call__(self) -> ScenarioEstimator:
        """Load the experiment and return its estimator."""
        from hydra_dse.config import load_experiment

        return ScenarioEstimator(self.references.applied(load_experiment(self.path)), self.metrics)


class ScenarioScores:
    """Scores points under scenarios.

    Args:
        factory: makes the factory of estimators at the rates of some references.
        pool: where tasks run.
        journal: of finished tasks.
        told: called with the number of designs × scenarios of every task that is finished.
    """

    def __init__(
        self,
        factory: Callable[[References], EstimatorFactory],
        pool: Executor,
        journal: CaseJournal,
        told: Callable[[int], None],
    ) -> None:
        self._factory = factory
        self._pool = pool
        self._journal = journal
        self._told = told

    def of(
        self, references: References, names: Sequence[str], points: Sequence[Point], made_for: Sequence[str]
    ) -> dict[str, ScoreTable]:
        """Scores of the points under the named scenarios, their packages placed for the models of `made_for`."""
        factory = self._factory(References(references.rates))
        cuts = [points[start : start + POINTS_A_TASK] for start in range(0, len(points), POINTS_A_TASK)]
        tasks = [(name, list(cut)) for name in names for cut in cuts]
        cases = [
            (
                case_key("score", name, *made_for, "rates", *references.rates, "points", *cut),
                partial(_record, factory, name, cut, tuple(made_for)),
            )
            for name, cut in tasks
        ]
        found: dict[str, list[ScoreTable]] = {name: [] for name in names}
        for (name, cut), record in zip(tasks, records_of(cases, self._journal, self._pool), strict=True):
            found[name].append(table_of(record))
            self._told(len(cut))
        return {name: concatenate(tables) for name, tables in found.items()}

    def each_for_itself(
        self, references: References, names: Sequence[str], points: Sequence[Point]
    ) -> dict[str, ScoreTable]:
        """Scores under each scenario of packages placed for its own models."""
        return {name: self.of(references, [name], points, [name])[name] for name in names}


def _record(factory: EstimatorFactory, name: str, points: list[Point], made_for: tuple[str, ...]) -> Record:
    return record_of(_estimator(factory).score([name], points, made_for)[name])


@lru_cache(maxsize=4)
def _estimator(factory: EstimatorFactory) -> ScenarioEstimator:
    return factory()


def record_of(table: ScoreTable) -> Record:
    """A score table as plain data for a journal."""
    broken = [
        [row, violation.constraint, violation.demand, violation.bound, violation.unit, list(violation.levers)]
        for row, violations in enumerate(table.violations)
        for violation in violations
    ]
    metrics = {name: np.asarray(values, dtype=np.float64).tolist() for name, values in table.metrics.items()}
    return {"designs": list(table.identities), "metrics": metrics, "broken": broken}


def table_of(record: Record) -> ScoreTable:
    """The score table that `record_of` made a record of."""
    violations: list[list[Violation]] = [[] for _ in record["designs"]]
    for row, constraint, demand, bound, unit, levers in record["broken"]:
        violations[row].append(Violation(constraint, demand, bound, unit, tuple(levers)))
    metrics = {name: np.array(values, dtype=np.float64) for name, values in record["metrics"].items()}
    return ScoreTable(tuple(record["designs"]), metrics, tuple(tuple(broken) for broken in violations))
