"""Communication-aware assignment of components to the slots of candidate layouts, for many packages at once.

1. Build a start in every layout (`hydra_dse.placement.construct`).
2. Descend on hop-bytes by the best swap of two components of one kind (`hydra_dse.placement.descent`).
3. In the best two layouts, descend on the full objective (`hydra_dse.placement.refine`).

Packages of one graph and the same counts share their layouts and go through the first two steps together; the numbers
of each are the same whatever it is placed with.

Where memories route (no leaves) there is one layout and every swap is free; starts then come from the layouts that
leaf memories would take, which spread the memories among the dies, beside the unrestricted one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.placement.bounds import Bounds
from hydra_dse.placement.construct import constructed
from hydra_dse.placement.descent import descend
from hydra_dse.placement.patterns import Pattern, patterns
from hydra_dse.placement.problem import BoolArray, FloatArray, IntArray, Problem, objective_of
from hydra_dse.placement.refine import BETTER, Descent, Start
from hydra_dse.placement.swaps import Float32Array, Swaps

REFINED = 2  # layouts refined on the full objective by a step, the best of them to the end
MAX_STEPS = 100
SPREAD_STARTS = 5  # starts with spread memories where memories route
TOGETHER = 8  # packages in one step: their arrays stay in cache


@dataclass(frozen=True, eq=False)
class Assigned:
    """The best slots found, and their objective as a share of the traffic."""

    slots: tuple[int, ...]
    cost: float


@dataclass(frozen=True, eq=False)
class _Begin:
    """A layout and the slots each component may take at first, shape (components, slots)."""

    pattern: Pattern
    allowed: BoolArray


def assign(problems: Sequence[Problem], candidates: tuple[Pattern, ...]) -> list[Assigned | None]:
    """Return the best placement found over the layouts for each package; None where no layout fits the components.

    Args:
        problems: packages with the same counts of dies and stacks.
        candidates: the layouts of their graph and counts.
    """
    found: list[Assigned | None] = []
    for first in range(0, len(problems), TOGETHER):
        some = problems[first : first + TOGETHER]
        found += _on_grid(some, candidates) if some[0].fits is None else [_in_slots(one, candidates) for one in some]
    return found


def _on_grid(problems: Sequence[Problem], candidates: tuple[Pattern, ...]) -> list[Assigned | None]:
    """Packages whose slots take any component."""
    example = problems[0]
    starts = [_Begin(pattern, slots_by_kind(example, pattern)) for pattern in candidates]
    starts += _spread(example, candidates)
    if not starts:
        return [None] * len(problems)
    hops = np.stack([start.pattern.hops for start in starts])
    flow = np.stack([problem.flow for problem in problems])
    slots = constructed(flow, hops, np.stack([start.allowed for start in starts]))
    slots = descend(flow, hops, slots, example.exchangeable)
    shapes = [start.pattern for start in starts]
    return [_refined(problem, shapes, rows) for problem, rows in zip(problems, slots, strict=True)]


def _in_slots(problem: Problem, candidates: tuple[Pattern, ...]) -> Assigned | None:
    """A package whose slots are of unlike size: components start on slots that they fit."""
    matches = [(pattern, matched(problem, pattern, pattern.hops.sum(axis=0)[None, :])) for pattern in candidates]
    starts = [(pattern, match) for pattern, match in matches if match is not None]
    if not starts:
        return None
    hops, slots = np.stack([pattern.hops for pattern, _ in starts]), np.array([[match for _, match in starts]])
    slots = descend(problem.flow[None], hops, slots, problem.exchangeable, problem.fits)
    return _refined(problem, [pattern for pattern, _ in starts], slots[0])


def _refined(problem: Problem, shapes: Sequence[Pattern], slots: IntArray) -> Assigned:
    """Refine the best layouts, to the end only the one best after a step; `slots` of shape (layouts, components)."""
    starts = [Start(shape, row, problem.loads(shape, row)) for shape, row in zip(shapes, slots, strict=True)]
    chosen = [starts[at] for _, at in _by_cost([start.loads for start in starts])[:REFINED]]
    swaps = Swaps.of(problem)
    bounds = Bounds(swaps, chosen[0].loads.shape[1])
    descents = [Descent(swaps, bounds, problem.fits, start) for start in chosen]
    goes_on = [descent.step() for descent in descents]
    best = 0
    for number, descent in enumerate(descents):
        if descent.cost < descents[best].cost * BETTER:
            best = number
    for _ in range(MAX_STEPS):
        if not goes_on[best]:
            break
        goes_on[best] = descents[best].step()
    ends = [descent.slots for descent in descents]
    cost, first = _by_cost([problem.loads(one.pattern, end) for one, end in zip(chosen, ends, strict=True)])[0]
    return Assigned(tuple(ends[first].tolist()), cost)


def _by_cost(loads: Sequence[Float32Array]) -> list[tuple[float, int]]:
    """Objective and number of each placement by its link loads, best first."""
    return sorted((objective_of(each), index) for index, each in enumerate(loads))


def _spread(problem: Problem, candidates: tuple[Pattern, ...]) -> list[_Begin]:
    """Starts with the memories where leaves would be, for packages whose memories route."""
    stacks = problem.package.stack_count
    if problem.leaf_count or not stacks or len(candidates) != 1:
        return []
    die = np.arange(problem.count) < problem.package.die_count
    return [
        _Begin(candidates[0], _allowed(problem.graph.size, pattern, die))
        for pattern in patterns(problem.graph, problem.package.die_count, stacks)[:SPREAD_STARTS]
    ]


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
