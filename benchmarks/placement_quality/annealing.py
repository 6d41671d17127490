"""Simulated annealing of placements: a random swap of two slots at a time, layouts included.

A start is any legal placement; empty slots take part, so that components may move into them.
"""

from __future__ import annotations

import math

import numpy as np

from hydra_dse.placement import Problem
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import IntArray
from hydra_dse.rng import derive

HEAT = 0.05
"""Temperature at the start as a share of the first cost; it falls with the square of the steps left."""
KEPT = 200
"""Layouts whose routes are kept at a time: those of 24 slots take 0.2 MB each."""


def annealed(problem: Problem, start: tuple[int, ...], steps: int, seed: int = 0) -> tuple[float, tuple[int, ...]]:
    """Objective in bytes and slots of the best placement that annealing meets."""
    rng = derive(seed, "anneal", *start)
    slots = np.array(start, dtype=np.int64)
    known: dict[object, Pattern] = {}

    def cost_of(candidate: IntArray) -> float:
        layout = problem.layout_of(candidate)
        if layout not in known:
            if len(known) >= KEPT:
                known.clear()
            known[layout] = Pattern(problem.package.topology, layout)
        return problem.cost(known[layout], candidate)

    cost = best = cost_of(slots)
    kept, heat = slots, HEAT * cost
    for step in range(steps):
        moved = swapped(slots, int(rng.integers(problem.count)), int(rng.integers(problem.graph.size)))
        if not problem.legal(moved):
            continue
        changed = cost_of(moved)
        temperature = heat * (1 - step / steps) ** 2 + 1e-12
        if changed <= cost or rng.random() < math.exp((cost - changed) / temperature):
            slots, cost = moved, changed
            if cost < best:
                best, kept = cost, slots
    return best * problem.scale, tuple(kept.tolist())


def swapped(slots: IntArray, component: int, slot: int) -> IntArray:
    """The placement with a component in a slot, and what was there in its place."""
    moved = slots.copy()
    moved[slots == slot] = slots[component]
    moved[component] = slot
    return moved
