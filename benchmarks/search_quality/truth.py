"""Spaces small enough to score whole: every design's scores on disk, in blocks, and a scorer that looks them up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import Violation
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.exhaustive import generations
from hydra_dse.search.outer import OuterSpace
from hydra_dse.search.scores import Scorer, ScoreTable, constrained

_OUTER_AT_A_TIME = 32


def enumerate_space(experiment: Experiment, folder: Path, scorer: Scorer | None = None) -> Path:
    """Score the whole space, a file per block of outer points; blocks that lie in the folder are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, batch in enumerate(generations(OuterSpace(experiment.space), _OUTER_AT_A_TIME)):
        path = folder / f"{number:06d}.npz"
        if path.is_file():
            continue
        scorer = scorer or EstimatorScorer(experiment)
        points = [point for candidate in batch for point in candidate.points]
        table = constrained(scorer.score(points), experiment.objectives, experiment.bounds)
        values = np.stack([table.metrics[name] for name in experiment.objectives], axis=-1)
        part = path.with_suffix(".part.npz")
        np.savez(part, values=values, violation=table.violation, identities=np.array(table.identities))
        part.replace(path)
    return folder


class Lookup:
    """Scores that are known: of a design the same in any company, to rounding."""

    def __init__(self, experiment: Experiment, folder: Path) -> None:
        self._names = experiment.objectives
        values, violation, identities = [], [], []
        rows: list[tuple[object, ...]] = []
        for number, batch in enumerate(generations(OuterSpace(experiment.space), _OUTER_AT_A_TIME)):
            with np.load(folder / f"{number:06d}.npz") as block:
                values.append(block["values"])
                violation.append(block["violation"])
                identities.append(block["identities"])
            rows += [tuple(point.values()) for candidate in batch for point in candidate.points]
        self._row = {key: index for index, key in enumerate(rows)}
        self.values, self.violation = np.concatenate(values), np.concatenate(violation)
        self._identities = np.concatenate(identities)

    def __len__(self) -> int:
        return len(self._row)

    def score(self, points: Sequence[Point]) -> ScoreTable:
        rows = [self._row[tuple(point.values())] for point in points]
        broken = [
            (Violation("known", 1.0 + excess, 1.0, "1"),) if excess > 0 else () for excess in self.violation[rows]
        ]
        metrics = {name: self.values[rows, column] for column, name in enumerate(self._names)}
        return ScoreTable(tuple(self._identities[rows].tolist()), metrics, tuple(broken))
