"""What swaps of two components do to the loads of links, and the objective of a descent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement.problem import WORST_LINK_WEIGHT, IntArray, Problem

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Swaps:
    """The swaps that keep a layout, of two components of one kind, with the traffic that they move.

    Attributes:
        first: one component of each swap.
        second: the other.
        shares: traffic of each part, shape (parts, components, components).
        rows: from and, behind it, to each component, shape (components, parts, 2 · components).
        exchanged: between the two of each swap, both ways, shape (swaps, parts, 1).
    """

    first: IntArray
    second: IntArray
    shares: Float32Array
    rows: Float32Array
    exchanged: Float32Array

    @staticmethod
    def of(problem: Problem) -> Swaps:
        """All swaps of a problem."""
        first, second = np.nonzero(problem.exchangeable)
        shares = problem.part_shares
        turned = shares.swapaxes(1, 2)
        rows = np.ascontiguousarray(np.concatenate((shares, turned), axis=2).swapaxes(0, 1))
        return Swaps(first, second, shares, rows, (shares + turned)[:, first, second].T[:, :, None])

    def changes(self, ways: Float32Array, some: IntArray) -> Float32Array:
        """Change of the link loads of each part by some of the swaps, shape (some, parts, links).

        Either component takes the place of the other: its traffic with a third goes by the other's ways.  What the two
        exchange would then be at no distance from itself, and goes back where it was, the other way round.

        Args:
            ways: of `Pattern.ways`.
            some: numbers of swaps.
        """
        first, second = self.first[some], self.second[some]
        moved = self.rows.take(first, 0)
        moved -= self.rows.take(second, 0)
        there = ways.take(second, 0)
        there -= ways.take(first, 0)
        found: Float32Array = moved @ there
        found += self.exchanged[some] * (ways[first, second] + ways[second, first])[:, None]
        return found


def smooth_cost(loads: Float32Array) -> Float32Array:
    """Mean link load + λ · 8-norm of the link loads, over the last axis."""
    mean = np.add.reduce(loads, axis=-1) / loads.shape[-1]  # what `mean` does, without its checks
    cost: Float32Array = mean + WORST_LINK_WEIGHT * norm(loads)
    return cost


def norm(loads: Float32Array, room: Float32Array | None = None) -> Float32Array:
    """8-norm over the last axis, of all links or of some; `room` is overwritten."""
    power = np.square(loads, out=room)
    np.square(power, out=power)
    np.square(power, out=power)
    root: Float32Array = np.sqrt(np.sqrt(np.sqrt(np.add.reduce(power, axis=-1))))
    return root
