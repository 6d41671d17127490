"""Weighted points that stand for a joint length distribution, few enough for closed forms.

Bins grow finer toward the upper tail, where second moments and high percentiles come from.  A bin stands at its
mean, so first moments are exact.  The shortest outputs are told apart token by token: a delay before decoding counts in
TPOT by one over the tokens that follow the first, and one bin of outputs of 1 to 5 tokens would hide that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from hydra_dse.workload.nouns import FloatArray, IntArray, LengthPoints

MAX_POINTS = 2000
_SUBPOINTS = 16
_SINGLE = 4
"""Outputs of up to so many tokens are told apart."""
_LEAST_SINGLE = 1e-4
"""A smaller share of them moves no mean of 1/tokens that matters."""


@functools.lru_cache(maxsize=1)
def _edges() -> FloatArray:
    """Probabilities of the bin edges: 44 bins, finer toward the tail; the 98th and 99th percentiles are edges."""
    body = np.linspace(0.0, 0.9, 28)
    tail = [1 - 10.0**-k * np.array([0.8, 0.6, 0.4, 0.2, 0.1]) for k in (1, 2, 3)]
    return np.concatenate([body, *tail, [1 - 1e-5, 1.0]])


def bin_means(inverse: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Mean of an inverse CDF over each bin, and the bins' weights; equal neighbours are joined."""
    return _means(inverse, _edges())


def _means(inverse: Callable[[FloatArray], FloatArray], edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_SUBPOINTS)
    width = np.diff(edges)
    at = edges[:-1, None] + width[:, None] * (nodes + 1) / 2
    means = inverse(at) @ weights / 2
    if np.ptp(means) <= 1e-9 * means[0]:
        return inverse(np.array([0.5])), np.ones(1)
    return means, width


def output_means(inverse: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, FloatArray]:
    """As `bin_means`, with whole outputs of 1 to 4 tokens in bins of their own; as many bins altogether."""
    plain = bin_means(inverse)
    upto = _share_upto(inverse, np.arange(1, _SINGLE + 1))
    short = float(upto[-1])
    if len(plain[0]) == 1 or not _LEAST_SINGLE < short < 1.0:
        return plain
    single = np.diff(upto, prepend=0.0)
    tokens, single = np.flatnonzero(single > 0) + 1.0, single[single > 0]
    tail = _edges()[_edges() > max(0.9, short) + 1e-9]
    count = max(len(_edges()) - 1 - len(tokens) - len(tail), 0)
    body = np.linspace(short, 0.9, count + 1) if short < 0.9 else np.array([short])
    means, width = _means(inverse, np.concatenate([body, tail]))
    weight = width if len(means) > 1 else np.array([1.0 - short])
    return np.concatenate([tokens, means]), np.concatenate([single, weight])


def _share_upto(inverse: Callable[[FloatArray], FloatArray], tokens: IntArray) -> FloatArray:
    """Share of lengths that round to at most each number of tokens, by bisection of the inverse CDF."""
    low, high = np.zeros(len(tokens)), np.ones(len(tokens))
    for _ in range(50):
        middle = (low + high) / 2.0
        below = inverse(middle) < tokens + 0.5
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(low > 1e-12, high, 0.0)


def product_points(
    prompt: tuple[FloatArray, FloatArray], output: tuple[FloatArray, FloatArray], correlation: float
) -> LengthPoints:
    """All pairs of two sets of bins; `correlation` of the Gaussian copula shapes the weights."""
    weight = np.outer(prompt[1], output[1])
    if correlation and weight.size > 1 and min(weight.shape) > 1:
        weight = _coupled(weight, prompt[1], output[1], correlation)
    first = np.repeat(prompt[0], len(output[0]))
    second = np.tile(output[0], len(prompt[0]))
    return LengthPoints(first, second, weight.ravel() / weight.sum())


def _coupled(weight: FloatArray, first: FloatArray, second: FloatArray, correlation: float) -> FloatArray:
    """Weights times the copula's density at the bins' medians, fitted back to both marginals."""
    x, y = _normal_medians(first)[:, None], _normal_medians(second)[None, :]
    quadratic = correlation**2 * (x**2 + y**2) - 2 * correlation * x * y
    density = np.exp(-quadratic / (2 * (1 - correlation**2)))
    coupled = weight * density
    rows, columns = weight.sum(axis=1), weight.sum(axis=0)
    for _ in range(200):
        coupled *= (rows / coupled.sum(axis=1))[:, None]
        coupled *= columns / coupled.sum(axis=0)
    return np.asarray(coupled)


def _normal_medians(width: FloatArray) -> FloatArray:
    """The standard normal at the median of each bin."""
    middle = np.cumsum(width) - width / 2
    return np.array([NormalDist().inv_cdf(float(value)) for value in middle])


def thin(points: LengthPoints, limit: int = MAX_POINTS) -> LengthPoints:
    """At most `limit` points: cells by quantile of computed prompt tokens, then of the output, each at its mean.

    Outputs of 1 to 4 tokens stay apart.
    """
    if len(points.weight) <= limit:
        return points
    side = max(int(np.sqrt(limit)), 1)
    computed = points.prompt_tokens if points.cached_tokens is None else points.prompt_tokens - points.cached_tokens
    by_prompt = np.argsort(computed, kind="stable")
    column = _cells(points.weight[by_prompt], side)
    order = by_prompt[np.lexsort((points.output_tokens[by_prompt], column))]
    column = np.sort(column)
    cell = np.empty(len(order), dtype=np.int64)
    output, weight = points.output_tokens[order], points.weight[order]
    single = _singles(output, weight, side)
    short = np.isin(output, single)
    for index in range(side):
        inside, first = column == index, index * side
        lone, rest = inside & short, inside & ~short
        cell[lone] = first + np.searchsorted(single, output[lone])
        cell[rest] = first + len(single) + _cells(weight[rest], side - len(single))
    return _merged(points, order, cell)


def _singles(output: FloatArray, weight: FloatArray, side: int) -> FloatArray:
    """Whole outputs of few tokens, where there are enough of them and of cells."""
    few = (output <= _SINGLE) & (output == np.rint(output))
    enough = few.any() and weight[few].sum() > _LEAST_SINGLE * weight.sum() and side > 2 * _SINGLE
    return np.unique(output[few]) if enough else np.zeros(0)


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
