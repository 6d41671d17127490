"""Descent on the objective of link loads, by swaps of two components.

Routes depend on the layout alone, and a swap of two components of one kind keeps the layout, so the loads after a swap
are the present ones and what the paths of both components change (`changes`; a test compares it with routing each swap
anew).  The maximum is flat where two links are equally loaded: descents use the 8-norm in its place (a smooth upper
bound of it), the result is judged by the maximum itself.

A step takes the best few of all swaps and makes them one after the other as long as they still help, each counted anew.
Counting all swaps takes longest, so a lower bound rules out most (`hydra_dse.placement.bounds`); the others are counted
from the least bound up, until the bound is above what is kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement.bounds import Bounds
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import WORST_LINK_WEIGHT, BoolArray, IntArray, Problem

Float32Array = NDArray[np.float32]

KEPT = 12
"""Swaps of a count that are looked at before the next."""
BETTER = 1.0 - 1e-5
"""Share of the objective that a swap must fall below."""


class Descent:
    """A placement on its way down the smooth objective, by swaps of components of one kind.

    Attributes:
        slots: of the components at present.
        cost: smooth objective at present, as a share of the traffic.
    """

    def __init__(self, problem: Problem, pattern: Pattern, slots: IntArray) -> None:
        self.slots, self._fits, self._shares = slots.copy(), problem.fits, problem.part_shares
        self._first, self._second = np.nonzero(problem.exchangeable)
        paths, hops = pattern.paths(slots), pattern.hops[slots[:, None], slots]
        links = paths.shape[2]
        self._paths = np.concatenate((paths, (hops / max(links, 1))[:, :, None]), axis=2, dtype=np.float32)
        self._loads = problem.loads(pattern, slots)
        self.cost = float(smooth_cost(self._loads).sum()) if self._loads.size else 0.0
        counts = self._loads.size and len(self._first)
        self._bounds = Bounds(self._shares, self._first, self._second, links) if counts else None

    def step(self) -> bool:
        """Find the best few of all swaps and make those that help; whether any did."""
        if self._bounds is None:
            return False
        kept, costs, loads = self._best_few(self._bounds.after(self._paths, self._loads))
        helped = len(kept) > 0
        while len(kept):
            best = int(costs.argmin())
            if not costs[best] < self.cost * BETTER:
                break
            self._make(int(kept[best]), loads[best], float(costs[best]))
            kept = np.delete(kept, best)
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
        order = np.flatnonzero(possible)
        order = order[bounds[order].argsort(kind="stable")]
        kept, costs, loads = order[:0], bounds[:0], np.empty((0, *self._loads.shape), dtype=np.float32)
        for first in range(0, len(order), KEPT):
            some = order[first : first + KEPT]
            if len(kept) == KEPT and bounds[some[0]] > costs[-1]:
                break
            some_costs, some_loads = self._counted(some)
            kept, costs = np.concatenate((kept, some)), np.concatenate((costs, some_costs))
            best = np.lexsort((kept, costs))[:KEPT]
            best = best[costs[best] < self.cost * BETTER]
            kept, costs, loads = kept[best], costs[best], np.concatenate((loads, some_loads))[best]
        return kept, costs, loads

    def _counted(self, some: IntArray) -> tuple[Float32Array, Float32Array]:
        """Objective and loads of all links after each of some swaps, shapes (swaps,) and (swaps, parts, links)."""
        loads = changes(self._shares, self._paths[:, :, :-1], self._first[some], self._second[some])
        loads += self._loads
        return smooth_cost(loads).sum(axis=-1), loads

    def _make(self, swap: int, loads: Float32Array, cost: float) -> None:
        """Make a swap after which loads and objective are these."""
        self._loads, self.cost = loads, cost
        pair = [int(self._first[swap]), int(self._second[swap])]
        self.slots[pair] = self.slots[pair[::-1]]
        self._paths[pair] = self._paths[pair[::-1]]
        self._paths[:, pair] = self._paths[:, pair[::-1]]

    def _fitting(self, some: IntArray | slice) -> BoolArray:
        """Which of some swaps leave both components in slots that they fit."""
        first, second = self._first[some], self._second[some]
        if self._fits is None:
            return np.ones(len(first), dtype=bool)
        both: BoolArray = self._fits[first, self.slots[second]] & self._fits[second, self.slots[first]]
        return both


def changes(shares: Float32Array, paths: Float32Array, first: IntArray, second: IntArray) -> Float32Array:
    """Change of the link loads of each part by some swaps, shape (swaps, parts, links), for few of them.

    Args:
        shares: traffic, shape (parts, components, components).
        paths: 1 where the path from a component to another takes a link, shape (components, components, links).
        first: one component of each swap.
        second: the other.
    """
    turned = shares.swapaxes(1, 2)
    moved = (shares[:, first] - shares[:, second]).swapaxes(0, 1), (turned[:, first] - turned[:, second]).swapaxes(0, 1)
    found = moved[0] @ (paths[second] - paths[first])
    found += moved[1] @ (paths[:, second] - paths[:, first]).swapaxes(0, 1)
    both = (shares[:, first, second] + shares[:, second, first]).T
    found += both[:, :, None] * (paths[first, second] + paths[second, first])[:, None, :]
    return found


def smooth_cost(loads: Float32Array) -> Float32Array:
    """Mean link load + λ · 8-norm of the link loads, over the last axis."""
    power = np.square(loads)
    np.square(power, out=power)
    np.square(power, out=power)
    mean = np.add.reduce(loads, axis=-1) / loads.shape[-1]  # what `mean` does, without its checks
    norm = np.sqrt(np.sqrt(np.sqrt(np.add.reduce(power, axis=-1))))
    cost: Float32Array = mean + WORST_LINK_WEIGHT * norm
    return cost
