"""Descent on the full objective: every swap's effect on every link, by superposition.

With `t` the traffic and `K[i, j, l]` = 1 where the path from the slot of `i` to that of `j` takes link `l`,
`P[j, i, l] = Σ_k t_ik K[j, k, l] + t_ki K[k, j, l]` is what component `i` would put on link `l` from the slot of `j`.
Swapping `i` and `j` changes the load of link `l` by

    P[j, i, l] + P[i, j, l] - P[i, i, l] - P[j, j, l] + (t_ij + t_ji) · (K[i, j, l] + K[j, i, l]),

so the loads after all swaps are sums of rows of `P` and `K`; a test compares them with routing each swap anew.  (Links
come last so that rows are copied whole; products are stacked, so that none is large enough for BLAS to start threads,
which costs more than it gains here.)
The maximum is flat where two links are equally loaded: descents use the 8-norm in its place (a smooth upper bound of
it), the result is judged by the maximum itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import WORST_LINK_WEIGHT, BoolArray, IntArray, Problem

Float32Array = NDArray[np.float32]

MAX_SWAPS = 100
_BETTER = 1.0 - 1e-5


def refine(problem: Problem, pattern: Pattern, slots: IntArray) -> IntArray:
    """Swap components of one kind, always the best swap, while the smooth objective falls."""
    if not len(pattern.routes.links):
        return slots
    first, second = np.nonzero(problem.exchangeable)
    if not len(first):
        return slots
    slots = slots.copy()
    swaps = Swaps(problem.shares, first, second, len(pattern.routes.links))
    paths = pattern.paths(slots)
    loads = np.einsum("ijl,ij->l", paths, problem.shares)
    cost = float(smooth_cost(loads))
    for _ in range(MAX_SWAPS):
        swapped = swaps.loads(paths, loads)
        costs = swaps.smooth_costs()
        if problem.fits is not None:
            costs[~_both_fit(problem.fits, slots, first, second)] = np.inf
        best = int(costs.argmin())
        if not costs[best] < cost * _BETTER:
            break
        pair = [int(first[best]), int(second[best])]
        slots[pair] = slots[pair[::-1]]
        paths[pair] = paths[pair[::-1]]
        paths[:, pair] = paths[:, pair[::-1]]
        loads, cost = swapped[best].copy(), float(costs[best])
    return slots


class Swaps:
    """Link loads after every swap of `first[m]` and `second[m]`, by the formula of the module, in arrays that stay.

    Args:
        shares: traffic, shape (components, components).
        first: one component of each swap.
        second: the other.
        links: number of links.
    """

    def __init__(self, shares: Float32Array, first: IntArray, second: IntArray, links: int) -> None:
        count = len(shares)
        self._shares, self._turned = shares, shares.T
        self._there, self._back = first * count + second, second * count + first
        self._own = first * (count + 1), second * (count + 1)
        self._both = (shares + shares.T)[first, second, None]
        self._moved, self._more = np.empty((2, count, count, links), dtype=np.float32)
        self._sum, self._part = np.empty((2, len(first), links), dtype=np.float32)

    def loads(self, paths: Float32Array, loads: Float32Array) -> Float32Array:
        """Link loads after each swap, shape (swaps, links); overwritten by the next call.

        Args:
            paths: `K` of the module, shape (components, components, links).
            loads: present loads, shape (links,).
        """
        np.matmul(self._shares, paths, out=self._moved)
        np.matmul(self._turned, paths.swapaxes(0, 1), out=self._more)
        self._moved += self._more
        flat, moved = (table.reshape(-1, table.shape[2]) for table in (paths, self._moved))
        found, part = self._sum, self._part
        flat.take(self._there, 0, found, "clip")
        found += flat.take(self._back, 0, part, "clip")
        found *= self._both
        found += moved.take(self._back, 0, part, "clip")
        found += moved.take(self._there, 0, part, "clip")
        for own in self._own:
            found -= moved.take(own, 0, part, "clip")
        found += loads
        return found

    def smooth_costs(self) -> Float32Array:
        """`smooth_cost` of the loads last returned, shape (swaps,)."""
        return smooth_cost(self._sum, self._part)


def smooth_cost(loads: Float32Array, room: Float32Array | None = None) -> Float32Array:
    """Mean link load + λ · 8-norm of the link loads, over the last axis; `room` is overwritten."""
    power = np.square(loads, out=room)
    np.square(power, out=power)
    np.square(power, out=power)
    mean = np.add.reduce(loads, axis=-1) / loads.shape[-1]  # what `mean` does, without its checks
    norm = np.sqrt(np.sqrt(np.sqrt(np.add.reduce(power, axis=-1))))
    cost: Float32Array = mean + WORST_LINK_WEIGHT * norm
    return cost


def _both_fit(fits: BoolArray, slots: IntArray, first: IntArray, second: IntArray) -> BoolArray:
    both: BoolArray = fits[first, slots[second]] & fits[second, slots[first]]
    return both
