"""From a layout that cannot route to the nearest one that can.

A baseline may leave a leaf memory without a routing neighbour or cut the dies in two.  Repair first exchanges a leaf
slot with a core slot, always the exchange that leaves fewest defects (lowest slots first), until the layout is legal.
Where that gets stuck it takes the known legal layout that differs in fewest slots.  Components then move as little as
possible in total.  All of it is deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator

from hydra_dse.placement.assignment import matched
from hydra_dse.placement.patterns import Pattern, mended, patterns
from hydra_dse.placement.problem import IntArray, Problem
from hydra_dse.placement.region import Layout


def repaired(problem: Problem, slots: IntArray) -> IntArray | None:
    """Return `slots` itself where legal, else a legal placement near it; None where no legal one is known."""
    if problem.legal(slots):
        return slots
    graph = problem.graph
    wanted = problem.layout_of(slots)
    for layout in _nearest(problem, wanted):
        moved = matched(problem, Pattern(graph.topology, layout), graph.distances[slots])
        if moved is not None:
            return moved
    return None


def _nearest(problem: Problem, wanted: Layout) -> Iterator[Layout]:
    """Yield the mended layout, then the known ones by the number of slots that differ."""
    near = mended(problem.graph, wanted)
    if near is not None:
        yield near
    known = patterns(problem.graph, problem.core_count, problem.leaf_count)
    yield from sorted((pattern.layout for pattern in known), key=lambda layout: _difference(layout, wanted))


def _difference(layout: Layout, wanted: Layout) -> int:
    return (layout.core ^ wanted.core).bit_count() + (layout.leaves ^ wanted.leaves).bit_count()
