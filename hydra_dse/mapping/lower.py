"""Lower a design for a model: pools, execution groups and the operators that they run.

Residency is a rule of the pool: `sram_weight_share` of the SRAM of its dies keeps weights, spread over the operators
it runs in proportion to their weights, so that every one streams the same share less.  A die of two pools gives
half to each, a replica keeps its own copy.  Resident weights still occupy the stacks they were loaded from.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import DieGroup, Package
from hydra_dse.mapping.apart import apart, handoff_shares, site_shares
from hydra_dse.mapping.experts import read_elsewhere
from hydra_dse.mapping.groups import groups_of_class, groups_of_pool, pool_names
from hydra_dse.mapping.identity import components_key, mapping_key
from hydra_dse.mapping.layout import (
    fetch_matrix,
    imbalance,
    memory_sites,
    nominal_peaks,
    shares_by_peak,
    work_shares,
)
from hydra_dse.mapping.nouns import (
    ExecutionGroup,
    MappedDesign,
    MappedOperator,
    MappedPool,
)
from hydra_dse.mapping.operands import Operands, operands_of, precision_of
from hydra_dse.mapping.scans import RECURRENT, scan_shares, scan_work
from hydra_dse.mapping.staged import stage_site_shares, staged
from hydra_dse.mapping.stages import handed_on, stages_of
from hydra_dse.mapping.storage import dealt, expert_homes, memory_of
from hydra_dse.mapping.transfers import transfers_of
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Operator, OperatorClass
from hydra_dse.model.routing import Routing

FloatArray = NDArray[np.float64]

ALL_EXPERTS_ROWS = 1e12
"""So many rows touch every expert that is used at all."""

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
    """Lower a design for given operands; `nominal` rounds the peaks of dies and keeps nothing resident."""
    sites = memory_sites(design.package)
    shares = site_shares(design, sites)
    pools = pool_names(design)
    members = {name: groups_of_pool(design.package, name, design.mapping.only) for name in pools}
    uses = {group.name: sum(group in members[name] for name in pools) for group in design.package.dies}
    components = design.package.die_count + design.package.stack_count
    peaks = {name: nominal_peaks(groups_of_pool(design.package, name)) if nominal else None for name in pools}
    return MappedDesign(
        pools=tuple(
            _PoolMapper(design, operands, share, members[name], uses, peaks[name]).pool(name)
            for name, share in zip(pools, shares, strict=True)
        ),
        memory=memory_of(design, operands, sites),
        handoff_bytes_per_token=operands.kv_bytes_per_token if apart(design) else 0.0,
        handoff_bytes_per_sequence=operands.state_bytes_per_sequence if apart(design) else 0.0,
        handoff=handoff_shares(design, sites, components),
        sites=sites,
        component_count=components,
    )


@dataclass
class _PoolMapper:
    """Maps the operators of one pool, building each execution group once."""

    design: Design
    operands: Operands
    site_share: FloatArray
    members: tuple[DieGroup, ...]
    uses: dict[str, int]
    nominal: dict[str, tuple[float, float]] | None

    @property
    def package(self) -> Package:
        """The package of the design."""
        return self.design.package

    @property
    def choice(self) -> MappingChoice:
        """The mapping choice of the design."""
        return self.design.mapping

    def pool(self, name: str) -> MappedPool:
        """Return the mapped pool."""
        if not self.members:
            return MappedPool(name, (), ())
        groups: list[ExecutionGroup] = []
        operators: list[MappedOperator] = []
        before: ExecutionGroup | None = None
        at = stage_site_shares(self.design, memory_sites(self.package)) if staged(self.design) else None
        for stage, mine in enumerate(stages_of(self.operands, self.choice.pipeline)):
            members = tuple(group for group in self.members if group.stage == stage)
            if not members:
                continue
            part = replace(self, members=members, site_share=self.site_share if at is None else at[stage])
            homes = part._execution_group(members)
            mapped = part._stage(name, mine, homes, groups)
            if before is not None and mapped and self.operands.model is not None:
                arriving = handed_on(before, homes, float(self.operands.model.hidden_size))
                mapped[0] = replace(mapped[0], transfers=(*arriving, *mapped[0].transfers))
            operators += mapped
            before = homes
        return MappedPool(name, tuple(groups), tuple(operators))

    def _stage(
        self, name: str, operators: Sequence[Operator], homes: ExecutionGroup, groups: list[ExecutionGroup]
    ) -> list[MappedOperator]:
        """Map the operators of a stage to its dies, appending the execution groups they need."""
        index = self._groups_of_operators(operators, groups, homes, name)
        placed = [(o, index[_key(o)]) for o in operators if _key(o) in index]
        moves = transfers_of(placed, groups, homes)
        resident = self._resident_share([(operator, groups[group]) for operator, group in placed])
        shares = [tuple(group.work_share.tolist()) for group in groups]
        return [
            MappedOperator(
                operator=operator,
                group=group,
                imbalance=self._imbalance(operator, groups[group], shares[group]),
                resident_share=resident if keeps_weights(operator) else 0.0,
                transfers=move,
            )
            for (operator, group), move in zip(placed, moves, strict=True)
        ]

    @property
    def _splits(self) -> bool:
        return self.choice.parallelism != "replica"

    def _imbalance(self, operator: Operator, group: ExecutionGroup, shares: tuple[float, ...]) -> float:
        if group.experts is not None:
            return group.experts.imbalance
        return imbalance(operator.parallel_units, shares) if self._splits else 1.0

    def _groups_of_operators(
        self, operators: Sequence[Operator], groups: list[ExecutionGroup], homes: ExecutionGroup, pool: str
    ) -> dict[tuple[OperatorClass, Routing | None], int]:
        """Append the execution groups that the operators need; return the group of each that has one."""
        index: dict[tuple[OperatorClass, Routing | None], int] = {}
        numbers: dict[tuple[tuple[str, ...], Routing | None, bool], int] = {}
        for key in dict.fromkeys(_key(operator) for operator in operators):
            kind, routing = key
            chosen = groups_of_class(self.members, self.choice, kind)
            if not chosen:
                continue
            names = tuple(group.name for group in chosen)
            routed = routing if self.choice.parallelism == "expert" else None
            scans = kind in RECURRENT and self.choice.scan_split == "speed" and self._splits
            if (names, routed, scans) not in numbers:
                numbers[names, routed, scans] = len(groups)
                group = homes if names == homes.die_groups and not scans else self._execution_group(chosen, scans, pool)
                groups.append(group if routed is None else self._with_experts(group, routed, pool))
            index[key] = numbers[names, routed, scans]
        return index

    def _with_experts(self, group: ExecutionGroup, routing: Routing, pool: str) -> ExecutionGroup:
        """A group of dies that hold experts whole; other pools read them from where the last pool keeps them."""
        placement = dealt(self.choice, routing, group.work_share, self.site_share)
        homes = expert_homes(self.design, self.site_share, routing)
        if pool != pool_names(self.design)[-1] and homes is not None:
            placement = read_elsewhere(placement, homes)
        return replace(
            group,
            work_share=placement.load_share,
            weight_fetch=placement.weight_fetch(ALL_EXPERTS_ROWS),
            parallelism="expert",
            experts=placement,
        )

    def _execution_group(self, groups: tuple[DieGroup, ...], scans: bool = False, pool: str = "") -> ExecutionGroup:
        dies = tuple(die for group in groups for die in self.package.die_indices(group.name))
        chiplets = [group.chiplet for group in groups for _ in range(group.count)]
        nominal = (
            None if self.nominal is None else [self.nominal[group.name] for group in groups for _ in range(group.count)]
        )
        if scans:
            peaks = None if nominal is None else [matrix for matrix, _ in nominal]
            work = scan_shares(scan_work(self.operands, pool), chiplets, peaks)
        else:
            work = work_shares(chiplets) if nominal is None else shares_by_peak(nominal)
        at = self.site_share
        cache = fetch_matrix(at, work, self.choice.homes)
        return ExecutionGroup(
            die_groups=tuple(group.name for group in groups),
            dies=dies,
            work_share=work,
            weight_fetch=cache if self._splits else np.outer(at, np.ones(len(dies))),
            cache_fetch=cache,
            parallelism="tensor" if self._splits else "replica",
            scans=scans,
        )

    def _resident_share(self, placed: Sequence[tuple[Operator, ExecutionGroup]]) -> float:
        weights = sum(
            max(o.weight_copies, 1) * o.weight_elements * (1.0 if group.experts is None else group.experts.copies)
            for o, group in placed
            if keeps_weights(o)
        )
        weights *= self.operands.precision.weight_bytes
        if weights <= 0 or self.nominal is not None:
            return 0.0
        if not self._splits:
            weights *= sum(group.count for group in self.members)
        sram = sum(group.count * group.chiplet.sram_bytes / self.uses[group.name] for group in self.members)
        return min(1.0, self.choice.sram_weight_share * sram / weights)


def _key(operator: Operator) -> tuple[OperatorClass, Routing | None]:
    """Operators of one class share a group; experts only those that are routed alike."""
    return operator.kind, operator.routing if operator.kind is OperatorClass.EXPERTS else None


def keeps_weights(operator: Operator) -> bool:
    """Whether an operator's weights may stay in SRAM: all but a lookup table, of which few rows are touched."""
    return operator.kind is not OperatorClass.EMBEDDING and operator.weight_elements > 0
