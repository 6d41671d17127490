"""Batch sizes at which iteration times are asked for, and linear interpolation between them.

All of 1…B where B ≤ 16; else 1…4, then geometric up to B.  The grid of a design depends on its own limit only, so
that its result does not depend on which other designs are estimated with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

COUNT = 16
HEAD = 4


def gather(values: FloatArray, index: NDArray[np.int64]) -> FloatArray:
    """`values[row, index[row, column]]`, shape of `index`: `np.take_along_axis` without its overhead."""
    return np.asarray(values.reshape(-1).take(index + row_starts(*values.shape)))


@lru_cache(maxsize=256)
def row_starts(rows: int, columns: int) -> NDArray[np.int64]:
    """Where each row begins in a flat array of `rows × columns`, shape (rows, 1)."""
    found = (np.arange(rows) * columns)[:, None]
    found.flags.writeable = False
    return found


@dataclass(frozen=True)
class Grid:
    """Places between nodes: left node and weight of the right one, shape (n, m)."""

    left: NDArray[np.int64]
    share: FloatArray

    def of(self, values: FloatArray) -> FloatArray:
        """Interpolate values at the nodes, (n, k) → (n, m)."""
        flat, at = values.reshape(-1), self.left + row_starts(*values.shape)
        low = flat.take(at)
        return np.asarray(low + self.share * (flat.take(at + 1) - low))


@dataclass(frozen=True)
class BatchNodes:
    """Batch sizes of each design, shape (n, k), ascending; a short grid repeats its last entry.

    Attributes:
        ratio: of the time of a decode iteration to its straight lines between the nodes at the levels 1…L, shape
            (n, L); None where these are exact (`stairs`).
    """

    batch: FloatArray
    ratio: FloatArray | None = None
    _taken: dict[bytes, BatchNodes] = field(default_factory=dict, init=False, repr=False, compare=False)
    _grids: dict[int, Grid] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def count(self) -> int:
        """Number of nodes k."""
        return int(self.batch.shape[1])

    def take(self, rows: NDArray[np.int64]) -> BatchNodes:
        """The grids of some designs; remembered, as one chain after the other asks for the same."""
        key = rows.tobytes()
        if key not in self._taken:
            batch = self.batch[rows]
            # All levels of a short grid are nodes.
            exact = self.ratio is None or float(batch[:, -1].max(initial=1.0)) <= COUNT
            self._taken[key] = BatchNodes(batch, None if exact or self.ratio is None else self.ratio[rows])
        return self._taken[key]

    def with_ratio(self, ratio: FloatArray) -> BatchNodes:
        """The same nodes with times that leave their straight lines by a ratio at each level, shape (n, L)."""
        return BatchNodes(self.batch, ratio)

    def time_at(self, times: FloatArray, levels: FloatArray) -> FloatArray:
        """`at` for what is proportional to the time of a decode iteration."""
        plain = self.at(times, levels)
        if self.ratio is None:
            return plain
        top = self.ratio.shape[1]
        place = np.fmin(np.fmax(levels, 1.0), float(top)) - 1.0
        left = np.minimum(place.astype(np.int64), max(top - 2, 0))
        low, high = gather(self.ratio, left), gather(self.ratio, np.minimum(left + 1, top - 1))
        return np.asarray(plain * (low + (place - left) * (high - low)))

    def times_at_levels(self, times: FloatArray, levels: int) -> FloatArray:
        """`at_levels` for what is proportional to the time of a decode iteration."""
        plain = self.at_levels(times, levels)
        return plain if self.ratio is None else np.asarray(plain * self.ratio[:, :levels])

    def mean_ratio(
        self, probability: FloatArray, beyond: FloatArray, limit: FloatArray, at_nodes: FloatArray
    ) -> FloatArray:
        """Mean ratio around each node, (n, k): with it an expectation over nodes of a time is that over the levels.

        Args:
            probability: of the levels 0…L, (n, L + 1).
            beyond: of all others, which are served as `limit`, (n,).
            limit: highest level, (n,).
            at_nodes: the same projected on the nodes, (n, k + 1).
        """
        if self.ratio is None:
            return np.ones_like(self.batch)
        levels = probability.shape[1] - 1
        at_limit = self.time_at(np.ones_like(self.batch), limit[:, None])[:, 0]
        weighted = probability.copy()
        weighted[:, 1:] *= self.ratio[:, :levels]
        found = self.project(weighted, beyond * at_limit, limit)[:, 1:]
        known = at_nodes[:, 1:] > 1e-12
        return np.where(known, found / np.where(known, at_nodes[:, 1:], 1.0), 1.0)

    def _grid(self, levels: int) -> Grid:
        """Where the levels 1…L lie among the nodes of each design; remembered."""
        if levels not in self._grids:
            places = np.broadcast_to(np.arange(1.0, levels + 1.0), (len(self.batch), levels))
            self._grids[levels] = Grid(*self._locate(places))
        return self._grids[levels]

    @cached_property
    def _shape(self) -> tuple[NDArray[np.bool_], FloatArray]:
        """Whether all sizes are nodes, and the logarithm of the growth from node to node where not, shape (n, 1)."""
        top = self.batch[:, -1:]
        return top <= self.count, np.log(np.maximum(top, HEAD + 1.0) / HEAD) / (self.count - HEAD)

    def _locate(self, levels: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
        """Left node and weight of the right node for each level ≥ 1, in closed form."""
        even, growth = self._shape
        curved = HEAD - 1.0 + np.log(np.maximum(levels, HEAD) / HEAD) / growth
        position = np.where(even | (levels <= HEAD), levels - 1.0, curved)
        # A level is NaN where a design cannot serve at all: any node will do, the weight stays NaN.
        left = np.fmin(np.fmax(np.floor(position + 1e-9), 0.0), self.count - 2.0).astype(np.int64)
        low, high = gather(self.batch, left), gather(self.batch, left + 1)
        width = high - low
        share = np.where(width > 0, (levels - low) / np.where(width > 0, width, 1.0), 0.0)
        return left, np.minimum(np.maximum(share, 0.0), 1.0)

    def at(self, values: FloatArray, levels: FloatArray) -> FloatArray:
        """Interpolate node values, shape (n, k), at levels, shape (n, m)."""
        return Grid(*self._locate(levels)).of(values)

    def at_levels(self, values: FloatArray, levels: int) -> FloatArray:
        """Interpolate node values, shape (n, k), at the levels 1…L, shape (n, L)."""
        return self._grid(levels).of(values)

    def project(self, probability: FloatArray, beyond: FloatArray, limit: FloatArray) -> FloatArray:
        """Move probabilities of levels 0…L, and those beyond (served as `limit`), to node 0 and the nodes.

        Chosen such that an expectation over levels of an interpolated quantity is one over nodes.
        """
        n, levels = len(probability), probability.shape[1] - 1
        result = np.zeros((n, self.count + 1))
        result[:, 0] = probability[:, 0]
        limits = Grid(*self._locate(np.maximum(limit[:, None], 1.0)))
        for grid, mass in ((self._grid(levels), probability[:, 1:]), (limits, beyond[:, None])):
            row = row_starts(n, self.count + 1)
            for index, part in ((grid.left, 1.0 - grid.share), (grid.left + 1, grid.share)):
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
