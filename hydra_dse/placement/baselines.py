"""Placements that do not look at traffic in detail: baselines to compare with.

They return a slot per component without asking whether routes exist; `repaired` mends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from hydra_dse.hardware.components import Topology
from hydra_dse.placement.assignment import matched
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import FloatArray, IntArray, Problem
from hydra_dse.placement.region import Layout
from hydra_dse.placement.ring import ring_order
from hydra_dse.rng import derive

DRAWS = 200
# Bytes a die asks of the network by phase, GB/s per link of the fastest dies (HYDRA, arXiv 2608.19395: weights of its
# placement, "64 prefill / 256 decode").
PHASE_WEIGHT = {"prefill": 64.0, "decode": 256.0}


def _types(problem: Problem) -> list[list[int]]:
    """Component indices type by type: die groups, then memory groups."""
    types, start = [], 0
    counts = [group.count for group in problem.package.dies] + [group.count for group in problem.package.memories]
    for count in counts:
        types.append(list(range(start, start + count)))
        start += count
    return types


def round_robin(problem: Problem) -> IntArray:
    """Deal the components over the slots in order, one of each type in turn (HYDRA's baseline).

    Slots stay empty at the end where there are more slots than components.
    """
    slots = np.zeros(problem.count, dtype=np.int64)
    turn = [component for round_ in zip_longest(*_types(problem)) for component in round_ if component is not None]
    slots[turn] = np.arange(problem.count)
    return slots


def random_placement(problem: Problem, seed: int) -> IntArray:
    """Draw placements until one is legal: uniform over legal placements.

    After `DRAWS` draws without success the last draw is returned for repair; where legal layouts are that rare the
    result is random, but no longer uniform.
    """
    rng = derive(seed, "placement", problem.count, problem.graph.size)
    slots = rng.permutation(problem.graph.size)[: problem.count]
    for _ in range(DRAWS - 1):
        if problem.legal(slots):
            break
        slots = rng.permutation(problem.graph.size)[: problem.count]
    return slots.astype(np.int64)


def two_step(problem: Problem) -> IntArray:
    """HYDRA's heuristic: memory on the outer ring, then dies near the memory of their operator family.

    1. Memory slots in the order of `ring_order`.
    2. The memory is divided between the families so that the lesser of their request rates `memory / demand` is as
       large as possible; a family's demand is what its dies draw from the stacks per request.  The memory slots of a
       family lie together (ordered by column, then row).
    3. Dies take the free slot nearest to the memory of their family in Manhattan distance, the larger family first,
       within a family the dies of larger `PHASE_WEIGHT` first.

    Source: arXiv 2608.19395, section on placement; the paper counts concurrent requests from capacities, which a
    placement does not see: traffic per request stands for them here.
    """
    package, topology = problem.package, problem.package.topology
    slots = np.zeros(problem.count, dtype=np.int64)
    ring = ring_order(topology)[: package.stack_count]
    beside = sorted(ring, key=lambda slot: (topology.slots[slot].x_mm, topology.slots[slot].y_mm))
    slots[package.die_count :] = beside
    families = _families(problem)
    demands = [float(problem.shares[package.die_count :, dies].sum()) for dies in families]
    start = 0
    homes = []
    for part in divide(package.stack_count, demands):
        homes.append(beside[start : start + part] or beside)
        start += part
    free = [slot for slot in range(problem.graph.size) if slot not in set(ring)]
    for index in sorted(range(len(families)), key=lambda index: -len(families[index])):
        for die in families[index]:
            near = min(free, key=lambda slot: (_manhattan(topology, slot, homes[index]), slot))
            slots[die] = near
            free.remove(near)
    return slots


def _families(problem: Problem) -> list[list[int]]:
    """Dies by operator family in order of first appearance, those of heavier phase first."""
    families: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for group, dies in zip(problem.package.dies, _types(problem), strict=False):
        weight = PHASE_WEIGHT.get(group.phase, max(PHASE_WEIGHT.values()))
        families.setdefault(group.families, []).extend((-weight, die) for die in dies)
    return [[die for _, die in sorted(members)] for members in families.values()]


def divide(stacks: int, demands: Sequence[float]) -> list[int]:
    """Divide stacks between families so that the least `stacks / demand` is as large as possible.

    Every family gets one stack while there are enough; each further one goes to the family with the least rate.
    """
    parts = [0] * len(demands)
    for _ in range(stacks):
        rates = [part / demand if demand > 0 else np.inf for part, demand in zip(parts, demands, strict=True)]
        parts[min(range(len(parts)), key=lambda index: (rates[index], parts[index], -demands[index]))] += 1
    return parts


def _manhattan(topology: Topology, slot: int, others: Sequence[int]) -> float:
    here = topology.slots[slot]
    return sum(
        abs(here.x_mm - there.x_mm) + abs(here.y_mm - there.y_mm) for there in (topology.slots[s] for s in others)
    )


def fitted(problem: Problem, slots: IntArray) -> IntArray | None:
    """Move components as little as possible so that each fits its slot (floorplans); None where impossible."""
    if problem.fitting(slots):
        return slots
    full = (1 << problem.graph.size) - 1
    everywhere = Pattern(problem.package.topology, Layout(full, full))
    wish: FloatArray = problem.graph.distances[slots]
    return matched(problem, everywhere, wish)
