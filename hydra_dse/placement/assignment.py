"""Communication-aware assignment of components to the slots of candidate layouts.

1. Build a start in every layout at once: components in the order of their traffic to those placed already, each on the
   slot of least added hop-bytes.
2. Descend on hop-bytes by the best swap of two components of one kind, all layouts in parallel.  The change of every
   swap comes from one matrix product: with `G = F · D`, swapping `i` and `j` adds
   `G_ij + G_ji - G_ii - G_jj + 2 F_ij D_ij` (`F` symmetric traffic, `D` hops between the present slots).
3. In the best layouts, descend on the full objective: the swaps tried are those that cost fewest hop-bytes and those
   that move a component that loads the worst link.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.problem import BoolArray, FloatArray, IntArray, Problem, cost_of_loads

REFINED = 2  # layouts refined on the full objective
TRIED = 24  # swaps evaluated per step
_MAX_STEPS = 200
_CLOSER = 1e-9
_NEAR_CENTRE = 1e-6


def assign(problem: Problem, candidates: tuple[Pattern, ...]) -> tuple[int, ...] | None:
    """Return the slots of the best placement found over the layouts; None where no layout fits the components."""
    starts = _starts(problem, candidates)
    candidates = tuple(pattern for pattern, start in zip(candidates, starts, strict=True) if start is not None)
    if not candidates:
        return None
    hops = np.stack([pattern.hops for pattern in candidates])
    slots = np.stack([start for start in starts if start is not None])
    slots = descend(problem, hops, slots)
    costs = [float(problem.cost(pattern, row)) for pattern, row in zip(candidates, slots, strict=True)]
    ranked = sorted(range(len(costs)), key=lambda index: (costs[index], index))[:REFINED]
    refined = [_refine(problem, candidates[index], slots[index]) for index in ranked]
    best = min(range(len(refined)), key=lambda index: refined[index][0])
    return tuple(refined[best][1].tolist())


def _starts(problem: Problem, candidates: tuple[Pattern, ...]) -> list[IntArray | None]:
    if not candidates:
        return []
    if problem.fits is None:
        return list(_construct(problem, candidates))
    return [matched(problem, pattern, pattern.hops.sum(axis=0)[None, :]) for pattern in candidates]


def matched(problem: Problem, pattern: Pattern, wish: FloatArray) -> IntArray | None:
    """Give every component a slot of its kind that it fits, at least total `wish`; None where impossible.

    Args:
        problem: the components.
        pattern: the layout to fill.
        wish: cost of each slot for each component, shape (components or 1, slots).
    """
    from scipy.optimize import linear_sum_assignment  # only baselines and floorplans need it

    allowed: BoolArray = _slots_by_kind(problem, pattern)
    if problem.fits is not None:
        allowed = allowed & problem.fits
    refused = 1e3 * (1.0 + float(np.abs(wish).sum()))
    cost = np.where(allowed, wish, refused)
    rows, columns = linear_sum_assignment(cost)
    if not np.all(allowed[rows, columns]):
        return None
    return np.asarray(columns, dtype=np.int64)


def _slots_by_kind(problem: Problem, pattern: Pattern) -> BoolArray:
    """Shape (components, slots): slots of the layout that are meant for the component's kind."""
    kinds = np.zeros((2, problem.graph.size), dtype=bool)
    kinds[1, pattern.core] = True
    kinds[0, pattern.leaves] = True
    return kinds[problem.is_core.astype(np.int64)]


def _construct(problem: Problem, candidates: tuple[Pattern, ...]) -> IntArray:
    """Place component after component in all layouts at once; shape (layouts, components)."""
    hops = np.stack([pattern.hops for pattern in candidates])
    free = np.stack([_slots_by_kind(problem, pattern) for pattern in candidates])
    used = free.any(axis=1)
    # Hop-bytes a component would add on each slot; a trace of the distance to all others breaks ties to the centre.
    added = np.repeat((hops @ used[..., None])[:, None, :, 0] * _NEAR_CENTRE, problem.count, axis=1)
    slots = np.zeros((len(candidates), problem.count), dtype=np.int64)
    layouts = np.arange(len(candidates))
    for component in _order(problem.flow):
        options = np.where(free[:, component], added[:, component], np.inf)
        chosen = options.argmin(axis=1)
        slots[:, component] = chosen
        free[layouts, :, chosen] = False
        added += problem.flow[component][None, :, None] * hops[layouts, chosen][:, None, :]
    return slots


def _order(flow: FloatArray) -> list[int]:
    """Order components by traffic to those before them, the busiest first (Prim's order)."""
    attached = flow.sum(axis=1) * 1e-3
    order = []
    for _ in range(len(flow)):
        component = int(attached.argmax())
        order.append(component)
        attached += flow[component]
        attached[component] = -np.inf
    return order


