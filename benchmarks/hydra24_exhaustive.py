"""The whole hydra-24 space through the estimator, and how much of its front a search finds with a tenth of it.

Usage: `python benchmarks/hydra24_exhaustive.py [EXPERIMENT] [--workers N] [--seeds N]`

1. Scores all 17,040 points of the experiment's space (placement included): wall time, designs per second, CPU time of
   all processes, front.  With `--seeds 0` that is all.
2. Searches with 10 % of the points, by every sampler asked for and several seeds: the share of the exhaustive front's
   hypervolume, on a logarithmic and on a linear scale.  The reference lies a tenth of the front's extent beyond its
   worst values, so that a design behind the whole front counts nothing.  `random` (whole inner grids of random outer
   points) is the baseline.  A search looks scores up in step 1: they are the same for a design in any company to
   rounding, and what a search proposes depends on scores alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hydra_dse.config import load_experiment
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.search import Search
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.estimating import EstimatorOf, EstimatorOfFile
from hydra_dse.studies.exhaustive import ExhaustiveResult, exhaustive

SHARE_OF_POINTS = 0.1
SAMPLERS = ("nsga2", "tpe", "random")


class Lookup:
    """Returns scores that are known."""

    def __init__(self, result: ExhaustiveResult) -> None:
        self._scores = result.designs.scores
        self._row = {tuple(point.items()): row for row, point in enumerate(result.designs.points)}

    def score(self, points: Sequence[Point]) -> ScoreTable:
        rows = [self._row[tuple(point.items())] for point in points]
        return ScoreTable(
            tuple(self._scores.identities[row] for row in rows),
            {name: column[rows] for name, column in self._scores.metrics.items()},
            tuple(self._scores.violations[row] for row in rows),
        )


def searched(experiment: Experiment, lookup: Lookup) -> Search:
    """Run a search to the end of its budget."""
    search = Search(experiment)
    while batch := search.propose():
        search.take(batch, [lookup.score(candidate.points) for candidate in batch])
    return search


def shares(experiment: Experiment, result: ExhaustiveResult, sampler: str, seeds: int) -> np.ndarray:
    """Share of the front's hypervolume by seed: columns logarithmic, linear; shape (seeds, 2)."""
    lookup, budget = Lookup(result), int(SHARE_OF_POINTS * len(result.designs))
    found = []
    for seed in range(seeds):
        settings = replace(experiment.search, sampler=sampler, trials=budget, seed=seed)
        losses = searched(replace(experiment, search=settings), lookup).archive.losses
        found.append((result.share_of(losses), result.share_of(losses, scaled=False)))
    return np.array(found)


def cpu_seconds() -> float:
    """CPU time of this process and of the workers that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", nargs="?", default="quickstart")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    experiment = load_experiment(arguments.experiment)
    factory = EstimatorOf(experiment) if arguments.workers <= 1 else EstimatorOfFile(arguments.experiment)
    wall, cpu = time.perf_counter(), cpu_seconds()
    result = exhaustive(experiment, workers=arguments.workers, scorer=factory)
    wall, cpu = time.perf_counter() - wall, cpu_seconds() - cpu
    count = len(result.designs)
    print(
        f"{experiment.space.name}: {count} designs in {wall:.1f} s ({count / wall:.0f}/s; {cpu:.1f} s of CPU in all),"
    )
    print(f"{result.feasible} feasible, {len(result.front)} on the front of {', '.join(experiment.objectives)}")
    if arguments.seeds < 1:
        return
    print(f"search with {int(SHARE_OF_POINTS * count)} designs, {arguments.seeds} seeds: share of the hypervolume")
    for sampler in SAMPLERS:
        start = time.perf_counter()
        found = shares(experiment, result, sampler, arguments.seeds)
        seconds = (time.perf_counter() - start) / arguments.seeds
        log, linear = (f"min {column.min():.4f} mean {column.mean():.4f}" for column in found.T)
        print(f"  {sampler:8s} log {log}   linear {linear}   ({seconds:.2f} s a search besides scoring)")


if __name__ == "__main__":
    main()
