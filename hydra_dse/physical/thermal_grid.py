"""Heat flow in a package by finite volumes: sparse conductances of four layers and their solution.

Layers from below: interposer, dies (silicon, with fill between them), spreader, base of the heat sink; bumps and the
interface material are resistances between them.  Each layer is one sheet of nodes at its middle; power enters in the
dies.  Below the interposer and at the rims no heat leaves; from the top of the sink all of it goes to ambient through
`sink_k_per_w`, spread evenly.  Spreader and sink reach `overhang_mm` beyond the interposer.

    lateral   g = k·t · length / distance, with the harmonic mean of k·t between two cells
    vertical  g = area / (t₁/2k₁ + t/k of what lies between + t₂/2k₂)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Slot, Topology
from hydra_dse.hardware.technology import Cooling, Solid
from hydra_dse.physical.area import EDGE_MM, interposer_size_mm

if TYPE_CHECKING:
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import SuperLU

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Cells along the longer side: twice as many change peak temperatures by less than 1 % of their rise.
CELLS = 40
MM_PER_M = 1e3
INTERPOSER, DIES, SPREADER, SINK = range(4)


@dataclass(frozen=True)
class Rectangle:
    """Lower left corner and size, in mm."""

    x: float
    y: float
    width: float
    height: float

    @classmethod
    def of(cls, slot: Slot, area_mm2: float | None = None) -> Rectangle:
        """A slot, or what covers an area at its middle in the slot's shape."""
        scale = 1.0 if area_mm2 is None else min(1.0, (area_mm2 / (slot.width_mm * slot.height_mm)) ** 0.5)
        width, height = slot.width_mm * scale, slot.height_mm * scale
        return cls(slot.x_mm - width / 2, slot.y_mm - height / 2, width, height)


