"""How many decode steps a request takes where a step emits a drawn number of tokens.

Steps to emit `d` tokens are a renewal count `N(d) = min{n : X₁ + … + X_n ≥ d}`.  Its moments follow from the recursion
`E[N(d)] = 1 + Σ_k p_k E[N(d − k)]`, `E[N²(d)] = 1 + Σ_k p_k (2 E[N(d − k)] + E[N²(d − k)])`; beyond `EXACT` tokens
both moments grow as straight lines (Feller, vol. II, §XI.3): `E[N] = d/m + const`, `Var[N] = dσ²/m³ + const`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from hydra_dse.estimator.bins import Bins, bins_of
from hydra_dse.policy import Emission
from hydra_dse.workload.nouns import LengthPoints

FloatArray = NDArray[np.float64]

EXACT = 512
"""Tokens up to which steps are counted one by one; beyond, their number is linear in the tokens."""
SHORT, PARTS = 16.0, 16
SLICE_EDGES = (0.0, 0.02, 0.15, 0.4, 0.6, 0.85, 0.98, 1.0)
PACE_EDGES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(frozen=True)
class Pace:
    """Groups of requests by their decode steps and by steps per token.

    Attributes:
        steps: mean decode steps of each group, shape (g,).
        per_token: steps per token after the first; all 1 where a step emits one token.
        weight: its probability.
    """

    steps: FloatArray
    per_token: FloatArray
    weight: FloatArray


def with_steps(
    tokens: FloatArray, weight: FloatArray, emission: Emission
) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
    """Replace each number of tokens by slices of the number of its steps.

    Args:
        tokens: after the first, shape (n,), each at least 1.
        weight: their probabilities.
        emission: of a step.

    Returns:
        Index of the request, steps and weight of each slice; mean and variance of the steps are those of the count.
    """
    mean, variance = step_moments(tokens, emission)
    share = np.diff(SLICE_EDGES)
    normal = _normal_slices(SLICE_EDGES)
    low, high = np.ceil(tokens / len(emission.probabilities)), tokens
    steps = mean[:, None] + np.sqrt(variance)[:, None] * normal
    # A count of few steps is not normal, but never outside of its range; what the cut moves is given back to all.
    steps = np.clip(steps, low[:, None], high[:, None])
    steps = steps * (mean / (steps @ share))[:, None]
    index = np.repeat(np.arange(len(tokens)), len(share))
    return index, steps.ravel(), (weight[:, None] * share).ravel()


def with_short_outputs(lengths: LengthPoints) -> LengthPoints:
    """Spread the slice of the shortest outputs over whole numbers of tokens.

    Points stand for slices of a distribution, at their means.  Steps per token fall from 1 to `1/m` within a few
    tokens, so the mean of the slice that begins at one token does not do for it.  Up to midway to the next slice it is
    taken as `1 + (b − 1)u^γ`, u uniform, of the mean stated.  Whole numbers are lengths, not means, and stay.
    """
    output = np.asarray(lengths.output_tokens, dtype=float)
    found = np.unique(output)
    lowest = float(found[0])
    if len(found) < 2 or lowest == np.floor(lowest) or lowest > SHORT:
        return lengths
    end = (lowest + float(found[1])) / 2.0
    power = max((end - 1.0) / (lowest - 1.0) - 1.0, 0.0)
    parts = np.maximum(np.rint(1.0 + (end - 1.0) * ((np.arange(PARTS) + 0.5) / PARTS) ** power), 1.0)
    short = output == lowest
    repeats = np.where(short, PARTS, 1)
    spread = np.repeat(output, repeats)
    spread[np.repeat(short, repeats)] = np.tile(parts, int(short.sum()))
    cached = lengths.cached_tokens
    return LengthPoints(
        np.repeat(lengths.prompt_tokens, repeats),
        spread,
        np.repeat(np.asarray(lengths.weight) / repeats, repeats),
        None if cached is None else np.repeat(cached, repeats),
    )


def _normal_slices(edges: tuple[float, ...]) -> FloatArray:
    """Conditional means of a normal variable in slices of probability, scaled to a variance of 1."""
    z = ndtri(np.asarray(edges))
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    share = np.diff(edges)
    means = -np.diff(density) / share
    return np.asarray(means / np.sqrt(share @ means**2))


def step_moments(tokens: FloatArray, emission: Emission) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of the steps that emit so many tokens, shape (n,) each; linear between whole numbers."""
    first, second = _recursion(emission)
    variance = second - first**2
    m = emission.mean
    sigma2 = emission.mean_square - m * m
    beyond = np.maximum(tokens - EXACT, 0.0)
    at = np.arange(EXACT + 1.0)
    mean = np.interp(tokens, at, first) + beyond / m
    return mean, np.maximum(np.interp(tokens, at, variance) + beyond * sigma2 / m**3, 0.0)


def _recursion(emission: Emission) -> tuple[FloatArray, FloatArray]:
    """First and second moment of the steps of 0 to `EXACT` tokens."""
    first, second = np.zeros(EXACT + 1), np.zeros(EXACT + 1)
    chances = np.asarray(emission.probabilities)
    for count in range(1, EXACT + 1):
        left = np.maximum(count - 1 - np.arange(len(chances)), 0)
        first[count] = 1.0 + chances @ first[left]
        second[count] = 1.0 + chances @ (2.0 * first[left] + second[left])
    return first, second


def one_step_a_token(bins: Bins) -> Pace:
    """The pace of requests whose steps emit one token each."""
    return Pace(bins.size, np.ones(1), bins.weight)


def pace_of(steps: FloatArray, tokens: FloatArray, weight: FloatArray, edges: tuple[float, ...]) -> Pace:
    """Cut requests by tokens at `edges`, and each part by steps per token."""
    order = np.argsort(tokens, kind="stable")
    steps, tokens, weight = steps[order], tokens[order], weight[order]
    ends = np.cumsum(weight) / weight.sum()
    part = np.minimum(np.searchsorted(np.asarray(edges[1:-1]), ends - 0.5 * weight / weight.sum()), len(edges) - 2)
    sizes, rates, shares = [], [], []
    for number in np.unique(part).tolist():
        mine = part == number
        bins = bins_of(steps[mine] / tokens[mine], weight[mine], PACE_EDGES)
        total = weight[mine].sum()
        mean = float(weight[mine] @ steps[mine]) / total
        sizes.append(np.full(len(bins.size), mean))
        rates.append(bins.size)
        shares.append(bins.weight * total / weight.sum())
    return Pace(np.concatenate(sizes), np.concatenate(rates), np.concatenate(shares))
