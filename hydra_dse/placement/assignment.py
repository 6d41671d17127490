"""Communication-aware assignment of components to the slots of candidate layouts.

1. Build a start in every layout at once: components in the order of their traffic to those placed already, each on the
   slot of least added hop-bytes.
2. Descend on hop-bytes by the best swap of two components of one kind, all layouts in parallel.  The change of every
   swap comes from one matrix product: with `G = F · D`, swapping `i` and `j` adds
   `G_ij + G_ji - G_ii - G_jj + 2 F_ij D_ij` (`F` symmetric traffic, `D` hops between the present slots).
3. In the best layouts, descend on the full objective (`hydra_dse.placement.refine`).

Where memories route (no leaves) there is one layout and every swap is free; starts then come from the layouts that
leaf memories would take, which spread the memories among the dies, beside the unrestricted one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.placement.patterns import Pattern, patterns
from hydra_dse.placement.problem import BoolArray, FloatArray, IntArray, Problem
from hydra_dse.placement.refine import refine

REFINED = 2  # layouts refined on the full objective
SPREAD_STARTS = 5  # starts with spread memories where memories route
_MAX_STEPS = 200
_CLOSER = 1e-9
_NEAR_CENTRE = 1e-6


@dataclass(frozen=True, eq=False)
class _Start:
    """A layout and the slots each component may take at first, shape (components, slots)."""

    pattern: Pattern
    allowed: BoolArray


def assign(problem: Problem, candidates: tuple[Pattern, ...]) -> tuple[int, ...] | None:
    """Return the slots of the best placement found over the layouts; None where no layout fits the components."""
    starts = [_Start(pattern, slots_by_kind(problem, pattern)) for pattern in candidates]
    if problem.fits is None:
        starts += _spread(problem, candidates)
        slots = _construct(problem, starts) if starts else np.empty((0, problem.count), dtype=np.int64)
    else:
        matches = [matched(problem, start.pattern, start.pattern.hops.sum(axis=0)[None, :]) for start in starts]
        starts = [start for start, match in zip(starts, matches, strict=True) if match is not None]
        slots = np.array([match for match in matches if match is not None], dtype=np.int64)
    if not starts:
        return None
    slots = descend(problem, np.stack([start.pattern.hops for start in starts]), slots)
    ranked = _by_cost(problem, starts, slots)[:REFINED]
    slots = np.stack([refine(problem, starts[index].pattern, slots[index]) for index in ranked])
    best = _by_cost(problem, [starts[index] for index in ranked], slots)[0]
    return tuple(slots[best].tolist())


def _spread(problem: Problem, candidates: tuple[Pattern, ...]) -> list[_Start]:
    """Starts with the memories where leaves would be, for packages whose memories route."""
    stacks = problem.package.stack_count
    if problem.leaf_count or not stacks or len(candidates) != 1:
        return []
    die = np.arange(problem.count) < problem.package.die_count
    return [
        _Start(candidates[0], _allowed(problem.graph.size, pattern, die))
        for pattern in patterns(problem.graph, problem.package.die_count, stacks)[:SPREAD_STARTS]
    ]


def _by_cost(problem: Problem, starts: list[_Start], slots: IntArray) -> list[int]:
    costs = [problem.cost(start.pattern, row) for start, row in zip(starts, slots, strict=True)]
    return sorted(range(len(costs)), key=lambda index: (costs[index], index))


def matched(problem: Problem, pattern: Pattern, wish: FloatArray) -> IntArray | None:
    """Give every component a slot of its kind that it fits, at least total `wish`; None where impossible.

    Args:
        problem: the components.
        pattern: the layout to fill.
        wish: cost of each slot for each component, shape (components or 1, slots).
    """
    from scipy.optimize import linear_sum_assignment  # only baselines and floorplans need it

    allowed: BoolArray = slots_by_kind(problem, pattern)
    if problem.fits is not None:
        np.logical_and(allowed, problem.fits, out=allowed)
    refused = 1e3 * (1.0 + float(np.abs(wish).sum()))
    rows, columns = linear_sum_assignment(np.where(allowed, wish, refused))
    if not bool(np.all(allowed[rows, columns])):
        return None
    return np.asarray(columns, dtype=np.int64)


def slots_by_kind(problem: Problem, pattern: Pattern) -> BoolArray:
    """Shape (components, slots): slots of the layout that are meant for the component's kind."""
    return _allowed(problem.graph.size, pattern, problem.is_core)


def _allowed(size: int, pattern: Pattern, in_core: BoolArray) -> BoolArray:
    allowed: BoolArray = np.zeros((2, size), dtype=np.bool_)
    allowed[1, pattern.core] = True
    allowed[0, pattern.leaves] = True
    return allowed[in_core.astype(np.int64)]


def _construct(problem: Problem, starts: list[_Start]) -> IntArray:
    """Place component after component in all layouts at once; shape (layouts, components)."""
    hops = np.stack([start.pattern.hops for start in starts])
    free = np.stack([start.allowed for start in starts])
    used = np.asarray(free.any(axis=1))
    # Hop-bytes a component would add on each slot; a trace of the distance to all others breaks ties to the centre.
    remote = np.einsum("lab,lb->la", hops, used) * _NEAR_CENTRE
    added = np.repeat(remote[:, None, :], problem.count, axis=1)
    slots = np.zeros((len(starts), problem.count), dtype=np.int64)
    layouts = np.arange(len(starts))
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
    active = np.arange(len(slots))
    forbidden = ~problem.exchangeable
    for _ in range(_MAX_STEPS):
        change = hop_change(problem.flow, hops[active], slots[active])
        change[:, forbidden] = np.inf
        if problem.fits is not None:
            change[~_fit_after_swap(problem.fits, slots[active])] = np.inf
        flat = change.reshape(len(active), -1)
        best = flat.argmin(axis=1)
        better = flat[np.arange(len(active)), best] < -_CLOSER
        active, best = active[better], best[better]
        if not len(active):
            break
        first, second = best // problem.count, best % problem.count
        slots[active, first], slots[active, second] = slots[active, second], slots[active, first]
    return slots


def _fit_after_swap(fits: BoolArray, slots: IntArray) -> BoolArray:
    there = fits[np.arange(len(fits))[None, :, None], slots[:, None, :]]
    both: BoolArray = there & there.swapaxes(-1, -2)
    return both


def hop_change(flow: FloatArray, hops: FloatArray, slots: IntArray) -> FloatArray:
    """Change of hop-bytes by every swap, shape (layouts, components, components)."""
    layouts = np.arange(len(slots))[:, None, None]
    between = hops[layouts, slots[:, :, None], slots[:, None, :]]
    moved = flow @ between
    own = np.diagonal(moved, axis1=-2, axis2=-1)
    change: FloatArray = moved + moved.swapaxes(-1, -2) - own[:, :, None] - own[:, None, :] + 2.0 * flow * between
    return change
