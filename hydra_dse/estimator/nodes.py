"""Batch sizes at which iteration times are asked for, and linear interpolation between them.

All of 1…B where B ≤ 16; else 1…4, then geometric up to B.  The grid of a design depends on its own limit only, so
that its result does not depend on which other designs are estimated with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Scalar = TypeVar("Scalar", bound=np.generic)

COUNT = 16
"""Batches at which times are asked for; smaller limits are known at every batch."""
HEAD = 4
"""Batches from 1 on that are all nodes: times change most there. Those beyond are evenly apart in logarithm."""


def gather(values: NDArray[Scalar], index: NDArray[np.int64]) -> NDArray[Scalar]:
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
    _matrices: dict[int, FloatArray] = field(default_factory=dict, init=False, repr=False, compare=False)

    def weights(self, points: int) -> FloatArray:
        """Weight of each of the nodes at the places of a single design, shape (m, points); remembered."""
        if points not in self._matrices:
            left, share = self.left[0], self.share[0]
            rows = np.arange(len(left))
            found = np.zeros((len(left), points))
            found[rows, left], found[rows, left + 1] = 1.0 - share, share
            self._matrices[points] = found
        return self._matrices[points]

    def of(self, values: FloatArray) -> FloatArray:
        """Interpolate values at the nodes, (n, k) → (n, m)."""
        flat, at = values.reshape(-1), self.left + row_starts(*values.shape)
        low = flat.take(at)
        return np.asarray(low + self.share * (flat.take(at + 1) - low))

    def of_each(self, *tables: FloatArray) -> list[FloatArray]:
        """Interpolate several tables of values, each (n, k) → (n, m)."""
        if len(self.left) > 1:
            return [self.of(values) for values in tables]
        return list(np.stack(tables) @ self.weights(tables[0].shape[1]).T)


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

    def take(self, rows: NDArray[np.int64] | slice) -> BatchNodes:
        """The grids of some designs; remembered, as one chain after the other asks for the same."""
        if isinstance(rows, slice):
            return self if rows == slice(None) else BatchNodes(self.batch[rows])
        key = rows.tobytes()
        if key not in self._taken:
            batch = self.batch[rows]
            # All levels of a short grid are nodes.
            exact = self.ratio is None or float(batch[:, -1].max(initial=1.0)) <= COUNT
            self._taken[key] = BatchNodes(batch, None if exact or self.ratio is None else self.ratio[rows])
        return self._taken[key]

    def with_ratio(self, ratio: FloatArray) -> BatchNodes:
        """The same nodes with times that leave their straight lines by a ratio at each level, shape (n, L)."""
        found = BatchNodes(self.batch, ratio)
        found._grids.update(self._grids)
        return found

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

    def time_at_each(self, times: FloatArray, level: FloatArray) -> FloatArray:
        """`time_at` for one level of each design, shape (n,)."""
        if self.ratio is None:
            return self.at_each(times, level)
        if len(level) > 1 or math.isnan(level[0]):
            return self.time_at(times, level[:, None])[:, 0]
        ratio = self.ratio[0]
        place = min(max(float(level[0]), 1.0), float(len(ratio))) - 1.0
        left = min(int(place), max(len(ratio) - 2, 0))
        low, high = float(ratio[left]), float(ratio[min(left + 1, len(ratio) - 1)])
        return self.at_each(times, level) * (low + (place - left) * (high - low))

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
        at_limit = self.time_at_each(np.ones_like(self.batch), limit)
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

    def at_each(self, values: FloatArray, level: FloatArray) -> FloatArray:
        """Interpolate node values, shape (n, k), at one level of each design, shape (n,)."""
        if len(level) > 1:
            return self.at(values, level[:, None])[:, 0]
        left, share = self._locate_one(float(level[0]))
        low, high = values[0, left : left + 2].tolist()
        return np.array([low + share * (high - low)])

    def at_levels(self, values: FloatArray, levels: int) -> FloatArray:
        """Interpolate node values, shape (n, k), at the levels 1…L, shape (n, L)."""
        if len(values) == 1:
            return np.asarray(values @ self._grid(levels).weights(self.count).T)
        return self._grid(levels).of(values)

    @cached_property
    def _only(self) -> list[float]:
        """The nodes of a single design."""
        return [float(size) for size in self.batch[0]]

    def _locate_one(self, level: float) -> tuple[int, float]:
        """`_locate` for one level of a single design, without arrays."""
        top = self._only[-1]
        if math.isnan(level) or math.isnan(top):
            return 0, math.nan
        position = level - 1.0
        if top > self.count and level > HEAD:
            growth = math.log(top / HEAD) / (self.count - HEAD)
            position = HEAD - 1.0 + math.log(level / HEAD) / growth
        left = min(max(math.floor(position + 1e-9), 0), self.count - 2)
        low, high = self._only[left : left + 2]
        return left, min(max((level - low) / (high - low), 0.0), 1.0) if high > low else 0.0

    def project(self, probability: FloatArray, beyond: FloatArray, limit: FloatArray) -> FloatArray:
        """Move probabilities of levels 0…L, and those beyond (served as `limit`), to node 0 and the nodes.

        Chosen such that an expectation over levels of an interpolated quantity is one over nodes.
        """
        n, levels = len(probability), probability.shape[1] - 1
        if n == 1:
            return self._project_one(probability[0], float(beyond[0]), float(limit[0]))
        result = np.zeros((n, self.count + 1))
        result[:, 0] = probability[:, 0]
        limits = Grid(*self._locate(np.maximum(limit[:, None], 1.0)))
        for grid, mass in ((self._grid(levels), probability[:, 1:]), (limits, beyond[:, None])):
            row = row_starts(n, self.count + 1)
            for index, part in ((grid.left, 1.0 - grid.share), (grid.left + 1, grid.share)):
                where = (row + index + 1).ravel()
                result += np.bincount(where, (mass * part).ravel(), n * (self.count + 1)).reshape(n, -1)
        return result

    def _project_one(self, probability: FloatArray, beyond: float, limit: float) -> FloatArray:
        """`project` for a single design."""
        result = np.empty((1, self.count + 1))
        result[0, 0] = probability[0]
        weights = self._grid(len(probability) - 1).weights(self.count)
        np.matmul(probability[1:], weights, out=result[0, 1:])
        left, share = self._locate_one(max(limit, 1.0))
        result[0, left + 1] += beyond * (1.0 - share)
        result[0, left + 2] += beyond * share
        return result


def nodes_of(limit: FloatArray) -> BatchNodes:
    """The grid of each design from its batch limit, shape (n,), each ≥ 1."""
    top = np.maximum(limit, 1.0)[:, None]
    plain = np.minimum(np.arange(1.0, COUNT + 1.0), top)
    exponent = np.maximum(np.arange(COUNT) - (HEAD - 1.0), 0.0) / (COUNT - HEAD)
    curved = np.where(np.arange(COUNT) < HEAD, np.arange(1.0, COUNT + 1.0), HEAD * (top / HEAD) ** exponent)
    return BatchNodes(np.where(top <= COUNT, plain, curved))
