"""Percentiles of weighted mixtures, for many designs at once, without sorting.

Points are counted into logarithmic cells between a design's smallest and largest value; a cell keeps the mean of
its points, so that an atom is returned as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

CELLS = 256
PIECE = 32_768
"""Points that stay in cache while they are counted."""
NOTHING = 1e-4


@dataclass(frozen=True)
class Mixture:
    """Weighted points of a distribution, shapes (n, m); weights need not sum to 1.

    Attributes:
        smooth: the points are means of slices of a continuous distribution: quantiles between two lie on a line.
    """

    value: FloatArray
    weight: FloatArray
    smooth: bool = False

    def quantiles(self, shares: tuple[float, ...]) -> FloatArray:
        """Return quantiles, shape (n, len(shares)); a design without weight gets NaN."""
        cumulative, mean = self._cells
        n = len(mean)
        rows = np.arange(n)
        found = np.empty((n, len(shares)))
        for i, share in enumerate(shares):
            right = np.minimum((cumulative < share).sum(axis=1), mean.shape[1] - 1)
            left = np.maximum(right - 1, 0)
            c0, c1 = cumulative[rows, left], cumulative[rows, right]
            width = c1 - c0
            part = np.where(width > 0, (share - c0) / np.where(width > 0, width, 1.0), 0.0)
            v0, v1 = mean[rows, left], mean[rows, right]
            found[:, i] = v0 + np.clip(part, 0.0, 1.0) * (v1 - v0)
        return found

    def share_within(self, bound: float | FloatArray) -> FloatArray:
        """Share of the weight at or below a bound, one for all or shape (n,): the inverse of `quantiles`."""
        cumulative, mean = self._cells
        rows = np.arange(len(mean))
        right = (mean <= np.asarray(bound)[..., None]).sum(axis=1)
        inside = np.clip(right, 1, CELLS - 1)
        c0, c1 = cumulative[rows, inside - 1], cumulative[rows, inside]
        v0, v1 = mean[rows, inside - 1], mean[rows, inside]
        part = np.clip((bound - v0) / np.where(v1 > v0, v1 - v0, 1.0), 0.0, 1.0)
        share = c0 + part * (c1 - c0)
        return np.asarray(np.where(right == 0, 0.0, np.where(right == CELLS, 1.0, share)))

    def mean(self) -> FloatArray:
        """Weighted mean, shape (n,)."""
        return np.asarray((self.weight * self.value).sum(axis=1) / np.maximum(self.weight.sum(axis=1), 1e-300))

    @cached_property
    def _cells(self) -> tuple[FloatArray, FloatArray]:
        """Cumulative weight at the middle of each cell, and mean value of each cell (empty ones filled)."""
        n = len(self.value)
        cumulative, mean = np.empty((n, CELLS)), np.empty((n, CELLS))
        step = max(1, PIECE // max(1, self.value.shape[1]))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            cumulative[rows], mean[rows] = _counted(self.value[rows], self.weight[rows], self.smooth)
        return cumulative, mean


def _counted(value: FloatArray, weight: FloatArray, smooth: bool) -> tuple[FloatArray, FloatArray]:
    """Cells of some designs."""
    n = len(value)
    logs = np.log(np.maximum(value, 1e-12))
    low, high = logs.min(axis=1, keepdims=True), logs.max(axis=1, keepdims=True)
    scale = (CELLS - 1e-6) / np.maximum(high - low, 1e-9)
    logs -= low
    logs *= scale
    if not np.isfinite(scale).all():  # a design that cannot serve: any cell will do
        logs = np.nan_to_num(logs)
    np.clip(logs, 0.0, CELLS - 1.0, out=logs)
    cell = logs.astype(np.int64)
    cell += np.arange(n)[:, None] * CELLS
    where = cell.ravel()
    inside = np.bincount(where, weight.ravel(), n * CELLS).reshape(n, CELLS)
    mass = np.bincount(where, (weight * value).ravel(), n * CELLS).reshape(n, CELLS)
    centre = np.exp(low + (np.arange(CELLS) + 0.5) / scale)
    mean = np.where(inside > 0, mass / np.where(inside > 0, inside, 1.0), centre)
    total = np.maximum(inside.sum(axis=1, keepdims=True), 1e-300)
    cumulative = (np.cumsum(inside, axis=1) - inside / 2.0) / total
    if not smooth:
        return cumulative, mean
    # An empty cell repeats the last point before it; what weighs next to nothing does not bend the line.
    last = np.maximum.accumulate(np.where(inside > NOTHING * total, np.arange(CELLS), 0), axis=1)
    return np.take_along_axis(cumulative, last, axis=1), np.take_along_axis(mean, last, axis=1)
