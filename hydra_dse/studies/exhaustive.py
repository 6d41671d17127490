"""Score every design of a space: the front that a search is measured against, and how much of it a search finds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.search.archive import Archive
from hydra_dse.search.exhaustive import generations
from hydra_dse.search.hypervolume import hypervolume, reference_beyond
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.outer import OuterSpace
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.scores import ScoreTable, concatenate, constrained
from hydra_dse.search.variants import Candidate
from hydra_dse.studies.designs_table import ScoredDesigns, joined
from hydra_dse.studies.estimating import EstimatorOf
from hydra_dse.studies.executor import ScorerFactory, collected, executor, runs_beside, submitted
from hydra_dse.studies.progress import SweepProgress, SweepState

_OUTER_AT_A_TIME = 128
"""Outer points scored at once."""


@dataclass(frozen=True)
class ExhaustiveResult:
    """Every design of a space, scored.

    Attributes:
        front: losses of the front, shape (designs, objectives).
        identities: ids of the front, in the same order.
    """

    designs: ScoredDesigns
    objectives: Objectives
    front: FloatArray
    identities: tuple[str, ...]
    feasible: int

    def share_of(self, losses: FloatArray, *, scaled: bool = True) -> float:
        """Share of the front's hypervolume that other losses reach, 0 to 1.

        The reference lies a tenth of the front's extent beyond its worst value in each objective; this leaves
        the ends of the front a volume, and counts nothing for designs that are worse than the whole front.

        Args:
            losses: of the designs found, shape (designs, objectives).
            scaled: on the scale of `Objectives.scaled` (logarithmic), else on the metrics' own.
        """
        scale = self.objectives.scaled if scaled else np.asarray
        truth, found = scale(self.front), scale(losses)
        reference = reference_beyond(truth.max(axis=0), np.ptp(truth, axis=0))
        return hypervolume(found, reference) / hypervolume(truth, reference)


def exhaustive(
    experiment: Experiment,
    *,
    workers: int = 1,
    progress: SweepProgress | None = None,
    scorer: ScorerFactory | None = None,
) -> ExhaustiveResult:
    """Score the whole space of an experiment, under its objectives and bounds.

    Args:
        experiment: its search settings are not used.
        workers: processes that score; with more than one a `scorer` that travels is needed.
        progress: told after every batch.
        scorer: makes the scorer in each process; the estimator's, in this process, by default.
    """
    space, objectives = OuterSpace(experiment.space), Objectives.named(experiment.objectives)
    archive = Archive(objectives)
    parts: list[ScoredDesigns] = []
    trials = 0
    total = space.combinations * space.inner_count
    with executor(workers) as pool:
        for number, (batch, tables) in enumerate(_scored(pool, scorer or EstimatorOf(experiment), space)):
            scores = constrained(concatenate(tables), experiment.objectives, experiment.bounds)
            points = tuple(point for candidate in batch for point in candidate.points)
            numbers = [trials + index for index, one in enumerate(batch) for _ in one.points]
            archive.add(scores.identities, objectives.losses(scores.metrics), scores.violation)
            parts.append(ScoredDesigns(points, (number,) * len(points), tuple(numbers), scores))
            trials += len(batch)
            if progress is not None:
                counts = (number, archive.feasible, len(archive))
                progress.update(SweepState(archive.scored, total, 0, *counts, archive.best(), archive.hypervolume()))
    return ExhaustiveResult(joined(parts), objectives, archive.losses, archive.identities, archive.feasible)


def _scored(
    pool: Executor, scorer: ScorerFactory, space: OuterSpace
) -> Iterator[tuple[list[Candidate], list[ScoreTable]]]:
    """Batches of the space with their scores, in order; the next is at work while this process takes one."""
    ahead = 1 if runs_beside(pool) else 0
    waiting: deque[tuple[list[Candidate], list[Future[list[ScoreTable]]]]] = deque()
    for batch in generations(space, _OUTER_AT_A_TIME):
        waiting.append((batch, submitted(pool, scorer, [candidate.points for candidate in batch])))
        if len(waiting) > ahead:
            done, tasks = waiting.popleft()
            yield done, collected(tasks)
    for done, tasks in waiting:
        yield done, collected(tasks)
