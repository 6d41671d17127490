"""One search run: what it found by evaluations and by CPU time, kept in a file so that a study goes on."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.search_quality.methods import METHODS, Method
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.search.archive import Archive
from hydra_dse.search.hypervolume import hypervolume
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.scores import Scorer, ScoreTable, concatenate, constrained

HEADER = ("method", "seed", "scored", "cpu_s", "feasible", "front", "hypervolume")
_IDLE = 40
"""Proposals in a row that hold nothing new: the method has come to rest."""

_MOST_REPEATS = 4
"""Proposals, repeats included, for each evaluation asked for: a method that has come to rest mostly repeats."""


@dataclass(frozen=True)
class Step:
    """State of a run after a batch; `cpu_s` counts proposing, scoring and learning, not the measuring."""

    method: str
    seed: int
    scored: int
    cpu_s: float
    feasible: int
    front: int
    hypervolume: float


@dataclass(frozen=True)
class Limits:
    """A run ends when both are reached; `reference` is the hypervolume's, as metric values."""

    evaluations: int
    cpu_s: float
    reference: tuple[float, ...]


class Memory:
    """Scores points, repeats of a design from memory: they cost a method nothing and count nothing."""

    def __init__(self, experiment: Experiment, scorer: Scorer) -> None:
        self._experiment, self._scorer = experiment, scorer
        self._known: dict[tuple[object, ...], ScoreTable] = {}

    def scored(self, points: Sequence[Point]) -> tuple[ScoreTable, ScoreTable | None]:
        """Scores of all points in order, and of those that are new."""
        keys = [tuple(point.values()) for point in points]
        fresh = {key: point for key, point in zip(keys, points, strict=True) if key not in self._known}
        table = None
        if fresh:
            found = self._scorer.score(list(fresh.values()))
            table = constrained(found, self._experiment.objectives, self._experiment.bounds)
            for row, key in enumerate(fresh):
                self._known[key] = table.rows(row, row + 1)
        if table is not None and len(fresh) == len(points):
            return table, table
        return concatenate([self._known[key] for key in keys]), table


def run(experiment: Experiment, scorer: Scorer, name: str, trials: int, seed: int, limits: Limits) -> list[Step]:
    """Run one method with one seed to the limits."""
    method: Method = METHODS[name](experiment, trials, seed)
    objectives = Objectives.named(experiment.objectives)
    natural = {key: np.array([value]) for key, value in zip(objectives.names, limits.reference, strict=True)}
    reference = objectives.scaled(objectives.losses(natural))[0]
    archive, memory = Archive(objectives), Memory(experiment, scorer)
    steps: list[Step] = []
    spent, idle, proposed = 0.0, 0, 0

    def note(table: ScoreTable) -> None:
        archive.add(table.identities, objectives.losses(table.metrics), table.violation)
        volume = hypervolume(objectives.scaled(archive.losses), reference) if len(archive) else 0.0
        steps.append(Step(name, seed, archive.scored, spent, archive.feasible, len(archive), volume))

    def goes_on() -> bool:
        short = archive.scored < limits.evaluations and proposed < _MOST_REPEATS * limits.evaluations
        return (short or spent < limits.cpu_s) and idle < _IDLE

    while goes_on():
        start = time.process_time()
        points = method.propose()
        if not points:
            break
        proposed += len(points)
        table, fresh = memory.scored(points)
        method.take(table)
        spent += time.process_time() - start
        idle = 0 if fresh is not None else idle + 1
        if fresh is None:
            continue
        left = limits.evaluations - archive.scored
        if 0 < left < len(fresh):  # the state at just as many evaluations as every other method has
            note(fresh.rows(0, left))
            fresh = fresh.rows(left, len(fresh))
        note(fresh)
    return steps


def write(steps: Sequence[Step], path: Path) -> None:
    """Write a run; a run that is interrupted leaves no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(HEADER)
        for step in steps:
            head = (step.method, step.seed, step.scored, f"{step.cpu_s:.3f}", step.feasible, step.front)
            rows.writerow([*head, repr(step.hypervolume)])
    part.replace(path)


def read(path: Path) -> list[Step]:
    """Read a stored run."""
    with path.open(encoding="utf-8") as stream:
        return [
            Step(row["method"], int(row["seed"]), int(row["scored"]), float(row["cpu_s"]), int(row["feasible"]),
                 int(row["front"]), float(row["hypervolume"]))
            for row in csv.DictReader(stream)
        ]  # fmt: skip


def at_evaluations(steps: Sequence[Step], count: int) -> float:
    """Hypervolume after at most so many evaluations."""
    return max((step.hypervolume for step in steps if step.scored <= count), default=0.0)


def at_cpu(steps: Sequence[Step], seconds: float) -> float:
    """Hypervolume after at most so much CPU time."""
    return max((step.hypervolume for step in steps if step.cpu_s <= seconds), default=0.0)
