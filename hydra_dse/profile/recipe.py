"""What packages that differ only in numbers have in common: how their operators are mapped, without any numbers.

Packages share a recipe when their die groups have the same names, families and phases, under the same mapping choice,
pools and precision; they may differ in counts, die types, stacks, topology, links and placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import Package
from hydra_dse.mapping import (
    ExecutionGroup,
    MappedOperator,
    MappedPool,
    Operands,
    ScanWork,
    Transfer,
    forward_shares,
    groups_of_pool,
    keeps_weights,
    map_operands,
    mapping_key,
    pool_names,
    scan_work,
)
from hydra_dse.model.operators import Operator

_SPLITS = ("tensor", "replica")
_KINDS = ("gather", "reduce", "forward")
HOMES = -1  # stands for the group of all dies of the pool, which holds the residual stream


@dataclass(frozen=True, eq=False)
class Move:
    """A pattern of transfers: from the dies of one execution group to those of another, `HOMES` for all of the pool.

    Attributes:
        overlap: bytes move where the intervals of sources and targets overlap; else every target gets every source's
            part (`"gather"`) or every source gives every target's part (`"reduce"`).
    """

    kind: str
    source: int
    target: int
    overlap: bool


@dataclass(frozen=True, eq=False)
class PoolRecipe:
    """A pool of a recipe; die groups are numbered as in `Recipe.groups`.

    Attributes:
        members: die groups of the pool.
        groups: die groups of each execution group.
        scans: what each execution group for scans alone does of the reference request, None for others.
        parallelism: of each execution group; caches: whether it has operators with KV or state.
        operators: mapped for a package of two dies a group; only the mapping itself may be read from them.
        moves: patterns of transfers; transfer_patterns: those of each operator, counted after the 3 of each group.
        resident_weights: elements that may stay in SRAM.
        keeps: whether each operator's weights may.
    """

    members: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    scans: tuple[ScanWork | None, ...]
    parallelism: tuple[str, ...]
    caches: tuple[bool, ...]
    operators: tuple[MappedOperator, ...]
    moves: tuple[Move, ...]
    transfer_patterns: tuple[tuple[int, ...], ...]
    resident_weights: float
    keeps: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How packages of a kind serve a model.

    Attributes:
        groups: names of the die groups that have dies, in the order of the package.
        pools: in the order of `pool_names`.
        uses: number of pools that each die group is in.
        homes, sram_weight_share: of the mapping choice.
    """

    groups: tuple[str, ...]
    pools: tuple[PoolRecipe, ...]
    uses: tuple[int, ...]
    homes: str
    sram_weight_share: float
    operands: Operands


def recipe_key(design: Design) -> tuple[object, ...]:
    """Key of designs that share a recipe."""
    dies = tuple([(group.name, group.families, group.phase) for group in design.package.dies if group.count > 0])
    return dies, design.policy.serving, mapping_key(design.mapping), design.precision


def recipe_of(design: Design, operands: Operands) -> Recipe | None:
    """Return the recipe of a design; None where it is mapped in a way that recipes do not cover."""
    if design.mapping.pipeline > 1 or design.mapping.memories or design.package.parts:
        return None
    package = _two_each(design.package)
    groups = tuple(group.name for group in package.dies)
    names = pool_names(design)
    members = [groups_of_pool(package, name) for name in names]
    mapped = map_operands(replace(design, package=package), operands)
    pools = [
        _pool_recipe(pool, tuple(groups.index(group.name) for group in mine), groups, package, operands)
        for pool, mine in zip(mapped.pools, members, strict=True)
    ]
    found = tuple(pool for pool in pools if pool is not None)
    if len(found) < len(pools):
        return None
    uses = tuple(sum(number in pool.members for pool in found) for number in range(len(groups)))
    return Recipe(groups, found, uses, design.mapping.homes, design.mapping.sram_weight_share, operands)


def _two_each(package: Package) -> Package:
    """The package with two dies in each group: every transfer that any package of the recipe has then moves bytes.

    For that the groups also differ in vector peak, which bounds their scans, while all have one matrix peak.
    """
    groups = [group for group in package.dies if group.count > 0]
    chiplets = [
        replace(group.chiplet, style="mac-array", matmul_flops_per_s=1e30, vector_flops_per_s=1.0 + number)
        for number, group in enumerate(groups)
    ]
    dies = [replace(group, count=2, chiplet=chiplet) for group, chiplet in zip(groups, chiplets, strict=True)]
    return replace(package, dies=tuple(dies))


def _pool_recipe(
    pool: MappedPool, members: tuple[int, ...], names: tuple[str, ...], package: Package, operands: Operands
) -> PoolRecipe | None:
    if not pool.groups or any(group.parallelism not in _SPLITS for group in pool.groups):
        return None
    everyone = tuple(die for member in members for die in package.die_indices(names[member]))
    # Operators of a group share the array of a transfer, so its identity names the pattern.
    distinct = {id(t.share): (t, mapped.group) for mapped in pool.operators for t in mapped.transfers}
    moves = [_move(transfer, group, pool.groups, everyone) for transfer, group in distinct.values()]
    found = tuple(move for move in moves if move is not None)
    if len(found) < len(moves):
        return None
    index = {key: 3 * len(pool.groups) + number for number, key in enumerate(distinct)}
    cached = {mapped.group for mapped in pool.operators if _has_cache(mapped.operator)}
    kept = [mapped.operator for mapped in pool.operators if keeps_weights(mapped.operator)]
    return PoolRecipe(
        members=members,
        groups=tuple(tuple(names.index(name) for name in group.die_groups) for group in pool.groups),
        scans=tuple(scan_work(operands, pool.name) if group.scans else None for group in pool.groups),
        parallelism=tuple(group.parallelism for group in pool.groups),
        caches=tuple(number in cached for number in range(len(pool.groups))),
        operators=pool.operators,
        moves=found,
        transfer_patterns=tuple(tuple(index[id(t.share)] for t in m.transfers) for m in pool.operators),
        resident_weights=sum(max(operator.weight_copies, 1) * operator.weight_elements for operator in kept),
        keeps=tuple(keeps_weights(mapped.operator) for mapped in pool.operators),
    )


def _move(transfer: Transfer, group: int, groups: Sequence[ExecutionGroup], everyone: tuple[int, ...]) -> Move | None:
    if transfer.kind not in _KINDS:
        return None
    overlap = transfer.kind == "forward" or groups[group].parallelism == "replica"
    if transfer.kind == "gather" and (transfer.sources, transfer.targets) == (everyone, groups[group].dies):
        return Move("gather", HOMES, group, overlap)
    if transfer.kind == "reduce" and (transfer.sources, transfer.targets) == (groups[group].dies, everyone):
        return Move("reduce", group, HOMES, overlap)
    target = groups[group]
    before = [
        number
        for number, other in enumerate(groups)
        if other.dies == transfer.sources and np.array_equal(forward_shares(other, target)[2], transfer.share)
    ]
    if transfer.kind == "forward" and before and transfer.targets == target.dies:
        return Move("forward", before[0], group, True)
    return None


def _has_cache(operator: Operator) -> bool:
    return operator.kv_elements_per_token > 0 or operator.state_elements + operator.conv_state_elements > 0
