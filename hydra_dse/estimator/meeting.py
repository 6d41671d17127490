"""The sum of two independent times by few points: each slice of one meets another part of every slice of the other.

Between two slices of outputs the distribution of E2E is then no staircase, however narrow that of TTFT is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.bins import Bins

FloatArray = NDArray[np.float64]

TTFT_SHARES = (0.06, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.96, 0.99, 0.998)
"""Quantiles of TTFT that stand for its slices."""
_CUTS = np.concatenate(([0.0], (np.array(TTFT_SHARES[1:]) + np.array(TTFT_SHARES[:-1])) / 2.0, [1.0]))
TTFT_WEIGHTS = np.diff(_CUTS)
"""Of these slices."""
ORDER = np.array([5, 0, 7, 2, 9, 4, 6, 1, 8, 3])
"""In which the slices of TTFT divide a slice of outputs: what they get is hardly correlated with TTFT."""


def parts_of(bins: Bins) -> FloatArray:
    """Mean sizes of the parts of each slice that the slices of TTFT meet, shape (len(TTFT_SHARES), bins).

    Sizes rise along a line between the means of the halves of all slices, so that they spread between the few points
    that stand for a distribution; every slice keeps its mean.
    """
    if len(bins.size) == 1:
        return np.tile(bins.size, (len(TTFT_SHARES), 1))
    start = np.cumsum(bins.weight) - bins.weight
    halves = (start + np.array([[0.25], [0.75]]) * bins.weight).T.ravel()
    means = (bins.size + np.array([[-1.0], [1.0]]) * bins.half_gap).T.ravel()
    places = np.empty(len(TTFT_SHARES))
    places[ORDER] = np.cumsum(TTFT_WEIGHTS[ORDER]) - TTFT_WEIGHTS[ORDER] / 2.0
    parts = np.interp(start + places[:, None] * bins.weight, halves, means)
    return np.asarray(parts + bins.size - TTFT_WEIGHTS @ parts)
