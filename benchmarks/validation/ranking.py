"""Whether the estimator ranks designs as simulation does: over random designs, inside each batch limit, at the top."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.designs import Study, estimates, known, random_points, simulate_missing
from hydra_dse.design.space import Point

FloatArray = NDArray[np.float64]

SEED = 31_2026
STUDY = Study("nemotron-h-8b", "hydra-chat")
COUNT = 200
TOP = 0.1


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


def kendall_where_apart(simulated: FloatArray, half: FloatArray, estimated: FloatArray) -> tuple[float, int]:
    """Kendall's τ over the pairs whose simulated intervals do not touch, and how many these are."""
    agree = pairs = 0
    for i in range(len(simulated)):
        for j in range(i):
            gap = simulated[i] - simulated[j]
            if abs(gap) <= half[i] * simulated[i] + half[j] * simulated[j]:
                continue
            pairs += 1
            agree += int(np.sign(gap) * np.sign(estimated[i] - estimated[j]))
    return (agree / pairs if pairs else float("nan")), pairs


def _stored() -> tuple[list[Point], FloatArray, FloatArray]:
    done = known()
    points = [point for point in random_points(COUNT, SEED, "ranking") if STUDY.key(point) in done]
    rows = [done[STUDY.key(point)] for point in points]
    return points, np.array([rate for rate, _ in rows]), np.array([half for _, half in rows])


def ranking_section() -> str:
    """The part of the page, empty where nothing is stored."""
    points, simulated, half = _stored()
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
        *_by_limit(points, simulated, guess),
        _top(simulated, half, guess),
        "",
    ]
    return "\n".join(lines)


def _by_limit(points: Sequence[Point], simulated: FloatArray, guess: FloatArray) -> list[str]:
    limits = np.array([int(point["max_batch"]) for point in points])
    lines = []
    for limit in np.unique(limits).tolist():
        mine = limits == limit
        value = spearman(simulated[mine], guess[mine])
        lines.append(f"| batch limit {limit} ({int(mine.sum())}) | Spearman | {value:.3f} | 0.9 |")
    return lines


def _top(simulated: FloatArray, half: FloatArray, guess: FloatArray) -> str:
    count = max(int(np.ceil(TOP * len(simulated))), 10)
    best = np.argsort(-simulated)[:count]
    value, pairs = kendall_where_apart(simulated[best], half[best], guess[best])
    shown = f"{value:.3f}" if pairs else "none apart: two runs are too few"
    return f"| best {count}, {pairs} pairs whose intervals are apart | Kendall | {shown} | 0.8 |"
