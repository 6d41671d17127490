"""Descent on the objective of link loads, by swaps of two components.

Routes depend on the layout alone, and a swap of two components of one kind keeps the layout.  For one part of the work
with `K[i, j, l]` = 1 where the path from the slot of `i` to that of `j` takes link `l`,
`P[j, i, l] = Σ_k t_ik K[j, k, l] + t_ki K[k, j, l]` is what component `i` would put on link `l` from the slot of `j`.
Swapping `i` and `j` changes the load of link `l` by

    P[j, i, l] + P[i, j, l] - P[i, i, l] - P[j, j, l] + (t_ij + t_ji) · (K[i, j, l] + K[j, i, l]),

so the loads after all swaps are sums of rows of `P` and `K`; a test compares them with routing each swap anew.  (Links
come last so that rows are copied whole; products are stacked, so that none is large enough for BLAS to start threads,
which costs more than it gains here.)
The maximum is flat where two links are equally loaded: descents use the 8-norm in its place (a smooth upper bound of
it), the result is judged by the maximum itself.

Counting all swaps takes longest, so the best few of a count are made one after the other as long as they still help,
each counted anew by its own change of the loads, before all are counted again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
        self._paths = pattern.paths(slots)
        self._loads = problem.loads(pattern, slots)
        self.cost = float(smooth_cost(self._loads).sum()) if self._loads.size else 0.0
        counts = self._loads.size and len(self._first)
        self._swaps = Swaps(len(slots), self._first, self._second, self._paths.shape[2]) if counts else None

    def step(self) -> bool:
        """Count all swaps and make those of the best few that help; whether any did."""
        if self._swaps is None:
            return False
        costs = self._swaps.smooth_costs(self._shares, self._paths, self._loads)
        if self._fits is not None:
            costs[~self._fitting(slice(None))] = np.inf
        kept = costs.argsort(kind="stable")[:KEPT]
        kept = kept[costs[kept] < self.cost * BETTER]
        helped = len(kept) > 0
        while len(kept):
            best = self._best_of(kept)
            if best is None:
                break
            kept = np.delete(kept, best)
            if self._fits is not None:
                kept = kept[self._fitting(kept)]
        return helped

    def _best_of(self, kept: IntArray) -> int | None:
        """Make the best of some swaps, if it helps; its place among them."""
        after = self._loads + changes(self._shares, self._paths, self._first[kept], self._second[kept])
        costs = smooth_cost(after).sum(axis=-1)
        best = int(costs.argmin())
        if not costs[best] < self.cost * BETTER:
            return None
        self._loads, self.cost = after[best], float(costs[best])
        pair = [int(self._first[kept[best]]), int(self._second[kept[best]])]
        self.slots[pair] = self.slots[pair[::-1]]
        self._paths[pair] = self._paths[pair[::-1]]
        self._paths[:, pair] = self._paths[:, pair[::-1]]
        return best

    def _fitting(self, some: IntArray | slice) -> BoolArray:
        """Which of some swaps leave both components in slots that they fit."""
        first, second = self._first[some], self._second[some]
        if self._fits is None:
            return np.ones(len(first), dtype=bool)
        both: BoolArray = self._fits[first, self.slots[second]] & self._fits[second, self.slots[first]]
        return both


class Swaps:
    """Link loads after every swap of `first[m]` and `second[m]`, by the formula of the module, in arrays that stay.

    Args:
        count: components.
        first: one component of each swap.
        second: the other.
        links: number of links.
    """

    def __init__(self, count: int, first: IntArray, second: IntArray, links: int) -> None:
        self._first, self._second = first, second
        self._there, self._back = first * count + second, second * count + first
        self._own = first * (count + 1), second * (count + 1)
        self._both_ways = np.empty((count, 2 * count, links), dtype=np.float32)
        self._moved = np.empty((count, count, links), dtype=np.float32)
        self._sum, self._part = np.empty((2, len(first), links), dtype=np.float32)

    def loads(self, shares: Float32Array, paths: Float32Array, loads: Float32Array) -> Float32Array:
        """Link loads of one part after each swap, shape (swaps, links); overwritten by the next call.

        Args:
            shares: its traffic, shape (components, components).
            paths: `K` of the module, shape (components, components, links).
            loads: its present loads, shape (links,).
        """
        self._look(paths)
        return self._loads(shares, paths, loads)

    def _look(self, paths: Float32Array) -> None:
        """Paths from and to every component side by side."""
        count = len(paths)
        self._both_ways[:, :count] = paths
        self._both_ways[:, count:] = paths.swapaxes(0, 1)

    def _loads(self, shares: Float32Array, paths: Float32Array, loads: Float32Array) -> Float32Array:
        np.matmul(np.concatenate((shares, shares.T), axis=1), self._both_ways, out=self._moved)
        flat, moved = (table.reshape(-1, table.shape[2]) for table in (paths, self._moved))
        found, part = self._sum, self._part
        flat.take(self._there, 0, found, "clip")
        found += flat.take(self._back, 0, part, "clip")
        found *= (shares + shares.T)[self._first, self._second, None]
        found += moved.take(self._back, 0, part, "clip")
        found += moved.take(self._there, 0, part, "clip")
        for own in self._own:
            found -= moved.take(own, 0, part, "clip")
        found += loads
        return found

    def smooth_costs(self, shares: Float32Array, paths: Float32Array, loads: Float32Array) -> Float32Array:
        """Smooth objective after each swap, shape (swaps,), for shares and loads of all parts."""
        self._look(paths)
        costs = np.zeros(len(self._first), dtype=np.float32)
        for part, load in zip(shares, loads, strict=True):
            costs += smooth_cost(self._loads(part, paths, load), self._part)
        return costs


def changes(shares: Float32Array, paths: Float32Array, first: IntArray, second: IntArray) -> Float32Array:
    """Change of the link loads of each part by some swaps, shape (swaps, parts, links), for few of them.

    Args:
        shares: traffic, shape (parts, components, components).
        paths: `K` of the module, shape (components, components, links).
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


def smooth_cost(loads: Float32Array, room: Float32Array | None = None) -> Float32Array:
    """Mean link load + λ · 8-norm of the link loads, over the last axis; `room` is overwritten."""
    power = np.square(loads, out=room)
    np.square(power, out=power)
    np.square(power, out=power)
    mean = np.add.reduce(loads, axis=-1) / loads.shape[-1]  # what `mean` does, without its checks
    norm = np.sqrt(np.sqrt(np.sqrt(np.add.reduce(power, axis=-1))))
    cost: Float32Array = mean + WORST_LINK_WEIGHT * norm
    return cost
