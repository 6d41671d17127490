"""Whether the estimator ranks designs as simulation does: over random designs, inside each batch limit, at the top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation import selection, top
from benchmarks.validation.designs import Study, estimates, known, random_points, simulate_missing
from hydra_dse.design.space import Point

FloatArray = NDArray[np.float64]

SEED = 31_2026
STUDY = Study("nemotron-h-8b", "hydra-chat")
COUNT = 200
FEWEST = 8
"""Designs of a batch limit below which no rank correlation is shown."""


def run(count: int = COUNT) -> None:
    """Simulate the random designs that are missing."""
    simulate_missing(STUDY, random_points(count, SEED, "ranking"))


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks, equal values at their mean rank."""
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values), dtype=float)
    for value in np.unique(values):
        same = values == value
        ranks[same] = ranks[same].mean()
    return ranks


def spearman(first: FloatArray, second: FloatArray) -> float:
    """Rank correlation; NaN where one side is constant."""
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1]) if len(first) > 2 else float("nan")


def _stored() -> tuple[list[Point], FloatArray]:
    done = known()
    points = [point for point in random_points(COUNT, SEED, "ranking") if STUDY.key(point) in done]
    return points, np.array([done[STUDY.key(point)][0] for point in points])


def ranking_section() -> str:
    """The part of the page, empty where nothing is stored."""
    points, simulated = _stored()
    if len(points) < 10:
        return ""
    guess = estimates(STUDY, points)
    lines = [
        f"## Ranking: {len(points)} random designs of hydra-24",
        "",
        f"By saturation rate, {STUDY.model} with the lengths of `{STUDY.workload}`; two runs of at least 400 requests",
        "each, the same for all designs (common random numbers).  `benchmarks.validation ranking` adds designs",
        f"up to {COUNT}.",
        "",
        "| designs | measure | found | asked |",
        "|---|---|---|---|",
        f"| all {len(points)} | Spearman | {spearman(simulated, guess):.3f} | 0.95 |",
        *(
            f"| batch limit {limit} ({count}) | Spearman | {value:.3f} | 0.9 |"
            for limit, count, value in by_limit(points, simulated, guess)
        ),
        "",
        *_by_study(),
    ]
    return "\n".join(lines)


def by_limit(points: Sequence[Point], simulated: FloatArray, guess: FloatArray) -> list[tuple[int, int, float]]:
    """Batch limit, its number of designs, and Spearman's correlation among them."""
    limits = np.array([int(point["max_batch"]) for point in points])
    found = []
    for limit in np.unique(limits).tolist():
        mine = limits == limit
        found.append((limit, int(mine.sum()), spearman(simulated[mine], guess[mine])))
    return found


def _random(study: Study) -> list[Point]:
    """The random designs of a selection that are simulated."""
    done = known()
    drawn = random_points(selection.RANDOM, selection.SEED, "random")
    return [point for point in drawn if study.key(point) in done]


def run_top() -> None:
    """Long runs of the best tenth of each selection's random designs."""
    for study in selection.STUDIES:
        if points := _random(study):
            top.run(study, points)


def _by_study() -> list[str]:
    """The same for each model and workload of the selection, with the order among the best tenth."""
    lines = []
    for study in selection.STUDIES:
        points = _random(study)
        if len(points) < 10:
            continue
        simulated, guess = np.array([known()[study.key(point)][0] for point in points]), estimates(study, points)
        least = min(value for _, count, value in by_limit(points, simulated, guess) if count >= FEWEST)
        head = f"| {study.model} | {study.workload} | {len(points)} | {spearman(simulated, guess):.3f} | {least:.3f} "
        lines.append(f"{head}| {top.row(study, points)} |")
    if not lines:
        return []
    return [
        "The random designs of the selection below; among the best tenth, with "
        f"{top.RUNS} longer runs each, Kendall's τ (asked: 0.8)",
        "over the pairs that simulation tells apart: those whose own 95 % intervals do not touch, and those whose mean",
        "log ratio over runs of the same requests is not 0 at 95 %.  Spread: how far the first is above the last.",
        "",
        "| model | lengths | designs | Spearman | least in a batch limit | best tenth | spread "
        "| τ, own intervals | τ, paired |",
        "|---" * 9 + "|",
        *lines,
        "",
    ]
