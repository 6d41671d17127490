"""A mapped pool on its placed package as bytes per resource and per byte of each operand.

Everything that depends on hardware, placement and mapping is linear in the bytes of an operand.  The paths are walked
once here; an iteration then multiplies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import part_of_component
from hydra_dse.mapping import ExecutionGroup, ExpertPlacement, MappedDesign, MappedOperator, MappedPool
from hydra_dse.model.operators import Operator
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieRates, DieShare, die_rates, launch_s
from simulators.noi.links import PlacedLinks

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OperandPaths:
    """Where one byte of an operand of an execution group goes.

    Attributes:
        site_bytes: bytes read from (or written to) each memory site, shape (sites,).
        link_bytes: bytes on each directed link, shape (links,).
        site_s: seconds that each site is busy with it, shape (sites,).
    """

    site_bytes: FloatArray
    link_bytes: FloatArray
    site_s: FloatArray


@dataclass(frozen=True, eq=False)
class GroupPaths:
    """The operands of one execution group that lie in memory.

    Attributes:
        kv_access_bytes: of reads that take as long as the start of one access to KV, on the die that needs most.
    """

    weights: OperandPaths
    kv_reads: OperandPaths
    kv_writes: OperandPaths
    state_reads: OperandPaths
    state_writes: OperandPaths
    kv_access_bytes: float = 0.0


@dataclass(frozen=True, eq=False)
class DiePart:
    """The dies of one die group in an execution group."""

    name: str
    count: int
    rates: DieRates
    share: DieShare


@dataclass(frozen=True, eq=False)
class Activations:
    """One transfer of an operator: operand bytes per row, and bytes on each link per operand byte."""

    kind: str
    bytes_per_row: float
    link_bytes: FloatArray


@dataclass(frozen=True, eq=False)
class PlacedExperts:
    """Experts placed whole: who serves which, and the weights and the rates of each die.

    Attributes:
        paths: of the expert weights that each die reads.
        rates: of each die.
    """

    placement: ExpertPlacement
    paths: tuple[OperandPaths, ...]
    rates: tuple[DieRates, ...]


@dataclass(frozen=True, eq=False)
class PlacedOperator:
    """An operator on its dies.

    Attributes:
        group: index of its execution group.
        streamed: share of its weights that comes from memory.
        fixed_s: overhead of an instance and the latency of its transfers, one after the other (operands in memory
            are fetched ahead and show none).
        experts: of experts placed whole, whose weights do not follow `paths`.
    """

    operator: Operator
    group: int
    streamed: float
    fixed_s: float
    dies: tuple[DiePart, ...]
    paths: GroupPaths
    activations: tuple[Activations, ...]
    experts: PlacedExperts | None = None


@dataclass(frozen=True, eq=False)
class PlacedPool:
    """A pool ready to be costed.

    Attributes:
        die_groups: names of the die groups of each execution group.
        iteration_overhead_s: host cost of an iteration.
    """

    name: str
    operators: tuple[PlacedOperator, ...]
    die_groups: tuple[tuple[str, ...], ...]
    iteration_overhead_s: float


class PlacedHardware:
    """The package of a design, its links, its memory sites and the rates of its dies."""

    def __init__(self, design: Design, mapped: MappedDesign, calibration: CalibrationSet, precision: Precision) -> None:
        if design.placement is None:
            raise ValueError(f"design {design.name or design.identity} has no placement")
        package = design.package
        self.package: Package = package
        self.precision = precision
        self.mapped = mapped
        self.links = PlacedLinks(package, design.placement.slots)
        self.die_names = [group.name for group in package.dies for _ in range(group.count)]
        self.rates = {
            group.name: die_rates(group.chiplet, calibration, precision, design.mapping.pipeline)
            for group in package.dies
            if group.count
        }
        self.site_count = len(mapped.sites)
        self.pipeline = design.mapping.pipeline
        self.positions = design.policy.emission.positions
        self._buffers = [
            package.chiplet_of(die).sram_bytes * (1.0 - design.mapping.sram_weight_share)
            for die in range(package.die_count)
        ]
        part = part_of_component(package)
        # A stack delivers no more than its links carry; the memory of a die needs none.
        self._site_links_bytes_per_s = [
            math.inf
            if site.component < package.die_count
            else min(self.links.degree(site.component), site.ports) * self.links.noi_bytes_per_s[part[site.component]]
            for site in mapped.sites
        ]

    def reached(self, site: int, die: int, kind: str) -> float:
        """Bandwidth that the accesses of a die reach at a memory site."""
        efficiency = float(self.rates[self.die_names[die]].memory[kind])
        return min(self._site_links_bytes_per_s[site], self.mapped.sites[site].achievable_bytes_per_s(efficiency))

    def stream_buffer_bytes(self, die: int) -> float:
        """SRAM of a die that no weights stay in: operands on their way and activations share it."""
        return self._buffers[die]

    def pool(self, name: str) -> PlacedPool:
        """Return a pool of the mapped design with all its paths walked."""
        pool = self.mapped.pool(name)
        paths = [self._group_paths(group) for group in pool.groups]
        walked: dict[int, FloatArray] = {}
        return PlacedPool(
            name,
            tuple(self._operator(pool, mapped, paths, walked) for mapped in pool.operators),
            tuple(group.die_groups for group in pool.groups),
            max(
                (float(self.rates[die].iteration_overhead_s) for group in pool.groups for die in group.die_groups),
                default=0.0,
            ),
        )

    def _group_paths(self, group: ExecutionGroup) -> GroupPaths:
        return GroupPaths(
            weights=self._operand(group, group.weight_fetch, "weights", write=False),
            kv_reads=self._operand(group, group.cache_fetch, "kv", write=False),
            kv_writes=self._operand(group, group.cache_fetch, "kv", write=True),
            state_reads=self._operand(group, group.cache_fetch, "state", write=False),
            state_writes=self._operand(group, group.cache_fetch, "state", write=True),
            kv_access_bytes=self.kv_access_bytes(group),
        )

    def kv_access_bytes(self, group: ExecutionGroup) -> float:
        """Bytes that the start of one access to KV costs in time, on the die of a group that needs most."""
        return max((float(self.rates[name].kv_access_bytes) for name in group.die_groups), default=0.0)

    def _operand(self, group: ExecutionGroup, fetch: FloatArray, kind: str, write: bool) -> OperandPaths:
        at = [site.component for site in self.mapped.sites]
        reached = np.array([[self.reached(site, die, kind) for die in group.dies] for site in range(len(at))])
        return OperandPaths(
            site_bytes=fetch.sum(axis=1),
            link_bytes=self.links.count_bytes(group.dies, at, fetch.T)
            if write
            else self.links.count_bytes(at, group.dies, fetch),
            site_s=(fetch / reached).sum(axis=1),
        )

    def _operator(
        self, pool: MappedPool, mapped: MappedOperator, paths: list[GroupPaths], walked: dict[int, FloatArray]
    ) -> PlacedOperator:
        group = pool.groups[mapped.group]
        activations, hops = [], 0.0
        for transfer in mapped.transfers:
            # Operators of a group share the array of shares, so each is walked once.
            if id(transfer.share) not in walked:
                walked[id(transfer.share)] = self.links.count_bytes(transfer.sources, transfer.targets, transfer.share)
            hops += self.links.longest_path(transfer.sources, transfer.targets, transfer.share)
            per_row = transfer.elements_per_token * self.precision.activation_bytes
            activations.append(Activations(transfer.kind, per_row, walked[id(transfer.share)]))
        dies = self._die_parts(group, mapped.imbalance)
        overhead = max((float(launch_s(mapped.operator, part.rates, len(group.dies))) for part in dies), default=0.0)
        return PlacedOperator(
            operator=mapped.operator,
            group=mapped.group,
            streamed=1.0 - mapped.resident_share,
            fixed_s=float(overhead) + hops * self.links.delay_s,
            dies=dies,
            paths=paths[mapped.group],
            activations=tuple(activations),
            experts=self._experts(group),
        )

    def _experts(self, group: ExecutionGroup) -> PlacedExperts | None:
        placement = group.experts
        if placement is None:
            return None
        alone = [replace(group, dies=(die,)) for die in group.dies]
        return PlacedExperts(
            placement,
            tuple(
                self._operand(one, placement.fetch[:, [number]], "weights", write=False)
                for number, one in enumerate(alone)
            ),
            tuple(self.rates[self.die_names[die]] for die in group.dies),
        )

    def _die_parts(self, group: ExecutionGroup, imbalance: float) -> tuple[DiePart, ...]:
        """Dies of a die group are equal, so one stands for all of them."""
        names = [self.die_names[die] for die in group.dies]
        return tuple(
            DiePart(
                name,
                names.count(name),
                self.rates[name],
                DieShare(float(group.work_share[names.index(name)]), imbalance, group.parallelism),
            )
            for name in group.die_groups
        )
