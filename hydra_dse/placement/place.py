"""Place the components of a package; what cannot be placed is a result with violations."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from hydra_dse import extensions
from hydra_dse.design.nouns import PLACEMENTS, Design, Placement
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import part_components, part_slots
from hydra_dse.model.blocks import Model
from hydra_dse.placement.added import slots_of
from hydra_dse.placement.assignment import Assigned, assign
from hydra_dse.placement.baselines import fitted, random_placement, round_robin, two_step
from hydra_dse.placement.demand import demand_of, placement_key
from hydra_dse.placement.legality import placement_violations, room_violations, unplaceable
from hydra_dse.placement.patterns import patterns
from hydra_dse.placement.problem import FloatArray, IntArray, Problem
from hydra_dse.placement.region import Graph
from hydra_dse.placement.repair import repaired
from hydra_dse.results import Violation


@dataclass(frozen=True)
class Outcome:
    """A placement, or None with the reasons why there is none.

    Attributes:
        objective_bytes: mean link load + worst link loads, see `hydra_dse.placement.problem`; NaN without placement.
    """

    placement: Placement | None
    violations: tuple[Violation, ...] = ()
    objective_bytes: float = float("nan")


def place(
    package: Package, traffic: ArrayLike, algorithm: str, seed: int, slots: tuple[int, ...] | None = None
) -> Outcome:
    """Choose a slot for every component.

    Args:
        package: the components and the topology.
        traffic: bytes from component to component, shape (components, components), or (parts, components, components)
            where parts of it take turns.
        algorithm: one of `hydra_dse.design.nouns.PLACEMENTS`, or of the group `hydra_dse.placements`.
        seed: of the random placement; the others do not depend on it.
        slots: the placement itself, for `"explicit"`.

    Raises:
        InputError: unknown algorithm, traffic of the wrong shape or with entries that are negative or not finite,
            or an explicit placement that is missing or not one slot per component.
    """
    if package.parts:
        return place_parts(package, _checked_traffic(package, traffic), algorithm, seed, slots)
    problem = Problem.of(package, _checked_traffic(package, traffic))
    added = extensions.find(extensions.PLACEMENTS, algorithm) if algorithm not in PLACEMENTS else None
    if algorithm not in PLACEMENTS and added is None:
        hint = did_you_mean(algorithm, PLACEMENTS)
        raise InputError(Fault(f"unknown placement {algorithm!r}, expected {one_of(PLACEMENTS)}{hint}"))
    violations = room_violations(problem)
    if violations:
        return Outcome(None, violations)
    if algorithm == "explicit":
        return _explicit(problem, slots)
    if algorithm == "communication_aware":
        return _communication_aware([problem])[0]
    if added is not None:
        chosen = _mended(problem, slots_of(added, problem, algorithm))
    else:
        chosen = _baseline(problem, algorithm, seed)
    if chosen is None:
        return Outcome(None, unplaceable(problem))
    return Outcome(Placement(chosen, algorithm), (), problem.objective(chosen))


def room_of(package: Package) -> tuple[Violation, ...]:
    """A violation for each package with more components than slots."""
    if not package.parts:
        return room_violations(Problem(package, np.zeros((0, 0))))
    return tuple(_in(part, broken) for part in package.parts for broken in room_of(part))


def _in(part: Package, broken: Violation) -> Violation:
    return replace(broken, constraint=f"{part.name}: {broken.constraint}")


def place_parts(
    package: Package, traffic: FloatArray, algorithm: str, seed: int, slots: tuple[int, ...] | None = None
) -> Outcome:
    """Place each of several packages by the traffic inside it; what goes over the fabric is not weighed.

    Raises:
        InputError: as `place`; slots of one package for a component of another.
    """
    chosen = np.zeros(package.die_count + package.stack_count, dtype=np.int64)
    broken: list[Violation] = []
    total = 0.0
    explicit = slots if algorithm == "explicit" else None
    if explicit is not None and len(explicit) != len(chosen):
        raise InputError(Fault(f"an explicit placement needs {len(chosen)} distinct slots, got {list(explicit)}"))
    for part, own, mine in zip(package.parts, part_slots(package), part_components(package), strict=True):
        if not mine:
            continue
        given = None if explicit is None else tuple(explicit[component] for component in mine)
        away = [slot for slot in given or () if slot not in own]
        if away:
            raise InputError(
                Fault(f"package {part.name!r} has slots {own.start} to {own.stop - 1}, a component of it got {away[0]}")
            )
        inside = traffic[..., np.array(mine)[:, None], mine]
        found = place(part, inside, algorithm, seed, given and tuple(slot - own.start for slot in given))
        if found.placement is None:
            broken += [_in(part, violation) for violation in found.violations]
            continue
        chosen[list(mine)] = np.array(found.placement.slots) + own.start
        total += found.objective_bytes
    if broken:
        return Outcome(None, tuple(broken))
    return Outcome(Placement(tuple(chosen.tolist()), algorithm), (), total)


def _checked_traffic(package: Package, traffic: ArrayLike) -> FloatArray:
    matrix = np.asarray(traffic, dtype=np.float64)
    count = package.die_count + package.stack_count
    if matrix.shape[-2:] != (count, count) or matrix.ndim > 3:
        raise InputError(Fault(f"traffic has shape {matrix.shape}, the package has {count} components"))
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InputError(Fault("traffic must be finite and not negative"))
    return matrix


def _communication_aware(problems: Sequence[Problem]) -> list[Outcome]:
    """Outcomes of packages that have room: those of one graph and the same counts are placed together."""
    groups: dict[tuple[Graph, int, int, int], list[int]] = {}
    for index, problem in enumerate(problems):
        counts = problem.core_count, problem.leaf_count, problem.package.die_count
        groups.setdefault((problem.graph, *counts), []).append(index)
    outcomes: dict[int, Outcome] = {}
    for (graph, cores, leaves, _), rows in groups.items():
        mine = [problems[row] for row in rows]
        for row, problem, found in zip(rows, mine, assign(mine, patterns(graph, cores, leaves)), strict=True):
            outcomes[row] = _found(problem, found)
    return [outcomes[row] for row in range(len(problems))]


def _found(problem: Problem, found: Assigned | None) -> Outcome:
    if found is None:
        return Outcome(None, unplaceable(problem))
    return Outcome(Placement(found.slots, "communication_aware"), (), found.cost * problem.scale)


def _baseline(problem: Problem, algorithm: str, seed: int) -> tuple[int, ...] | None:
    makers: dict[str, Callable[[], IntArray]] = {
        "round_robin": lambda: round_robin(problem),
        "random": lambda: random_placement(problem, seed),
        "hydra": lambda: two_step(problem),
    }
    return _mended(problem, makers[algorithm]())


def _mended(problem: Problem, wish: IntArray) -> tuple[int, ...] | None:
    """The nearest placement that fits and routes; None where there is none."""
    start = fitted(problem, wish)
    slots = None if start is None else repaired(problem, start)
    return None if slots is None else tuple(slots.tolist())


def _explicit(problem: Problem, slots: tuple[int, ...] | None) -> Outcome:
    if slots is None:
        raise InputError(Fault("an explicit placement needs the slot of every component"))
    if len(slots) != problem.count or len(set(slots)) != len(slots):
        raise InputError(Fault(f"an explicit placement needs {problem.count} distinct slots, got {list(slots)}"))
    if any(not 0 <= slot < problem.graph.size for slot in slots):
        raise InputError(Fault(f"slots run from 0 to {problem.graph.size - 1}, got {list(slots)}"))
    violations = placement_violations(problem.package, slots)
    if violations:
        return Outcome(None, violations)
    return Outcome(Placement(slots, "explicit"), (), problem.objective(slots))


_CACHE: OrderedDict[object, Outcome] = OrderedDict()
_CACHE_SIZE = 4096


def place_design(design: Design, model: Model | Sequence[Model], seed: int) -> tuple[Design, tuple[Violation, ...]]:
    """Return the design with a placement for the traffic of `model`, or as it is with the violations.

    Of several models the traffic is the sum of one request of each.

    Results are shared by designs that differ only in what neither traffic nor routes depend on (link bandwidth, batch
    limit, token budget, policy details), in the order-independent way: the traffic is the same for all of them.
    """
    return place_designs([design], model, seed)[0]


def place_designs(
    designs: Sequence[Design], model: Model | Sequence[Model], seed: int
) -> list[tuple[Design, tuple[Violation, ...]]]:
    """`place_design` of many designs: those with the same counts are placed together, with the same results."""
    models = (model,) if isinstance(model, Model) else tuple(model)
    keys = _keys(designs, models, seed)
    outcomes = {key: _CACHE[key] for key in keys if key in _CACHE}
    missing = {key: row for row, key in reversed(list(enumerate(keys))) if key not in outcomes}
    rows = sorted(missing.values())
    found = _placed([designs[row] for row in rows], models, seed, [_given(designs[row]) for row in rows])
    for row, outcome in zip(rows, found, strict=True):
        outcomes[keys[row]] = _CACHE[keys[row]] = outcome
        if len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return [_with(design, outcomes[key]) for design, key in zip(designs, keys, strict=True)]


def _keys(designs: Sequence[Design], models: tuple[Model, ...], seed: int) -> list[tuple[object, ...]]:
    """What the outcome of each depends on; designs of one search share their parts, whose long keys are made once."""
    known: dict[object, tuple[object, ...]] = {}
    keys: list[tuple[object, ...]] = []
    for design in designs:
        parts = id(design.package), id(design.mapping), id(design.precision), id(design.placement)
        short = (*parts, design.policy.serving, design.placement_algorithm)
        if short not in known:
            known[short] = (*placement_key(design, models, seed), _given(design))
        keys.append(known[short])
    return keys


def _given(design: Design) -> tuple[int, ...] | None:
    """The slots of an explicit placement."""
    if design.placement_algorithm != "explicit":
        return None
    if design.placement is None:
        raise InputError(Fault("a design with explicit placement needs the slot of every component"))
    return design.placement.slots


def _with(design: Design, outcome: Outcome) -> tuple[Design, tuple[Violation, ...]]:
    if outcome.placement is None:
        return design, outcome.violations
    return replace(design, placement=outcome.placement), ()


def forget_placements() -> None:
    """Empty the cache of `place_design`, e.g. before timing it."""
    _CACHE.clear()


def _placed(
    designs: Sequence[Design], models: tuple[Model, ...], seed: int, given: Sequence[tuple[int, ...] | None]
) -> list[Outcome]:
    """Outcomes of designs; communication-aware ones of one package are placed together."""
    found: dict[int, Outcome] = {}
    together: dict[int, Problem] = {}
    for row, (design, slots) in enumerate(zip(designs, given, strict=True)):
        violations = room_of(design.package)
        if violations:
            found[row] = Outcome(None, violations)
        elif design.placement_algorithm == "communication_aware" and not design.package.parts:
            together[row] = Problem.of(design.package, _checked_traffic(design.package, demand_of(design, models)))
        else:
            found[row] = place(design.package, demand_of(design, models), design.placement_algorithm, seed, slots)
    found |= zip(together, _communication_aware(list(together.values())), strict=True)
    return [found[row] for row in range(len(designs))]
