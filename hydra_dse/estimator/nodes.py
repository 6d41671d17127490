"""Batch sizes at which iteration times are asked for, and linear interpolation between them.

All of 1…B where B ≤ 16; else 1…4, then geometric up to B.  The grid of a design depends on its own limit only, so
that its result does not depend on which other designs are estimated with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

COUNT = 16
HEAD = 4


def gather(values: FloatArray, index: NDArray[np.int64]) -> FloatArray:
    """`values[row, index[row, column]]`, shape of `index`: `np.take_along_axis` without its overhead."""
    flat = index + (np.arange(len(values)) * values.shape[1])[:, None]
    return np.asarray(np.ascontiguousarray(values).ravel().take(flat))


@dataclass(frozen=True)
class BatchNodes:
    """Batch sizes of each design, shape (n, k), ascending; a short grid repeats its last entry."""

    batch: FloatArray

    @property
    def count(self) -> int:
        """Number of nodes k."""
        return int(self.batch.shape[1])

    def take(self, rows: NDArray[np.int64]) -> BatchNodes:
        """The grids of some designs."""
        return BatchNodes(self.batch[rows])

    def _locate(self, levels: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """Left node and weight of the right node for each level ≥ 1, in closed form."""
        top = self.batch[:, -1:]
        plain = levels - 1.0
        growth = np.log(np.maximum(top, HEAD + 1.0) / HEAD) / (self.count - HEAD)
        curved = HEAD - 1.0 + np.log(np.maximum(levels, HEAD) / HEAD) / growth
        position = np.where((top <= self.count) | (levels <= HEAD), plain, curved)
        # A level is NaN where a design cannot serve at all: any node will do, the weight stays NaN.
        left = np.clip(np.floor(np.nan_to_num(position) + 1e-9), 0, self.count - 2).astype(np.int64)
        low, high = gather(self.batch, left), gather(self.batch, left + 1)
        width = high - low
        share = np.where(width > 0, (levels - low) / np.where(width > 0, width, 1.0), 0.0)
        return left, np.clip(share, 0.0, 1.0)

    def at(self, values: FloatArray, levels: FloatArray) -> FloatArray:
        """Interpolate node values, shape (n, k), at levels, shape (n, m)."""
        left, share = self._locate(levels)
        low = gather(values, left)
        high = gather(values, left + 1)
        return np.asarray(low + share * (high - low))

    def project(self, probability: FloatArray, beyond: FloatArray, limit: FloatArray) -> FloatArray:
        """Move probabilities of levels 0…L, and those beyond (served as `limit`), to node 0 and the nodes.

        Chosen such that an expectation over levels of an interpolated quantity is one over nodes.
        """
        n, levels = len(probability), probability.shape[1] - 1
        result = np.zeros((n, self.count + 1))
        result[:, 0] = probability[:, 0]
        grid = np.broadcast_to(np.arange(1.0, levels + 1.0), (n, levels))
        for places, mass in ((grid, probability[:, 1:]), (limit[:, None], beyond[:, None])):
            left, share = self._locate(np.maximum(places, 1.0))
            row = np.arange(n)[:, None] * (self.count + 1)
            for index, part in ((left, 1.0 - share), (left + 1, share)):
                where = (row + index + 1).ravel()
                result += np.bincount(where, (mass * part).ravel(), n * (self.count + 1)).reshape(n, -1)
        return result


def nodes_of(limit: FloatArray) -> BatchNodes:
    """The grid of each design from its batch limit, shape (n,), each ≥ 1."""
    top = np.maximum(limit, 1.0)[:, None]
    plain = np.minimum(np.arange(1.0, COUNT + 1.0), top)
    exponent = np.maximum(np.arange(COUNT) - (HEAD - 1.0), 0.0) / (COUNT - HEAD)
    curved = np.where(np.arange(COUNT) < HEAD, np.arange(1.0, COUNT + 1.0), HEAD * (top / HEAD) ** exponent)
    return BatchNodes(np.where(top <= COUNT, plain, curved))
