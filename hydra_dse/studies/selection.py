"""Which designs to simulate: spread along the front, and enough of them at loads where a service would run.

Designs are taken front by front; within a front each next one is the farthest from those taken, so that any
number of them covers it from end to end.  At least half are to have a load ≤ 0.8, where mean delays are not
governed by how close the load comes to one: while there are any, they replace the last of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hydra_dse.search.pareto import FloatArray, IntArray, nondominated

MODERATE_LOAD = 0.8
"""Load up to which a design is compared away from its saturation."""


def select(
    losses: FloatArray, violation: FloatArray, load: FloatArray, identities: Sequence[str], top: int
) -> list[int]:
    """Indices of up to `top` feasible designs, best first.

    Args:
        losses: on the objectives' scale, shape (designs, objectives).
        violation: 0 where feasible.
        load: estimated load of each design, NaN where unknown.
        identities: ids, which break ties.
        top: designs wanted.
    """
    feasible = np.flatnonzero(violation <= 0)
    chosen = _first(losses, feasible, identities, top)
    wanted = (len(chosen) + 1) // 2
    moderate = [index for index in chosen if load[index] <= MODERATE_LOAD]
    lacking = wanted - len(moderate)
    if lacking <= 0:
        return chosen
    others = np.setdiff1d(feasible[load[feasible] <= MODERATE_LOAD], chosen)
    added = _first(losses, others, identities, lacking)
    dropped = [index for index in chosen if not load[index] <= MODERATE_LOAD][::-1][: len(added)]
    return [index for index in chosen if index not in dropped] + added


def _first(losses: FloatArray, among: IntArray, identities: Sequence[str], count: int) -> list[int]:
    chosen: list[int] = []
    for front in fronts(losses, among):
        for index in spread_order(losses, front, identities):
            if len(chosen) == count:
                return chosen
            chosen.append(index)
    return chosen


def fronts(losses: FloatArray, among: IntArray) -> Iterator[IntArray]:
    """Peel front after front of the designs `among`."""
    while len(among):
        best = nondominated(losses[among])
        yield among[best]
        among = among[~best]


def spread_order(losses: FloatArray, front: IntArray, identities: Sequence[str]) -> list[int]:
    """The designs of a front: the best of each objective first, then always the farthest from all before it.

    Distances are Euclidean in objectives normalised to the front's extent; equal ones go by id.
    """
    by_id = sorted(front.tolist(), key=lambda index: identities[index])
    points = losses[by_id]
    extent = np.ptp(points, axis=0)
    points = (points - points.min(axis=0)) / np.where(extent > 0, extent, 1.0)
    order = list(dict.fromkeys(int(np.argmin(column)) for column in points.T))
    distance = np.min([np.linalg.norm(points - points[first], axis=1) for first in order], axis=0)
    distance[order] = -1.0
    while len(order) < len(by_id):
        farthest = int(np.argmax(distance))
        order.append(farthest)
        distance = np.minimum(distance, np.linalg.norm(points - points[farthest], axis=1))
        distance[order] = -1.0
    return [by_id[index] for index in order]
