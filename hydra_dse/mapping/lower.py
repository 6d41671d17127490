"""Lower a design for a model: pools, execution groups, operators, memory plan.

Residency is a rule of the pool: `sram_weight_share` of the SRAM of its dies keeps weights, spread over the operators
it runs in proportion to their weights, so that every one streams the same share less.  A die of two pools gives
half to each, a replica keeps its own copy.  Resident weights still occupy the stacks they were loaded from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import DieGroup, Package
from hydra_dse.mapping.groups import groups_of_class, groups_of_pool, pool_names
from hydra_dse.mapping.identity import components_key, mapping_key
from hydra_dse.mapping.layout import bandwidth_shares, fetch_matrix, imbalance, memory_sites, work_shares
from hydra_dse.mapping.nouns import (
    ExecutionGroup,
    MappedDesign,
    MappedOperator,
    MappedPool,
    MemoryPlan,
    MemorySite,
)
from hydra_dse.mapping.operands import Operands, operands_of, precision_of
from hydra_dse.mapping.transfers import transfers_of
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Operator, OperatorClass

FloatArray = NDArray[np.float64]

_CACHE: OrderedDict[object, MappedDesign] = OrderedDict()
_CACHE_SIZE = 1024


def map_design(design: Design, model: Model) -> MappedDesign:
    """Lower a design for a model.

    What cannot be mapped is left out and reported by `mapping_violations`.  Cached by all it depends on: dies,
    memories, mapping choice, pools and precision, not topology, placement, links or batch limits.
    """
    operands = operands_of(model, precision_of(design, model))
    key = (operands, components_key(design.package), design.policy.serving, mapping_key(design.mapping))
    found = _CACHE.get(key)
    if found is None:
        found = map_operands(design, operands)
        _CACHE[key] = found
        if len(_CACHE) > _CACHE_SIZE:
            _CACHE.popitem(last=False)
    return found


def map_operands(design: Design, operands: Operands, nominal: bool = False) -> MappedDesign:
    """Lower a design for given operands; `nominal` counts every die of a group alike and keeps nothing resident."""
    sites = memory_sites(design.package)
    share = bandwidth_shares(sites)
    pools = pool_names(design)
    members = {name: groups_of_pool(design.package, name) for name in pools}
    uses = {group.name: sum(group in members[name] for name in pools) for group in design.package.dies}
    return MappedDesign(
        pools=tuple(
            _PoolMapper(design.package, design.mapping, operands, share, members[name], uses, nominal).pool(name)
            for name in pools
        ),
        memory=memory_plan(sites, operands),
        sites=sites,
        component_count=design.package.die_count + design.package.stack_count,
    )


def memory_plan(sites: Sequence[MemorySite], operands: Operands) -> MemoryPlan:
    """One copy of the weights over all sites by bandwidth; the site that fills first bounds the caches."""
    capacity = np.array([site.capacity_bytes for site in sites], dtype=np.float64)
    share = bandwidth_shares(sites)
    weights = operands.weight_bytes * share
    used = share > 0
    left = float(np.min((capacity[used] - weights[used]) / share[used])) if used.any() else 0.0
    return MemoryPlan(
        capacity_bytes=capacity,
        weight_bytes=weights,
        cache_bytes=max(0.0, left),
        kv_bytes_per_token=operands.kv_bytes_per_token,
        state_bytes_per_sequence=operands.state_bytes_per_sequence,
    )


@dataclass
class _PoolMapper:
    """Maps the operators of one pool, building each execution group once."""

    package: Package
    choice: MappingChoice
    operands: Operands
    site_share: FloatArray
    members: tuple[DieGroup, ...]
    uses: dict[str, int]
    nominal: bool

    def pool(self, name: str) -> MappedPool:
        """Return the mapped pool."""
        if not self.members:
            return MappedPool(name, (), ())
        homes = self._execution_group(self.members)
        groups: list[ExecutionGroup] = []
        index = self._groups_of_classes(groups, homes)
        placed = [(o, index[o.kind]) for o in self.operands.operators if o.kind in index]
        moves = transfers_of(placed, groups, homes)
        resident = self._resident_share([operator for operator, _ in placed])
        shares = [tuple(group.work_share.tolist()) for group in groups]
        return MappedPool(
            name,
            tuple(groups),
            tuple(
                MappedOperator(
                    operator=operator,
                    group=group,
                    imbalance=imbalance(operator.parallel_units, shares[group]) if self._splits else 1.0,
                    resident_share=resident if keeps_weights(operator) else 0.0,
                    transfers=move,
                )
                for (operator, group), move in zip(placed, moves, strict=True)
            ),
        )

    @property
    def _splits(self) -> bool:
        return self.choice.parallelism == "tensor"

    def _groups_of_classes(self, groups: list[ExecutionGroup], homes: ExecutionGroup) -> dict[OperatorClass, int]:
        """Append the execution groups that the operators need; return the group of each class that has one."""
        index: dict[OperatorClass, int] = {}
        numbers: dict[tuple[str, ...], int] = {}
        for kind in dict.fromkeys(operator.kind for operator in self.operands.operators):
            chosen = groups_of_class(self.members, self.choice, kind)
            if not chosen:
                continue
            names = tuple(group.name for group in chosen)
            if names not in numbers:
                numbers[names] = len(groups)
                groups.append(homes if names == homes.die_groups else self._execution_group(chosen))
            index[kind] = numbers[names]
        return index

    def _execution_group(self, groups: tuple[DieGroup, ...]) -> ExecutionGroup:
        dies = tuple(die for group in groups for die in self.package.die_indices(group.name))
        chiplets = [group.chiplet for group in groups for _ in range(group.count)]
        work = np.full(len(dies), 1.0 / len(dies)) if self.nominal else work_shares(chiplets)
        at = self.site_share
        cache = fetch_matrix(at, work, self.choice.homes)
        return ExecutionGroup(
            die_groups=tuple(group.name for group in groups),
            dies=dies,
            work_share=work,
            weight_fetch=cache if self._splits else np.outer(at, np.ones(len(dies))),
            cache_fetch=cache,
            parallelism=self.choice.parallelism,
        )

    def _resident_share(self, operators: Sequence[Operator]) -> float:
        weights = sum(max(o.weight_copies, 1) * o.weight_elements for o in operators if keeps_weights(o))
        weights *= self.operands.precision.weight_bytes
        if weights <= 0 or self.nominal:
            return 0.0
        if not self._splits:
            weights *= sum(group.count for group in self.members)
        sram = sum(group.count * group.chiplet.sram_bytes / self.uses[group.name] for group in self.members)
        return min(1.0, self.choice.sram_weight_share * sram / weights)


def keeps_weights(operator: Operator) -> bool:
    """Whether an operator's weights may stay in SRAM: all but a lookup table, of which few rows are touched."""
    return operator.kind is not OperatorClass.EMBEDDING and operator.weight_elements > 0
