"""Whether components can be placed, and what would help where they cannot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import part_components, part_slots
from hydra_dse.placement.problem import Problem
from hydra_dse.placement.region import most_leaves
from hydra_dse.results import Violation


def room_violations(problem: Problem) -> tuple[Violation, ...]:
    """Return a violation where there are more components than slots."""
    size = problem.graph.size if problem.package.topology.kind != "floorplan" else len(problem.package.topology.slots)
    if problem.count <= size:
        return ()
    levers = ("more slots", "fewer dies", "fewer memory stacks")
    return (Violation("placement_slots", float(problem.count), float(size), "slots", levers),)


def placement_violations(package: Package, slots: tuple[int, ...]) -> tuple[Violation, ...]:
    """Return what a given placement breaks: components too large for their slot, dies apart, lonely memories."""
    if package.parts:
        pairs = zip(package.parts, part_slots(package), part_components(package), strict=True)
        return tuple(
            replace(broken, constraint=f"{part.name}: {broken.constraint}")
            for part, own, mine in pairs
            for broken in placement_violations(part, tuple(slots[component] - own.start for component in mine))
        )
    problem = Problem(package, np.zeros((len(slots), len(slots))))
    chosen = np.array(slots, dtype=np.int64)
    layout, graph = problem.layout_of(chosen), problem.graph
    found = []
    if problem.fits is not None:
        misfits = int((~problem.fits[np.arange(problem.count), chosen]).sum())
        if misfits:
            found.append(
                Violation("placement_fit", float(misfits), 0.0, "components", ("larger slots", "smaller dies"))
            )
    parts = graph.parts(layout.core)
    if parts > 1:
        levers = ("another placement", "routing base die (memory_is_leaf: false)")
        found.append(Violation("placement_connected", float(parts), 1.0, "connected parts", levers))
    lonely = (layout.leaves & ~graph.border(layout.core)).bit_count()
    if lonely:
        levers = ("another placement", "routing base die (memory_is_leaf: false)")
        found.append(Violation("placement_memory_neighbours", float(lonely), 0.0, "stacks without a die", levers))
    return tuple(found)


def unplaceable(problem: Problem) -> tuple[Violation, ...]:
    """Explain why no legal placement was found.

    With leaf memories the dies must hang together and border every stack: the bound is the number of stacks that so
    many dies can border at most (proven by enumeration on packages of up to about thirty tiles, else the best found).
    """
    if problem.leaf_count:
        bound, _, _ = most_leaves(problem.graph, problem.core_count, problem.leaf_count)
        if bound < problem.leaf_count:
            levers = ("routing base die (memory_is_leaf: false)", "fewer memory stacks", "more compute dies")
            demand = float(problem.leaf_count)
            return (Violation("placement_memory_neighbours", demand, float(bound), "stacks beside a die", levers),)
    levers = ("another topology", "larger slots", "fewer components")
    return (Violation("placement_legal", float(problem.count), 0.0, "components", levers),)