def descend(problem: Problem, hops: FloatArray, slots: IntArray) -> IntArray:
    """Swap components of one kind in every layout while hop-bytes fall.

    Args:
        problem: the components and their traffic.
        hops: shape (layouts, slots, slots).
        slots: shape (layouts, components); not changed.
    """
    slots = slots.copy()
    layouts = np.arange(len(slots))
    forbidden = ~_exchangeable(problem)
    active = np.ones(len(slots), dtype=bool)
    for _ in range(_MAX_STEPS):
        rows = layouts[active]
        change = _hop_change(problem.flow, hops[rows], slots[rows])
        change[:, forbidden] = np.inf
        if problem.fits is not None:
            change[~_fit_after_swap(problem.fits, slots[rows])] = np.inf
        flat = change.reshape(len(rows), -1)
        best = flat.argmin(axis=1)
        better = flat[np.arange(len(rows)), best] < -_CLOSER
        active[rows[~better]] = False
        if not better.any():
            break
        moving, swap = rows[better], best[better]
        first, second = swap // problem.count, swap % problem.count
        slots[moving, first], slots[moving, second] = slots[moving, second], slots[moving, first]
    return slots


def _exchangeable(problem: Problem) -> BoolArray:
    """Pairs `i < j` of one kind: swapping a core and a leaf would change the layout."""
    same = problem.is_core[:, None] == problem.is_core
    pairs: BoolArray = np.triu(same, k=1)
    return pairs


def _fit_after_swap(fits: BoolArray, slots: IntArray) -> BoolArray:
    there = fits[np.arange(len(fits))[None, :, None], slots[:, None, :]]
    both: BoolArray = there & there.swapaxes(-1, -2)
    return both


def _hop_change(flow: FloatArray, hops: FloatArray, slots: IntArray) -> FloatArray:
    """Change of hop-bytes by every swap, shape (layouts, components, components)."""
    layouts = np.arange(len(slots))[:, None, None]
    between = hops[layouts, slots[:, :, None], slots[:, None, :]]
    moved = flow @ between
    own = np.diagonal(moved, axis1=-2, axis2=-1)
    change: FloatArray = moved + moved.swapaxes(-1, -2) - own[:, :, None] - own[:, None, :] + 2.0 * flow * between
    return change


def _refine(problem: Problem, pattern: Pattern, slots: IntArray) -> tuple[float, IntArray]:
    """Descend on the full objective; returns it (as a share of the traffic) with the slots."""
    loads = problem.loads(pattern, slots)
    cost = cost_of_loads(loads)
    pairs = np.argwhere(_exchangeable(problem))
    for _ in range(_MAX_STEPS):
        tried = _promising(problem, pattern, slots, loads, pairs)
        if not len(tried):
            break
        moved = np.repeat(slots[None], len(tried), axis=0)
        rows = np.arange(len(tried))
        moved[rows, tried[:, 0]] = slots[tried[:, 1]]
        moved[rows, tried[:, 1]] = slots[tried[:, 0]]
        all_loads = problem.loads(pattern, moved)
        costs = cost_of_loads(all_loads)
        best = int(costs.argmin())
        if costs[best] >= cost * (1.0 - 1e-6):
            break
        slots, loads, cost = moved[best], all_loads[best], costs[best]
    return float(cost), slots


def _promising(
    problem: Problem, pattern: Pattern, slots: IntArray, loads: NDArray[np.float32], pairs: IntArray
) -> IntArray:
    """Return swaps worth evaluating, shape (≤ `TRIED`, 2): few added hop-bytes, half of them off the worst link."""
    if not len(loads):
        return pairs[:0]
    change = _hop_change(problem.flow, pattern.hops[None], slots[None])[0][pairs[:, 0], pairs[:, 1]]
    if problem.fits is not None:
        keep = _fit_after_swap(problem.fits, slots[None])[0][pairs[:, 0], pairs[:, 1]]
        pairs, change = pairs[keep], change[keep]
    size = problem.graph.size
    on_worst = pattern.pair_links[:, int(loads.argmax())].reshape(size, size)[np.ix_(slots, slots)] * problem.shares
    weight = on_worst.sum(axis=0) + on_worst.sum(axis=1)
    heavy = np.isin(pairs, np.argsort(-weight, kind="stable")[:4]).any(axis=1)
    order = np.argsort(change, kind="stable")
    lead = order[: TRIED // 2]
    rest = order[TRIED // 2 :]
    return pairs[np.concatenate([lead, rest[heavy[rest]][: TRIED // 2]])]
