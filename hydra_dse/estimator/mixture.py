"""Percentiles of weighted mixtures, for many designs at once, without sorting.

Points are counted into logarithmic cells between a design's smallest and largest value; a cell keeps the mean of
its points, so that an atom is returned as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.nodes import gather

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

CELLS = 256
"""Of the histogram in which quantiles are looked up."""
PIECE = 32_768
"""Points, and cells, that stay in cache while they are counted."""
NOTHING = 1e-4
"""Share of the weight below which the end of a distribution is cut."""


@dataclass(frozen=True)
class Mixture:
    """Weighted points of a distribution, shapes (n, m); weights need not sum to 1.

    Attributes:
        smooth: the points are means of slices of a continuous distribution: quantiles between two lie on a line.
        among: the points are of these designs of a larger batch alone, shape (batch,); what is asked of the others is
            NaN.  None = of all.
    """

    value: FloatArray
    weight: FloatArray
    smooth: bool = False
    among: BoolArray | None = None

    def quantiles(self, shares: tuple[float, ...]) -> FloatArray:
        """Return quantiles, shape (n, len(shares)); a design without weight gets NaN."""
        return self._scattered(self._quantiles(shares))

    def _quantiles(self, shares: tuple[float, ...]) -> FloatArray:
        cells = self._cells
        bounds = np.array(shares)
        if len(self.value) == 1:
            below = np.searchsorted(cells.cumulative[0], bounds)[None]
        else:
            below = (cells.cumulative[:, None] < bounds[:, None]).sum(axis=2)
        right = np.minimum(below, CELLS - 1)
        left = np.maximum(right - 1, 0)
        c0, c1 = gather(cells.cumulative, left), gather(cells.cumulative, right)
        width = c1 - c0
        part = np.where(width > 0, (bounds - c0) / np.where(width > 0, width, 1.0), 0.0)
        mean = cells.mean_of(side_by_side(left, right))
        v0, v1 = mean[:, : len(bounds)], mean[:, len(bounds) :]
        return np.asarray(v0 + bounded(part, 0.0, 1.0) * (v1 - v0))

    def share_within(self, bound: float | FloatArray) -> FloatArray:
        """Share of the weight at or below a bound, one for all or shape (n,): the inverse of `quantiles`."""
        if self.among is not None and np.ndim(bound):
            bound = np.asarray(bound)[self.among]
        return self._scattered(self._share_within(bound))

    def _share_within(self, bound: float | FloatArray) -> FloatArray:
        cells, mean = self._cells, self._cells.mean
        rows = np.arange(len(mean))
        right = np.count_nonzero(mean <= np.asarray(bound)[..., None], axis=1)
        inside = bounded(right, 1, CELLS - 1)
        c0, c1 = cells.cumulative[rows, inside - 1], cells.cumulative[rows, inside]
        v0, v1 = mean[rows, inside - 1], mean[rows, inside]
        part = bounded((bound - v0) / np.where(v1 > v0, v1 - v0, 1.0), 0.0, 1.0)
        share = c0 + part * (c1 - c0)
        return np.asarray(np.where(right == 0, 0.0, np.where(right == CELLS, 1.0, share)))

    def mean(self) -> FloatArray:
        """Weighted mean, shape (n,)."""
        return np.asarray((self.weight * self.value).sum(axis=1) / np.maximum(self.weight.sum(axis=1), 1e-300))

    def _scattered(self, found: FloatArray) -> FloatArray:
        """Values of the whole batch."""
        if self.among is None:
            return found
        values = np.full((len(self.among), *found.shape[1:]), np.nan)
        values[self.among] = found
        return values

    @cached_property
    def _cells(self) -> _Cells:
        n = len(self.value)
        cells = _Cells(
            cumulative=np.empty((n, CELLS)),
            weight=np.empty((n, CELLS)),
            mass=np.empty((n, CELLS)),
            low=np.empty((n, 1)),
            scale=np.empty((n, 1)),
            source=np.empty((n, CELLS), dtype=np.int64) if self.smooth else None,
        )
        step = max(1, PIECE // max(2 * CELLS, self.value.shape[1]))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            _count(self.value[rows], self.weight[rows], cells, rows)
        return cells


@dataclass(frozen=True)
class _Cells:
    """Points by cell, shape (n, cells).

    Attributes:
        cumulative: weight up to the middle of each cell, over all.
        weight, mass: sums over the points of a cell of their weights, and of weight times value.
        low, scale: logarithm of the smallest value, and cells per unit of logarithm, shape (n, 1).
        source: cell that each stands for: itself, or the last one before it that is not empty; None = itself.
    """

    cumulative: FloatArray
    weight: FloatArray
    mass: FloatArray
    low: FloatArray
    scale: FloatArray
    source: NDArray[np.int64] | None

    def mean_of(self, cell: NDArray[np.int64]) -> FloatArray:
        """Mean values of some cells of each design, shape (n, m); the middle of an empty one."""
        own = cell if self.source is None else gather(self.source, cell)
        weight = gather(self.weight, own)
        centre = np.exp(self.low + (own + 0.5) / self.scale)
        return np.where(weight > 0, gather(self.mass, own) / np.where(weight > 0, weight, 1.0), centre)

    @cached_property
    def mean(self) -> FloatArray:
        """Mean values of all cells."""
        return self.mean_of(np.broadcast_to(np.arange(CELLS), self.weight.shape))


def _count(value: FloatArray, weight: FloatArray, cells: _Cells, rows: slice) -> None:
    """Write the cells of some designs."""
    n = len(value)
    logs = np.log(np.maximum(value, 1e-12))
    low, high = logs.min(axis=1, keepdims=True), logs.max(axis=1, keepdims=True)
    scale = (CELLS - 1e-6) / np.maximum(high - low, 1e-9)
    logs -= low
    logs *= scale
    if not np.isfinite(scale).all():  # a design that cannot serve: any cell will do
        logs = np.clip(np.nan_to_num(logs), 0.0, CELLS - 1.0)
    cell = logs.astype(np.int64)
    cell += np.arange(n)[:, None] * CELLS
    where = cell.ravel()
    inside = np.bincount(where, weight.ravel(), n * CELLS).reshape(n, CELLS)
    cells.weight[rows], cells.low[rows], cells.scale[rows] = inside, low, scale
    cells.mass[rows] = np.bincount(where, (weight * value).ravel(), n * CELLS).reshape(n, CELLS)
    total = np.maximum(inside.sum(axis=1, keepdims=True), 1e-300)
    cumulative = (np.cumsum(inside, axis=1) - inside / 2.0) / total
    if cells.source is not None:
        # An empty cell repeats the last point before it; what weighs next to nothing does not bend the line.
        last = np.maximum.accumulate(np.where(inside > NOTHING * total, np.arange(CELLS), 0), axis=1)
        cells.source[rows], cumulative = last, gather(cumulative, last)
    cells.cumulative[rows] = cumulative
