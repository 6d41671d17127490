"""Domination, ranks and crowding of many points at once.

All functions take *losses*: an array (points, objectives) in which smaller is better (a metric to maximise
enters with its sign turned), and `violation` (points,), the summed relative excess over all constraints,
0 where feasible.  A feasible point dominates an infeasible one and a smaller violation a larger one
(Deb's rules; K. Deb et al., IEEE Trans. Evol. Comput. 6(2), 2002, §VI).  Each vectorised function stands
beside a readable reference; tests hold the two against each other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]

_BLOCK = 256
"""Rows compared at once, which bounds memory."""


def dominates(one: FloatArray, other: FloatArray) -> bool:
    """Whether `one` is at least as good everywhere and better somewhere."""
    return bool(np.all(one <= other) and np.any(one < other))


def nondominated_reference(losses: FloatArray) -> BoolArray:
    """Which points no other point dominates: the definition, pair by pair."""
    return np.array([not any(dominates(other, point) for other in losses) for point in losses], dtype=bool)


def nondominated(losses: FloatArray) -> BoolArray:
    """Which points no other point dominates (equal points do not dominate each other).

    Sorted lexicographically, a point can only be dominated by one that comes before it, so one pass over
    blocks against the front found so far is enough: O(points × front) instead of O(points²).
    """
    count = len(losses)
    keep = np.zeros(count, dtype=bool)
    if count == 0:
        return keep
    order = np.lexsort(losses.T[::-1])
    front = np.empty((0, losses.shape[1]))
    for start in range(0, count, _BLOCK):
        rows = order[start : start + _BLOCK]
        block = losses[rows]
        alive = ~_any_dominates(front, block)
        rows, block = rows[alive], block[alive]
        alive = ~_any_dominates(block, block)
        keep[rows[alive]] = True
        front = np.concatenate([front, block[alive]])
    return keep


def _any_dominates(ones: FloatArray, others: FloatArray) -> BoolArray:
    """For each of `others`, whether any of `ones` dominates it."""
    no_worse = np.ones((len(ones), len(others)), dtype=bool)
    better = np.zeros((len(ones), len(others)), dtype=bool)
    for objective in range(others.shape[1]):  # by objective: two-dimensional masks instead of three
        left, right = ones[:, objective, None], others[None, :, objective]
        no_worse &= left <= right
        better |= left < right
    found: BoolArray = np.asarray(np.any(no_worse & better, axis=0))
    return found


def ranks(losses: FloatArray, violation: FloatArray) -> IntArray:
    """Rank of every point under constrained domination; 0 is the best front.

    Feasible points are peeled front by front; infeasible ones follow, one rank per distinct violation.
    """
    rank = np.zeros(len(losses), dtype=np.int64)
    left = np.flatnonzero(violation <= 0)
    level = 0
    while len(left):
        best = nondominated(losses[left])
        rank[left[best]] = level
        left = left[~best]
        level += 1
    infeasible = np.flatnonzero(violation > 0)
    _, position = np.unique(violation[infeasible], return_inverse=True)
    rank[infeasible] = level + position
    return rank


def crowding(losses: FloatArray) -> FloatArray:
    """Crowding distance of points of one front: the larger, the lonelier; infinite at the ends.

    The sum over objectives of the gap between a point's two neighbours, as a share of the front's extent
    (Deb et al. 2002, §III-B).  Of equal points the first counts as the end.
    """
    distance = np.zeros(len(losses))
    if len(losses) == 0:
        return distance
    for column in losses.T:
        order = np.argsort(column, kind="stable")
        extent = column[order[-1]] - column[order[0]]
        distance[order[[0, -1]]] = np.inf
        if extent > 0:
            distance[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / extent
    return distance
