"""The communication-aware placement of one package in plain steps: what the batched code must agree with slot for slot.

One layout at a time, one component or swap at a time, every number anew; only the sums over components and links are
left to NumPy, in the order in which the batched code takes them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement import WORST_LINK_WEIGHT, Problem
from hydra_dse.placement.assignment import REFINED, SPREAD_STARTS, matched
from hydra_dse.placement.patterns import Pattern, patterns

FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def plain_assign(problem: Problem) -> tuple[tuple[int, ...], float] | None:
    """Slots and objective (as a share of the traffic) of the best layout."""
    candidates = patterns(problem.graph, problem.core_count, problem.leaf_count)
    starts = [(pattern, _first(problem, pattern, pattern, problem.is_core)) for pattern in candidates]
    if problem.fits is None and not problem.leaf_count and problem.package.stack_count and len(candidates) == 1:
        die = np.arange(problem.count) < problem.package.die_count
        spread = patterns(problem.graph, problem.package.die_count, problem.package.stack_count)[:SPREAD_STARTS]
        starts += [(candidates[0], _first(problem, candidates[0], kinds, die)) for kinds in spread]
    ready = [(pattern, _descend(problem, pattern, slots)) for pattern, slots in starts if slots is not None]
    if not ready:
        return None
    ready.sort(key=lambda start: _cost(problem, *start))
    refined = [(pattern, _refine(problem, pattern, slots)) for pattern, slots in ready[:REFINED]]
    best = min(refined, key=lambda start: _cost(problem, *start))
    return tuple(best[1].tolist()), _cost(problem, *best)


def _first(problem: Problem, pattern: Pattern, kinds: Pattern, in_core: BoolArray) -> IntArray | None:
    """Component after component, each on the free slot of its kind that adds the fewest hop-bytes."""
    if problem.fits is not None:
        return matched(problem, pattern, pattern.hops.sum(axis=0)[None, :])
    hops, flow, size = pattern.hops, problem.flow, problem.graph.size
    meant = {True: set(kinds.core.tolist()), False: set(kinds.leaves.tolist())}
    used = np.isin(np.arange(size), sorted(set().union(*(meant[bool(core)] for core in in_core))))
    added = {c: np.einsum("ab,b->a", hops, used) * 1e-6 for c in range(problem.count)}
    attached = flow.sum(axis=1) * 1e-3
    slots = np.zeros(problem.count, dtype=np.int64)
    taken: set[int] = set()
    for _ in range(problem.count):
        component = int(attached.argmax())
        attached = attached + flow[component]
        attached[component] = -np.inf
        free = sorted(meant[bool(in_core[component])] - taken)
        slot = min(free, key=lambda place: (added[component][place], place))
        slots[component] = slot
        taken.add(slot)
        for other in added:
            added[other] = added[other] + flow[component, other] * hops[slot]
    return slots


def _pairs(problem: Problem, slots: IntArray) -> list[tuple[int, int]]:
    pairs = [(int(a), int(b)) for a, b in np.argwhere(problem.exchangeable)]
    fits = problem.fits
    return [(a, b) for a, b in pairs if fits is None or (fits[a, slots[b]] and fits[b, slots[a]])]


def _exchanged(slots: IntArray, pair: tuple[int, int]) -> IntArray:
    found = slots.copy()
    found[list(pair)] = found[[pair[1], pair[0]]]
    return found


def _descend(problem: Problem, pattern: Pattern, slots: IntArray) -> IntArray:
    """The best swap on hop-bytes, again and again."""
    flow = problem.flow
    while pairs := _pairs(problem, slots):
        between = pattern.hops[np.ix_(slots, slots)]
        moved = flow @ between
        change = [
            moved[a, b] + moved[b, a] - moved[a, a] - moved[b, b] + 2.0 * flow[a, b] * between[a, b] for a, b in pairs
        ]
        best = int(np.argmin(change))
        if change[best] >= -1e-9:
            return slots
        slots = _exchanged(slots, pairs[best])
    return slots


def _loads(problem: Problem, pattern: Pattern, slots: IntArray) -> Float32Array:
    return np.asarray(np.einsum("ijl,ij->l", pattern.pair_links[slots[:, None], slots], problem.shares))


def _cost(problem: Problem, pattern: Pattern, slots: IntArray) -> float:
    loads = _loads(problem, pattern, slots)
    return float(loads.mean() + WORST_LINK_WEIGHT * loads.max()) if len(loads) else 0.0


def _smooth(loads: Float32Array) -> np.float32:
    eighth = np.square(np.square(np.square(loads))).sum(axis=-1)
    return np.float32(loads.sum(axis=-1) / loads.shape[-1] + WORST_LINK_WEIGHT * np.sqrt(np.sqrt(np.sqrt(eighth))))


def loads_after_swap(
    shares: Float32Array, paths: Float32Array, moved: Float32Array, loads: Float32Array, pair: tuple[int, int]
) -> Float32Array:
    """Link loads after one swap, by the formula of `hydra_dse.placement.refine`."""
    a, b = pair
    found = (paths[a, b] + paths[b, a]) * (shares[a, b] + shares[b, a])
    for other in (moved[b, a], moved[a, b], -moved[a, a], -moved[b, b], loads):
        found = found + other
    return np.asarray(found)


def _refine(problem: Problem, pattern: Pattern, slots: IntArray) -> IntArray:
    """The best swap on the mean and the 8-norm of the link loads, again and again."""
    shares, loads = problem.shares, _loads(problem, pattern, slots)
    if not len(loads) or not problem.exchangeable.any():
        return slots
    cost = float(_smooth(loads))
    for _ in range(100):
        paths = np.ascontiguousarray(pattern.pair_links[slots[:, None], slots])
        moved = shares @ paths + shares.T @ paths.swapaxes(0, 1)
        pairs = _pairs(problem, slots)
        after = [loads_after_swap(shares, paths, moved, loads, pair) for pair in pairs]
        costs = [_smooth(one) for one in after]
        best = int(np.argmin(costs)) if costs else -1
        if best < 0 or not costs[best] < cost * (1.0 - 1e-5):
            return slots
        slots, loads, cost = _exchanged(slots, pairs[best]), after[best], float(costs[best])
    return slots
