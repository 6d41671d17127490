"""Distributions of simulated latencies as tables of bounded size: quantiles at fixed shares, one table a replication.

A run of any length keeps `len(SHARES)` numbers for each latency; between them a distribution is taken as linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LATENCIES = ("ttft", "tpot", "tbt", "e2e")
SHARES = (
    *(round(0.005 * place, 3) for place in range(198)),
    *(round(0.99 + 0.001 * place, 3) for place in range(10)),
    0.9995,
    1.0,
)
"""Steps of 0.005, from 0.99 on of 0.001, and the ends."""


@dataclass(frozen=True)
class Quantiles:
    """The distribution of a latency in one replication.

    Attributes:
        samples: requests (or gaps between tokens) that it is of.
        seconds: at each of `SHARES`, ascending.
    """

    samples: int
    seconds: tuple[float, ...]


def quantiles_of(values: FloatArray, overwrite: bool = False) -> Quantiles:
    """The table of a sample in s, at least one value; `overwrite` where the sample may be put into order."""
    return Quantiles(len(values), tuple(np.quantile(values, SHARES, overwrite_input=overwrite).tolist()))


def weighted_quantiles_of(values: FloatArray, weights: FloatArray) -> Quantiles:
    """The same where value `i` counts `weights[i]` times: the smallest value that a share does not exceed."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    places = np.searchsorted(cumulated, np.array(SHARES) * cumulated[-1])
    return Quantiles(round(float(cumulated[-1])), tuple(values[order[np.minimum(places, len(order) - 1)]].tolist()))


def cumulative(replications: Sequence[Quantiles], seconds: FloatArray) -> FloatArray:
    """Share of samples within each of `seconds` by replication, shape (replications, n)."""
    return np.array([np.interp(seconds, *_steps(found), left=0.0, right=1.0) for found in replications])


def pooled(replications: Sequence[Quantiles], shares: FloatArray) -> FloatArray:
    """Quantiles of all replications together, each weighted with its samples; in s, shape of `shares`."""
    grid = np.unique(np.concatenate([found.seconds for found in replications]))
    weights = np.array([found.samples for found in replications], dtype=np.float64)
    together = np.average(cumulative(replications, grid), axis=0, weights=weights)
    return np.asarray(np.interp(shares, together, grid), dtype=np.float64)


def _steps(found: Quantiles) -> tuple[FloatArray, FloatArray]:
    """Values that differ, each with the largest share at which it stands: what many requests have is a step."""
    values = np.array(found.seconds)
    last = np.append(np.flatnonzero(np.diff(values) > 0), len(values) - 1)
    return values[last], np.array(SHARES)[last]
