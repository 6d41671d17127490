"""Measured times on a full grid, interpolated linearly along every axis.

Kernel times are sums of a floor and of work that grows in proportion, so linear interpolation between measured
points is exact for both parts where a logarithmic one would bend them.  Below the grid the first point counts (a
launch has a floor), above it the last segment goes on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import Fault, InputError

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GridTable:
    """Values on the product of `axes` (each ascending); `values` has one dimension per axis."""

    axes: tuple[tuple[float, ...], ...]
    values: FloatArray

    @staticmethod
    def of(points: Mapping[tuple[float, ...], float], file: str | None = None) -> GridTable:
        """The largest full grid in measured points: an axis value with a gap anywhere is left out.

        Args:
            points: coordinates → value.
            file: where they come from, for the message.

        Raises:
            InputError: points so scattered that no grid is left along an axis, which would then count for nothing.
        """
        axes = [sorted({point[axis] for point in points}) for axis in range(len(next(iter(points))))]
        values = np.full([len(axis) for axis in axes], np.nan)
        index = [{value: place for place, value in enumerate(axis)} for axis in axes]
        for point, value in points.items():
            values[tuple(index[axis][coordinate] for axis, coordinate in enumerate(point))] = value
        kept, values = _without_gaps(axes, values)
        if any(len(left) < 2 <= len(axis) for left, axis in zip(kept, axes, strict=True)):
            sizes = " x ".join(str(len(axis)) for axis in axes)
            raise InputError(Fault(f"{len(points)} points measured of {sizes} values lie on no common grid", file))
        return GridTable(tuple(tuple(axis) for axis in kept), values)

    def at(self, *point: float) -> float:
        """The value at a point, multilinear."""
        corners: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
        for axis, coordinate in zip(self.axes, point, strict=True):
            low, share = _segment(axis, coordinate)
            ends = [(low, 1.0 - share), (low + 1, share)] if share else [(low, 1.0)]
            corners = [((*index, end), weight * part) for index, weight in corners for end, part in ends]
        return sum(weight * float(self.values[index]) for index, weight in corners)


@dataclass(frozen=True, eq=False)
class RaggedTable:
    """Values over two axes where each value of the first has points of its own along the second.

    Attributes:
        rows: ascending values of the first axis.
        tables: along the second axis, one per row; beyond its ends the first and the last point count.
    """

    rows: tuple[float, ...]
    tables: tuple[GridTable, ...]

    @staticmethod
    def of(points: Mapping[float, Mapping[float, float]]) -> RaggedTable:
        """A table of points: first coordinate → second coordinate → value."""
        rows = sorted(points)
        return RaggedTable(
            tuple(rows), tuple(GridTable.of({(place,): time for place, time in points[row].items()}) for row in rows)
        )

    def at(self, row: float, place: float) -> float:
        """The value at a point, linear along the second axis and then along the first."""
        low, share = _segment(self.rows, row)
        below = self._along(low, place)
        return below + share * (self._along(low + 1, place) - below) if share else below

    def _along(self, row: int, place: float) -> float:
        table = self.tables[row]
        return table.at(min(place, table.axes[0][-1]))


def _segment(axis: Sequence[float], coordinate: float) -> tuple[int, float]:
    """Index of the point below a coordinate and the share of the way to the next (above 1 beyond the grid)."""
    if coordinate <= axis[0] or len(axis) == 1:
        return 0, 0.0
    low = min(bisect_right(axis, coordinate), len(axis) - 1) - 1
    return low, (coordinate - axis[low]) / (axis[low + 1] - axis[low])


def _without_gaps(axes: list[list[float]], values: FloatArray) -> tuple[list[list[float]], FloatArray]:
    """Drop the axis value that has the largest share of gaps until none is left."""
    while np.isnan(values).any():
        gaps = np.isnan(values)
        shares = [gaps.mean(axis=tuple(d for d in range(gaps.ndim) if d != axis)) for axis in range(gaps.ndim)]
        axis = max(range(gaps.ndim), key=lambda candidate: float(shares[candidate].max()))
        worst = int(shares[axis].argmax())
        axes = [[v for place, v in enumerate(a) if d != axis or place != worst] for d, a in enumerate(axes)]
        values = np.delete(values, worst, axis=axis)
    return axes, values
