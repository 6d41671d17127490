"""Role states of an elastic design: which dies serve which phase in each, and what moves from one to the next.

State 0 is the design as it is.  In state +j the first j units of decode dies serve prefill, in state −j as many units
of prefill dies serve decode.  A unit takes `role_unit_dies` dies, the last ones by number, of every die group of its
phase that keeps at least one.  Each state is a design of its own, with other phases, so its times follow from the
same mapping and cost model as those of any design.

Both pools read one copy of weights and caches from the same stacks, so no cache changes its home.  What moves is what
SRAM keeps: slices of the weights are cut anew over the dies of both pools, and a die loads what its new slice has and
its old one lacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import DieGroup
from hydra_dse.mapping.nouns import MappedDesign, MappedPool

FloatArray = NDArray[np.float64]

OTHER = {"prefill": "decode", "decode": "prefill"}


@dataclass(frozen=True)
class RolePlan:
    """The role states of a design, from those that lend most to decode to those that lend most to prefill.

    Attributes:
        states: the design in each state; all have the same die groups, in the order of the design's components.
        native: index of the state in which no die is lent.
        part_of: die group of the design that each die group of the states is a part of.
    """

    states: tuple[Design, ...]
    native: int
    part_of: dict[str, str]

    def merge_weights(self) -> dict[str, float]:
        """Share of the dies of its group that each part has."""
        dies = {group.name: group.count for group in self.states[0].package.dies}
        whole: dict[str, int] = {}
        for name, count in dies.items():
            whole[self.part_of[name]] = whole.get(self.part_of[name], 0) + count
        return {name: count / max(whole[self.part_of[name]], 1) for name, count in dies.items()}


def role_plan(design: Design) -> RolePlan:
    """Return the role states that a policy asks for and the dies allow; one where dies do not cross.

    Raises:
        InputError: dies that cross while experts lie whole on dies, in the stages of a pipeline, or between packages.
    """
    policy, mapping = design.policy, design.mapping
    if policy.task_map == "elastic" and (mapping.parallelism == "expert" or mapping.pipeline > 1):
        what = "experts placed whole" if mapping.parallelism == "expert" else f"{mapping.pipeline} pipeline stages"
        message = f"task_map 'elastic' with {what} is not modelled; use task_map: static, or parallelism: tensor"
        raise InputError(Fault(message))
    if policy.task_map == "elastic" and design.package.parts:
        message = "task_map 'elastic' over several packages is not modelled; use task_map: static, or one package"
        raise InputError(Fault(message))
    wanted = {"decode": policy.role_units_to_prefill, "prefill": policy.role_units_to_decode}
    if policy.task_map != "elastic":
        wanted = dict.fromkeys(wanted, 0)
    units = {phase: _units(design.package.dies, phase, policy.role_unit_dies, most) for phase, most in wanted.items()}
    parts, part_of, unit_of = _cut(design.package.dies, policy.role_unit_dies, units)
    lowest, highest = -units["prefill"], units["decode"]
    states = tuple(_state(design, parts, part_of, unit_of, lent) for lent in range(lowest, highest + 1))
    return RolePlan(states, -lowest, part_of)


def swapped(design: Design) -> Design:
    """The design in which every die of one pool serves the phase of the other."""
    dies = tuple(replace(group, phase=OTHER.get(group.phase, group.phase)) for group in design.package.dies)
    policy = replace(design.policy, task_map="static")
    return replace(design, package=replace(design.package, dies=dies), policy=policy)


def _units(groups: Sequence[DieGroup], phase: str, unit: int, most: int) -> int:
    spare = [(group.count - 1) // unit for group in groups if group.phase == phase and group.count > 0]
    return min(most, max(spare, default=0))


def _cut(
    groups: Sequence[DieGroup], unit: int, units: dict[str, int]
) -> tuple[tuple[DieGroup, ...], dict[str, str], dict[str, int]]:
    """Die groups with every unit as a group of its own, after the dies that stay; component numbers do not change."""
    parts: list[DieGroup] = []
    part_of: dict[str, str] = {}
    unit_of: dict[str, int] = {}
    for group in groups:
        count = min(units.get(group.phase, 0), max(group.count - 1, 0) // unit)
        cut = [(group.name, 0, group.count - count * unit)]
        cut += [(f"{group.name}:{number}", number, unit) for number in range(count, 0, -1)]
        for name, number, dies in cut:
            parts.append(replace(group, name=name, count=dies))
            part_of[name], unit_of[name] = group.name, number
    return tuple(parts), part_of, unit_of


def _state(
    design: Design, parts: Sequence[DieGroup], part_of: dict[str, str], unit_of: dict[str, int], lent: int
) -> Design:
    lender = "decode" if lent > 0 else "prefill"
    dies = tuple(
        replace(part, phase=OTHER[lender]) if part.phase == lender and 0 < unit_of[part.name] <= abs(lent) else part
        for part in parts
    )
    named = {
        kind: tuple(part.name for part in parts if part_of[part.name] in names)
        for kind, names in design.mapping.groups.items()
    }
    return replace(
        design,
        package=replace(design.package, dies=dies),
        mapping=replace(design.mapping, groups=named),
        policy=replace(design.policy, task_map="static"),
    )


def switch_traffic(before: MappedDesign, after: MappedDesign, weight_bytes: float) -> FloatArray:
    """Bytes from component to component when dies go from one role state to another.

    Args:
        before: the design in the state that ends.
        after: the design in the state that begins.
        weight_bytes: of one weight.

    Returns:
        Shape (components, components): from memory sites to the dies whose resident slices they feed.
    """
    old, new = _resident(before), _resident(after)
    matrix = np.zeros((after.component_count, after.component_count))
    sources = [site.component for site in after.sites]
    for key, slices in new.items():
        for die, (low, high, share, fetch) in slices.items():
            kept = 0.0
            if die in old.get(key, {}):
                first, last, had, _ = old[key][die]
                kept = had * max(0.0, min(high, last) - max(low, first))
            needed = max(0.0, share * (high - low) - kept) * key[1] * weight_bytes
            matrix[sources, die] += needed * fetch
    return matrix


Slice = tuple[float, float, float, FloatArray]


def _resident(design: MappedDesign) -> dict[tuple[str, float], dict[int, Slice]]:
    """By operator and its weights: the slice of every die, the share of it in SRAM, and where it is fetched from."""
    found: dict[tuple[str, float], dict[int, Slice]] = {}
    for pool in design.pools:
        _add_resident(found, pool)
    return found


def _add_resident(found: dict[tuple[str, float], dict[int, Slice]], pool: MappedPool) -> None:
    for mapped in pool.operators:
        if mapped.resident_share <= 0.0:
            continue
        operator, group = mapped.operator, pool.groups[mapped.group]
        weights = float(max(operator.weight_copies, 1) * operator.weight_elements)
        ends = group.work_share.cumsum()
        slices = found.setdefault((operator.name, weights), {})
        for column, die in enumerate(group.dies):
            whole = group.parallelism == "replica"
            low = 0.0 if whole else float(ends[column] - group.work_share[column])
            high = 1.0 if whole else float(ends[column])
            fetch = group.weight_fetch[:, column] / max(float(group.weight_fetch[:, column].sum()), 1e-300)
            slices[die] = (low, high, mapped.resident_share, fetch)