class ThermalGrid:
    """Cells of a package of a topology under a cooling, with silicon where `dies` are."""

    def __init__(
        self, topology: Topology, cooling: Cooling, dies: Sequence[Rectangle] | None = None, cells: int = CELLS
    ) -> None:
        self.cooling = cooling
        width, height = interposer_size_mm(topology)
        slots = [Rectangle.of(slot) for slot in topology.slots]
        left, low = min(slot.x for slot in slots) - EDGE_MM, min(slot.y for slot in slots) - EDGE_MM
        over = cooling.overhang_mm
        longer = max(width, height) + 2 * over
        columns = max(2, round(cells * (width + 2 * over) / longer))
        rows = max(2, round(cells * (height + 2 * over) / longer))
        self.x = np.linspace(left - over, left + width + over, columns + 1)
        self.y = np.linspace(low - over, low + height + over, rows + 1)
        self.shape = (rows, columns)
        self.inside = self.cover(Rectangle(left, low, width, height))
        silicon = sum((self.cover(die) for die in (slots if dies is None else dies)), np.zeros(self.shape))
        self.silicon = np.minimum(silicon, self.inside)
        self.topology = topology

    def cover(self, rectangle: Rectangle) -> FloatArray:
        """Share of each cell that a rectangle covers, shape (rows, columns)."""
        across = _overlap(self.x, rectangle.x, rectangle.x + rectangle.width)
        along = _overlap(self.y, rectangle.y, rectangle.y + rectangle.height)
        return np.outer(along, across)

    @cached_property
    def cell_mm2(self) -> float:
        """Area of a cell."""
        return float((self.x[1] - self.x[0]) * (self.y[1] - self.y[0]))

    @cached_property
    def number(self) -> IntArray:
        """Number of each node, shape (4, rows, columns); −1 where the layer is not."""
        there = np.ones((4, *self.shape), dtype=bool)
        there[INTERPOSER] = there[DIES] = self.inside > 0.0
        number = np.full(there.shape, -1, dtype=np.int64)
        number[there] = np.arange(int(there.sum()))
        return number

    @cached_property
    def _die_layer_w_per_mk(self) -> FloatArray:
        """Conductivity of the layer of dies in each cell: silicon and what lies between, shape (rows, columns)."""
        share = np.divide(self.silicon, self.inside, out=np.zeros(self.shape), where=self.inside > 0)
        return share * self.cooling.die.w_per_mk + (1.0 - share) * self.cooling.fill_w_per_mk

    @cached_property
    def _sheets(self) -> FloatArray:
        """Conductivity times thickness of each layer in each cell, W/K, shape (4, rows, columns)."""
        cooling, dies = self.cooling, self.cooling.die
        sheets = np.empty((4, *self.shape))
        sheets[INTERPOSER] = _sheet(cooling.interposer) * self.inside
        sheets[DIES] = self._die_layer_w_per_mk * dies.thickness_mm / MM_PER_M * self.inside
        sheets[SPREADER], sheets[SINK] = _sheet(cooling.spreader), _sheet(cooling.sink)
        return sheets

    @cached_property
    def _between(self) -> FloatArray:
        """Conductance between each layer and the one above it, W/K, shape (3, rows, columns)."""
        cooling, dies = self.cooling, self.cooling.die
        half_die = dies.thickness_mm / MM_PER_M / 2.0 / self._die_layer_w_per_mk
        area = self.cell_mm2 / MM_PER_M**2
        below = _through(cooling.interposer) / 2.0 + _through(cooling.bumps) + half_die
        above = half_die + _through(cooling.tim) + _through(cooling.spreader) / 2.0
        top = (_through(cooling.spreader) + _through(cooling.sink)) / 2.0
        return np.stack([area * self.inside / below, area * self.inside / above, np.full(self.shape, area / top)])

    @cached_property
    def to_ambient(self) -> FloatArray:
        """Conductance of each sink cell to ambient, W/K."""
        area = self.cell_mm2 / MM_PER_M**2
        inner = _through(self.cooling.sink) / 2.0 / area
        outer = self.cooling.sink_k_per_w * self.shape[0] * self.shape[1]
        return np.full(self.shape, 1.0 / (inner + outer))

    @cached_property
    def matrix(self) -> csc_array:
        """Symmetric conductances `G` of `G · (T − ambient) = P`."""
        from scipy.sparse import coo_array

        first, second, value = [], [], []
        dx, dy = float(self.x[1] - self.x[0]), float(self.y[1] - self.y[0])
        for layer in range(4):
            sheet, number = self._sheets[layer], self.number[layer]
            for a, b, ratio in (
                ((slice(None), slice(None, -1)), (slice(None), slice(1, None)), dy / dx),
                ((slice(None, -1), slice(None)), (slice(1, None), slice(None)), dx / dy),
            ):
                joined = (number[a] >= 0) & (number[b] >= 0)
                one, other = sheet[a][joined], sheet[b][joined]
                first.append(number[a][joined])
                second.append(number[b][joined])
                value.append(ratio * 2.0 * one * other / (one + other))
        for layer in range(3):
            low, high = self.number[layer], self.number[layer + 1]
            joined = (low >= 0) & (high >= 0)
            first.append(low[joined])
            second.append(high[joined])
            value.append(self._between[layer][joined])
        i, j, g = np.concatenate(first), np.concatenate(second), np.concatenate(value)
        ground, loss = self.number[SINK].ravel(), self.to_ambient.ravel()
        rows, columns = np.concatenate([i, j, i, j, ground]), np.concatenate([j, i, i, j, ground])
        size = int(self.number.max()) + 1
        return coo_array((np.concatenate([-g, -g, g, g, loss]), (rows, columns)), shape=(size, size)).tocsc()

    @cached_property
    def _factors(self) -> SuperLU:
        from scipy.sparse.linalg import splu

        return splu(self.matrix)

    def rise(self, power_w: FloatArray) -> FloatArray:
        """Temperatures above ambient of all layers, for power in the dies of each cell.

        Args:
            power_w: shape (rows, columns) or (rows, columns, maps).

        Returns:
            Shape (4, rows, columns[, maps]); NaN where a layer is not.
        """
        maps = power_w.reshape(*self.shape, -1)
        where = self.number[DIES] >= 0
        right = np.zeros((int(self.number.max()) + 1, maps.shape[2]))
        right[self.number[DIES][where]] = maps[where]
        solved = self._factors.solve(right)
        found = np.full((*self.number.shape, maps.shape[2]), np.nan)
        found[self.number >= 0] = solved
        return found.reshape(*self.number.shape, *power_w.shape[2:])


def _sheet(solid: Solid) -> float:
    return solid.w_per_mk * solid.thickness_mm / MM_PER_M


def _through(solid: Solid) -> float:
    """Resistance through a layer, m²·K/W."""
    return solid.thickness_mm / MM_PER_M / solid.w_per_mk


def _overlap(edges: FloatArray, start: float, end: float) -> FloatArray:
    """Share of each interval between edges that lies between `start` and `end`."""
    covered = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
    return np.asarray(np.clip(covered, 0.0, None) / (edges[1:] - edges[:-1]))
