"""One placed piece of hardware as rows of numbers: what each operand costs on each link and memory site.

Everything that depends on the package, the placement and the mapping is linear in the bytes of an operand, so it is
reduced here to seconds and joules per byte.  Batch limits and token budgets do not enter: designs that differ only in
those share a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Chiplet, Package
from hydra_dse.hardware.fabric import part_of_component, parts_of
from hydra_dse.mapping import ExecutionGroup, MappedDesign, MappedOperator, MappedPool, Transfer
from hydra_dse.model.precision import Precision
from hydra_dse.network_load import LinkLoad
from hydra_dse.operator_cost import DieRates, site_bandwidth, site_seconds_per_byte
from hydra_dse.profile.experts import NODES, ExpertPaths, expert_cost

FloatArray = NDArray[np.float64]

# Patterns of execution group `g`: operands held in memory flow along 3g (weights), 3g + 1 (cache reads) and
# 3g + 2 (cache writes).  Patterns of transfers follow.
WEIGHTS, READS, WRITES = 0, 1, 2
# Access kinds of group `g` at the memory sites: 3g (weights), 3g + 1 (KV), 3g + 2 (state).
KINDS = ("weights", "kv", "state")


@dataclass(frozen=True, eq=False)
class ExpertNodes:
    """One instance of an operator of experts placed whole, at the numbers of rows in `NODES`.

    Attributes:
        busiest_s: mean of the longest of compute, memory and network, shape (nodes,).
        energy_j: expected joules of dies, memory and links, shape (nodes,).
        site_s, link_s: expected busy seconds, shapes (nodes, sites) and (nodes, links).
    """

    busiest_s: FloatArray
    energy_j: FloatArray
    site_s: FloatArray
    link_s: FloatArray


@dataclass(frozen=True, eq=False)
class PoolRow:
    """A pool of one placed design.  `P` patterns, `G` execution groups, `D` die groups, `O` operators.

    Attributes:
        signature: equal for pools that can be evaluated together.
        operators: as mapped; only what `signature` covers may be read from them for other rows.
        transfer_patterns: pattern index of each transfer of each operator.
        group_dies, parallelism: of each execution group: indices of its die groups, and how they split work.
        names: die group names, shape (D,).
        link_s: busy seconds per byte, shape (P, links).
        hop_j: joules per byte over all links, shape (P,).
        site_s: busy seconds per byte, shape (3G, sites).
        site_j: joules per byte of weights and of caches, shape (2G,).
        latency_s, resident, imbalance: per operator, shape (O,).
        share: of the work per die, shape (G, D); 0 where a die group is not in an execution group.
        count: dies of each die group, shape (D,).
        rates: of each die group.
        experts: costs at the nodes of experts placed whole, by number of the operator.
    """

    signature: tuple[object, ...]
    operators: tuple[MappedOperator, ...]
    transfer_patterns: tuple[tuple[int, ...], ...]
    group_dies: tuple[tuple[int, ...], ...]
    parallelism: tuple[str, ...]
    names: tuple[str, ...]
    link_s: FloatArray
    hop_j: FloatArray
    site_s: FloatArray
    site_j: FloatArray
    latency_s: FloatArray
    resident: FloatArray
    imbalance: FloatArray
    share: FloatArray
    count: FloatArray
    rates: tuple[DieRates, ...]
    experts: Mapping[int, ExpertNodes] = field(default_factory=dict)


def links_of_sites(package: Package, mapped: MappedDesign, load: LinkLoad) -> FloatArray:
    """Bytes per second that the links of each memory site carry together; infinite for the memory of a die."""
    degree = [0] * len(package.topology.slots)
    for a, b in package.topology.edges:
        degree[a] += 1
        degree[b] += 1
    slots, parts, part_of = load.placement.slots, parts_of(package), part_of_component(package)
    capacity = [part.link_bandwidth_bytes_per_s * part.link.efficiency for part in parts]
    return np.array(
        [
            math.inf
            if site.ports == 0
            else capacity[part_of[site.component]] * min(degree[slots[site.component]], site.ports)
            for site in mapped.sites
        ],
        dtype=np.float64,
    )


class RowMaker:
    """Makes the pool rows of one placed design."""

    def __init__(
        self,
        package: Package,
        mapped: MappedDesign,
        load: LinkLoad,
        rates: Callable[[Chiplet], DieRates],
        precision: Precision,
    ) -> None:
        self.package, self.mapped, self.load = package, mapped, load
        self.precision = precision
        self.rates = {group.name: rates(group.chiplet) for group in package.dies if group.count > 0}
        self.group_of = [group.name for group in package.dies for _ in range(group.count)]
        self.links = links_of_sites(package, mapped, load)
        self.bandwidth: dict[tuple[float, ...], FloatArray] = {}
        self.delays, self.delay_s = load.delays

    def row(self, pool: MappedPool) -> PoolRow:
        """Return the row of a pool."""
        names = tuple(dict.fromkeys(name for group in pool.groups for name in group.die_groups))
        counts = {group.name: group.count for group in self.package.dies}
        patterns, moves, transfer_patterns = self._patterns(pool)
        loads = self.load.loads(patterns)
        site_s, site_j = self._sites(pool)
        group_dies = tuple(tuple(names.index(name) for name in group.die_groups) for group in pool.groups)
        rates = tuple(self.rates[name] for name in names)
        return PoolRow(
            signature=self._signature(pool, transfer_patterns, names, rates),
            operators=pool.operators,
            transfer_patterns=transfer_patterns,
            group_dies=group_dies,
            parallelism=tuple(group.parallelism for group in pool.groups),
            names=names,
            link_s=loads / self.load.capacity,
            hop_j=self.load.joules(loads),
            site_s=site_s,
            site_j=site_j,
            latency_s=self._latencies_s(pool, moves, transfer_patterns),
            resident=np.array([mapped.resident_share for mapped in pool.operators]),
            imbalance=np.array([mapped.imbalance for mapped in pool.operators]),
            share=self._shares(pool, names),
            count=np.array([counts[name] for name in names], dtype=np.float64),
            rates=rates,
            experts={
                number: self._expert_nodes(operator, pool.groups[operator.group])
                for number, operator in enumerate(pool.operators)
                if pool.groups[operator.group].experts is not None
            },
        )

    def _expert_nodes(self, mapped: MappedOperator, group: ExecutionGroup) -> ExpertNodes:
        placement = group.experts
        if placement is None:
            raise ValueError(f"{mapped.operator.name} has no experts placed whole")
        paths = self.expert_paths(mapped, group, self.precision)
        cost = expert_cost(mapped.operator, placement, paths, self.precision, mapped.resident_share, NODES)
        joules = np.array([site.joules_per_byte for site in self.mapped.sites])
        one = mapped.operator.weight_elements / placement.routing.experts * self.precision.weight_bytes
        read = placement.distinct(NODES) * (one * (1.0 - mapped.resident_share))
        links = self.load.joules(cost.link_s * self.load.capacity)
        return ExpertNodes(
            cost.busiest_s, cost.die_j + read @ (joules @ placement.fetch) + links, cost.site_s, cost.link_s
        )

    def expert_paths(self, mapped: MappedOperator, group: ExecutionGroup, precision: Precision) -> ExpertPaths:
        """Return what the weights read by each die, and the rows that move, cost on sites and links."""
        fetch, size = group.experts.fetch if group.experts else group.weight_fetch, self.mapped.component_count
        rates = [self.rates[self.group_of[die]] for die in group.dies]
        reached = self._reached(tuple(float(rate.memory["weights"]) for rate in rates))
        at = np.array([site.component for site in self.mapped.sites])
        traffic = np.zeros((len(group.dies) + 1, size, size))
        for number, die in enumerate(group.dies):
            traffic[number, at, die] = fetch[:, number]
        for transfer in mapped.transfers:
            per_row = transfer.elements_per_token * precision.activation_bytes
            traffic[-1, np.array(transfer.sources)[:, None], np.array(transfer.targets)] += transfer.share * per_row
        diagonal = np.arange(size)
        traffic[:, diagonal, diagonal] = 0.0
        loads = self.load.loads(traffic) / self.load.capacity
        return ExpertPaths(fetch / reached, loads[:-1].T, loads[-1], rates)

    def _patterns(self, pool: MappedPool) -> tuple[FloatArray, list[Transfer], tuple[tuple[int, ...], ...]]:
        """Traffic per byte of each pattern, shape (P, components, components); transfers, and who uses which."""
        # Operators of a group share the array of a transfer, so its identity names the pattern.
        distinct = {id(t.share): t for mapped in pool.operators for t in mapped.transfers}
        moves, held = list(distinct.values()), 3 * len(pool.groups)
        index = {key: held + number for number, key in enumerate(distinct)}
        size = self.mapped.component_count
        patterns = np.zeros((held + len(moves), size, size))
        at = np.array([site.component for site in self.mapped.sites])
        for number, group in enumerate(pool.groups):
            dies = np.array(group.dies)
            patterns[3 * number + WEIGHTS, at[:, None], dies] = group.weight_fetch
            patterns[3 * number + READS, at[:, None], dies] = group.cache_fetch
            patterns[3 * number + WRITES, dies[:, None], at] = group.cache_fetch.T
        for number, transfer in enumerate(moves, held):
            patterns[number, np.array(transfer.sources)[:, None], np.array(transfer.targets)] = transfer.share
        diagonal = np.arange(size)
        patterns[:, diagonal, diagonal] = 0.0
        return patterns, moves, tuple(tuple(index[id(t.share)] for t in m.transfers) for m in pool.operators)

    def _sites(self, pool: MappedPool) -> tuple[FloatArray, FloatArray]:
        """Seconds per byte of each access kind at each site, and joules per byte of weights and caches."""
        joules = np.array([site.joules_per_byte for site in self.mapped.sites])
        seconds, energy = [], []
        for group in pool.groups:
            rates = [self.rates[self.group_of[die]] for die in group.dies]
            for kind in KINDS:
                fetch = group.weight_fetch if kind == "weights" else group.cache_fetch
                reached = self._reached(tuple(float(rate.memory[kind]) for rate in rates))
                seconds.append(site_seconds_per_byte(fetch, reached))
            energy += [group.weight_fetch.sum(axis=1) @ joules, group.cache_fetch.sum(axis=1) @ joules]
        return np.array(seconds), np.array(energy)

    def _reached(self, efficiency: tuple[float, ...]) -> FloatArray:
        """Bandwidth of sites for dies of these efficiencies; one column where all are alike."""
        if len(set(efficiency)) == 1:
            efficiency = efficiency[:1]
        if efficiency not in self.bandwidth:
            self.bandwidth[efficiency] = site_bandwidth(self.mapped.sites, self.links, np.array(efficiency))
        return self.bandwidth[efficiency]

    def _latencies_s(
        self, pool: MappedPool, moves: Sequence[Transfer], transfers: Sequence[Sequence[int]]
    ) -> FloatArray:
        """Longest path of each transfer, one after the other; memory reads are fetched ahead and show no latency."""
        hops = np.zeros(3 * len(pool.groups) + len(moves))
        for number, transfer in enumerate(moves, 3 * len(pool.groups)):
            paths = self.delays[np.array(transfer.sources)[:, None], np.array(transfer.targets)]
            hops[number] = np.max(paths, where=transfer.share > 0, initial=0.0)
        return np.array([hops[list(used)].sum() if used else 0.0 for used in transfers]) * self.delay_s

    def _shares(self, pool: MappedPool, names: tuple[str, ...]) -> FloatArray:
        share = np.zeros((len(pool.groups), len(names)))
        for number, group in enumerate(pool.groups):
            for die, part in zip(group.dies, group.work_share, strict=True):
                share[number, names.index(self.group_of[die])] = part
        return share

    def _signature(
        self,
        pool: MappedPool,
        transfers: tuple[tuple[int, ...], ...],
        names: tuple[str, ...],
        rates: Sequence[DieRates],
    ) -> tuple[object, ...]:
        return (
            pool.name,
            tuple((id(mapped.operator), mapped.group) for mapped in pool.operators),
            transfers,
            tuple(group.die_groups for group in pool.groups),
            tuple(group.parallelism for group in pool.groups),
            names,
            tuple(rate.shape for rate in rates),
        )
