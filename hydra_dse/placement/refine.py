"""Descent on the objective of link loads, by swaps of two components.

Routes depend on the layout alone, and a swap of two components of one kind keeps the layout, so the loads after a swap
are the present ones and what the paths of both components change (`hydra_dse.placement.swaps`).  The maximum is flat
where two links are equally loaded: descents use the 8-norm in its place (a smooth upper bound of it), the result is
judged by the maximum itself.

A step takes the best few of all swaps and makes them one after the other as long as they still help, each counted anew.
Counting all swaps takes longest, so a lower bound rules out most (`hydra_dse.placement.bounds`); the others are counted
from the least bound up, until the bound is above what is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.placement.bounds import Bounds
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import BoolArray, IntArray
from hydra_dse.placement.swaps import Float32Array, Swaps, smooth_cost

KEPT = 12
"""Swaps of a count that are looked at before the next."""
BETTER = 1.0 - 1e-5
"""Share of the objective that a swap must fall below."""


@dataclass(frozen=True, eq=False)
class Start:
    """Where a descent starts: a layout, slots of the components in it, loads of each part of shape (parts, links)."""

    pattern: Pattern
    slots: IntArray
    loads: Float32Array


class Descent:
    """A placement on its way down the smooth objective, by swaps of components of one kind.

    Attributes:
        slots: of the components at present.
        cost: smooth objective at present, as a share of the traffic.
    """

    def __init__(self, swaps: Swaps, bounds: Bounds, fits: BoolArray | None, start: Start) -> None:
        """`bounds` of `swaps`; `fits` of the problem."""
        self._swaps, self._bounds, self._fits = swaps, bounds, fits
        self.slots, self._loads = start.slots.copy(), start.loads
        self._ways, self._hops = start.pattern.ways(start.slots), start.pattern.hops
        self.cost = float(smooth_cost(start.loads).sum()) if start.loads.size else 0.0

    def step(self) -> bool:
        """Find the best few of all swaps and make those that help; whether any did."""
        if not self._loads.size or not len(self._swaps.first):
            return False
        hops = self._hops[self.slots[:, None], self.slots]
        kept, costs, loads = self._best_few(self._bounds.after(self._ways, hops, self._loads))
        helped = len(kept) > 0
        while len(kept):
            best = int(costs.argmin())
            if not costs[best] < self.cost * BETTER:
                break
            self._make(int(kept[best]), loads[best], float(costs[best]))
            kept = np.concatenate((kept[:best], kept[best + 1 :]))
            if self._fits is not None:
                kept = kept[self._fitting(kept)]
            if len(kept):
                costs, loads = self._counted(kept)
        return helped

    def _best_few(self, bounds: Float32Array) -> tuple[IntArray, Float32Array, Float32Array]:
        """The best swaps of those that help, best first, with the objective and the loads after each."""
        possible = bounds < self.cost  # what helps lies further below than bounds are rounded
        if self._fits is not None:
            possible &= self._fitting(slice(None))
        order = possible.nonzero()[0]
        order = order[bounds[order].argsort(kind="stable")]
        kept, (costs, loads) = order[:KEPT], self._counted(order[:KEPT])
        for first in range(KEPT, len(order) + KEPT, KEPT):
            best = np.lexsort((kept, costs))[:KEPT]
            kept, costs, loads = kept[best], costs[best], loads[best]
            some = order[first : first + KEPT]
            if not len(some) or bounds[some[0]] > costs[-1]:
                break
            more_costs, more_loads = self._counted(some)
            kept, costs = np.concatenate((kept, some)), np.concatenate((costs, more_costs))
            loads = np.concatenate((loads, more_loads))
        helps = int(costs.searchsorted(self.cost * BETTER))
        return kept[:helps], costs[:helps], loads[:helps]

    def _counted(self, some: IntArray) -> tuple[Float32Array, Float32Array]:
        """Objective and loads after each of some swaps, shapes (swaps,) and (swaps, parts, links)."""
        loads = self._swaps.changes(self._ways, some)
        loads += self._loads
        return np.add.reduce(smooth_cost(loads), axis=-1), loads

    def _make(self, swap: int, loads: Float32Array, cost: float) -> None:
        """Make a swap after which loads and objective are these."""
        self._loads, self.cost = loads, cost
        pair = [int(self._swaps.first[swap]), int(self._swaps.second[swap])]
        self.slots[pair] = self.slots[pair[::-1]]
        self._ways[pair] = self._ways[pair[::-1]]
        turned = [place + len(self.slots) for place in pair]
        self._ways[:, pair + turned] = self._ways[:, pair[::-1] + turned[::-1]]

    def _fitting(self, some: IntArray | slice) -> BoolArray:
        """Which of some swaps leave both components in slots that they fit."""
        first, second = self._swaps.first[some], self._swaps.second[some]
        if self._fits is None:
            return np.ones(len(first), dtype=bool)
        both: BoolArray = self._fits[first, self.slots[second]] & self._fits[second, self.slots[first]]
        return both
