"""Weighted points that stand for a joint length distribution, few enough for closed forms.

Bins grow finer toward the upper tail, where second moments and high percentiles come from.  A bin stands at its
mean, so first moments are exact.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from hydra_dse.workload.nouns import FloatArray, IntArray, LengthPoints

MAX_POINTS = 2000
_SUBPOINTS = 16


@functools.lru_cache(maxsize=1)
def _edges() -> FloatArray:
    """Probabilities of the bin edges: 44 bins, each of the last ones a fraction of the one before."""
    body = np.linspace(0.0, 0.9, 28)
    tail = [np.linspace(1 - 10.0**-k, 1 - 10.0 ** -(k + 1), 6)[1:] for k in (1, 2, 3)]
    return np.concatenate([body, *tail, [1 - 1e-5, 1.0]])


def bin_means(inverse: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Mean of an inverse CDF over each bin, and the bins' weights; equal neighbours are joined."""
    edges = _edges()
    nodes, weights = np.polynomial.legendre.leggauss(_SUBPOINTS)
    width = np.diff(edges)
    at = edges[:-1, None] + width[:, None] * (nodes + 1) / 2
    means = inverse(at) @ weights / 2
    if np.ptp(means) <= 1e-9 * means[0]:
        return inverse(np.array([0.5])), np.ones(1)
    return means, width


def product_points(
    prompt: tuple[FloatArray, FloatArray], output: tuple[FloatArray, FloatArray], correlation: float
) -> LengthPoints:
    """All pairs of two sets of bins; `correlation` of the Gaussian copula shapes the weights."""
    weight = np.outer(prompt[1], output[1])
    if correlation and weight.size > 1 and min(weight.shape) > 1:
        weight = _coupled(weight, correlation)
    first = np.repeat(prompt[0], len(output[0]))
    second = np.tile(output[0], len(prompt[0]))
    return LengthPoints(first, second, weight.ravel() / weight.sum())


def _coupled(weight: FloatArray, correlation: float) -> FloatArray:
    """Weights times the copula's density at the bins' medians, fitted back to both marginals."""
    middle = (_edges()[:-1] + _edges()[1:]) / 2
    normal = np.array([NormalDist().inv_cdf(float(value)) for value in middle])
    x, y = normal[:, None], normal[None, :]
    quadratic = correlation**2 * (x**2 + y**2) - 2 * correlation * x * y
    density = np.exp(-quadratic / (2 * (1 - correlation**2)))
    coupled = weight * density
    rows, columns = weight.sum(axis=1), weight.sum(axis=0)
    for _ in range(200):
        coupled *= (rows / coupled.sum(axis=1))[:, None]
        coupled *= columns / coupled.sum(axis=0)
    return np.asarray(coupled)


def thin(points: LengthPoints, limit: int = MAX_POINTS) -> LengthPoints:
    """At most `limit` points: cells by quantile of computed prompt tokens, then of the output, each at its mean."""
    if len(points.weight) <= limit:
        return points
    side = max(int(np.sqrt(limit)), 1)
    computed = points.prompt_tokens if points.cached_tokens is None else points.prompt_tokens - points.cached_tokens
    by_prompt = np.argsort(computed, kind="stable")
    column = _cells(points.weight[by_prompt], side)
    order = by_prompt[np.lexsort((points.output_tokens[by_prompt], column))]
    column = np.sort(column)
    cell = np.empty(len(order), dtype=np.int64)
    for index in range(side):
        inside = column == index
        cell[inside] = index * side + _cells(points.weight[order][inside], side)
    return _merged(points, order, cell)


def _cells(weight: FloatArray, count: int) -> IntArray:
    """Cell of each sorted point: equal mass in the body, finer toward the tail."""
    if len(weight) == 0:
        return np.zeros(0, dtype=np.int64)
    level = (np.cumsum(weight) - weight / 2) / weight.sum()
    tail = max(count // 4, 1)
    edges = np.concatenate([np.linspace(0, 0.9, count - tail + 1)[1:], 1 - 0.1 * 0.5 ** np.arange(1, tail)])
    return np.asarray(np.minimum(np.searchsorted(edges, level), count - 1), dtype=np.int64)


def _merged(points: LengthPoints, order: IntArray, cell: IntArray) -> LengthPoints:
    _, place = np.unique(cell, return_inverse=True)
    weight = np.bincount(place, points.weight[order])
    prompt = np.bincount(place, (points.weight * points.prompt_tokens)[order]) / weight
    output = np.bincount(place, (points.weight * points.output_tokens)[order]) / weight
    cached = None
    if points.cached_tokens is not None:
        cached = np.bincount(place, (points.weight * points.cached_tokens)[order]) / weight
    return LengthPoints(prompt, output, weight / weight.sum(), cached)
