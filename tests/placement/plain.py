"""The communication-aware placement of one package in plain steps: what the batched code must agree with slot for slot.

One layout at a time, one component or swap at a time, every number anew and, in the last step, in double precision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement import WORST_LINK_WEIGHT, Problem
from hydra_dse.placement.assignment import REFINED, SPREAD_STARTS, matched
from hydra_dse.placement.patterns import Pattern, patterns
from hydra_dse.placement.refine import BETTER, KEPT

FloatArray = NDArray[np.float64]
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
    ready.sort(key=lambda start: problem.cost(*start))  # as rounded there: layouts may be mirror images
    refined = [(pattern, _round(problem, pattern, slots)) for pattern, slots in ready[:REFINED]]
    first = 0
    for number in range(1, len(refined)):
        if _smooth(_loads(problem, *refined[number])) < _smooth(_loads(problem, *refined[first])) * BETTER:
            first = number
    pattern, slots = refined[first]
    while (further := _round(problem, pattern, slots)) is not slots:
        slots = further
    refined[first] = pattern, slots
    best = min(refined, key=lambda start: problem.cost(*start))
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


def _loads(problem: Problem, pattern: Pattern, slots: IntArray) -> FloatArray:
    """Loads of the links by each part, shape (parts, links), as shares of all traffic."""
    shares = (problem.traffic[None] if problem.parts is None else problem.parts) / problem.scale
    paths = pattern.pair_links[slots[:, None], slots].astype(np.float64)
    return np.stack([np.einsum("ijl,ij->l", paths, part) for part in shares])


def _cost(problem: Problem, pattern: Pattern, slots: IntArray) -> float:
    loads = _loads(problem, pattern, slots)
    return float(sum(part.mean() + WORST_LINK_WEIGHT * part.max() for part in loads)) if loads.size else 0.0


def _smooth(loads: FloatArray) -> float:
    return float(sum(part.mean() + WORST_LINK_WEIGHT * (part**8).sum() ** 0.125 for part in loads))


def _round(problem: Problem, pattern: Pattern, slots: IntArray) -> IntArray:
    """The best few swaps on the smooth objective, one after the other while they help; the same object if none does."""
    if not len(pattern.routes.links):
        return slots

    def after(pair: tuple[int, int]) -> float:
        return _smooth(_loads(problem, pattern, _exchanged(slots, pair)))

    cost = _smooth(_loads(problem, pattern, slots))
    kept = sorted((after(pair), pair) for pair in _pairs(problem, slots))[:KEPT]
    pairs = [pair for changed, pair in kept if changed < cost * BETTER]
    while pairs:
        changed, pair = min((after(pair), pair) for pair in pairs)
        if not changed < cost * BETTER:
            break
        slots, cost = _exchanged(slots, pair), changed
        pairs = [one for one in pairs if one != pair and one in _pairs(problem, slots)]
    return slots
