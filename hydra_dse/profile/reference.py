"""The same iteration cost as `block`, for one design and one batch, in plain loops: the readable form.

`build_profile` must agree with it to rounding; nothing here is fast.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import (
    ExecutionGroup,
    ExpertPlacement,
    Flows,
    MappedOperator,
    flows_of,
    map_design,
    operator_traffic,
    precision_of,
)
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch, Demand
from hydra_dse.network_load import LinkLoad
from hydra_dse.operator_cost import (
    DieShare,
    activity,
    compute_time_s,
    die_energy_j,
    die_rates,
    launch_s,
)
from hydra_dse.profile.experts import ExpertPaths, expert_cost
from hydra_dse.profile.reference_cost import OperatorCost, Speed
from hydra_dse.profile.rows import links_of_sites

FloatArray = NDArray[np.float64]


class ReferencePool:
    """One pool of one placed design.

    Raises:
        InputError: the design is not placed.
    """

    def __init__(self, design: Design, model: Model, calibrations: CalibrationSet, pool: str) -> None:
        if design.placement is None:
            raise InputError("a profile needs placed designs")
        self.package = design.package
        self.precision = precision_of(design, model)
        self.mapped = map_design(design, model)
        self.pool = self.mapped.pool(pool)
        self.load = LinkLoad(design.package, design.placement)
        self.in_flight = design.policy.batches_in_flight
        self.speed = Speed()
        self.links = links_of_sites(self.package, self.mapped, self.load)
        self.rates = [
            die_rates(self.package.chiplet_of(die), calibrations, self.precision, design.mapping.pipeline)
            for die in range(self.package.die_count)
        ]

    def faster(self, speed: Speed) -> ReferencePool:
        """The same pool with other speeds."""
        pool = copy(self)
        pool.speed = speed
        return pool

    def operators(self, batch: Batch) -> list[OperatorCost]:
        """Cost of one instance of each operator for one of the batches in flight."""
        return [self._operator(mapped, batch) for mapped in self.pool.operators]

    def time_s(self, batch: Batch) -> float:
        """Seconds in which every sequence of the pool advances once."""
        part = self.part(batch)
        costs, overhead = self.operators(part), self.iteration_overhead_s(part)
        serial = sum(cost.count * cost.time_s for cost in costs) + overhead
        busy = [*self.die_busy(costs).values(), *self.site_busy(costs), *self.link_busy(costs), overhead]
        return float(max(serial, self.flights(batch) * max(busy)))

    def iteration_overhead_s(self, part: Batch) -> float:
        """Fixed seconds of an iteration of one of the batches in flight."""
        fixed = max(float(self.rates[die].iteration_overhead_s) for die in self._dies())
        return min(float(part.tokens), 1.0) * fixed / self.speed.overhead

    def busy_s(self, batch: Batch) -> dict[str, float]:
        """Busy seconds by die group, of the most loaded site (`"hbm"`) and link (`"noi"`)."""
        costs = self.operators(self.part(batch))
        die = self.die_busy(costs)
        groups = {group.name: self.package.die_indices(group.name) for group in self.package.dies if group.count}
        flights = self.flights(batch)
        busy = {name: flights * die[members[0]] for name, members in groups.items() if members[0] in die}
        busy["hbm"] = flights * float(max(self.site_busy(costs)))
        busy["noi"] = flights * float(max(self.link_busy(costs), default=0.0))
        return busy

    def energy_j(self, batch: Batch) -> float:
        """Dynamic joules in which every sequence of the pool advances once."""
        return self.flights(batch) * sum(cost.count * cost.energy_j for cost in self.operators(self.part(batch)))

    def flights(self, batch: Batch) -> float:
        """Batches in flight of an iteration: no more than it has sequences, as one runs in one batch only."""
        return min(float(self.in_flight), max(float(batch.prefill_sequences + batch.decode_sequences), 1.0))

    def part(self, batch: Batch) -> Batch:
        """One of the batches in flight."""
        parts = self.flights(batch)
        return Batch(
            prefill_tokens=batch.prefill_tokens / parts,
            prefill_sequences=batch.prefill_sequences / parts,
            prefill_pairs=batch.prefill_pairs / parts,
            prefill_context_tokens=batch.prefill_context_tokens / parts,
            decode_sequences=batch.decode_sequences / parts,
            decode_context_tokens=batch.decode_context_tokens / parts,
            emitted_tokens=batch.emitted_tokens / parts,
            tokens_per_sequence=batch.tokens_per_sequence,
        )

    def _dies(self) -> list[int]:
        return sorted({die for group in self.pool.groups for die in group.dies})

    def _operator(self, mapped: MappedOperator, batch: Batch) -> OperatorCost:
        operator, group = mapped.operator, self.pool.groups[mapped.group]
        demand = operator.demand(batch, self.precision)
        flows = flows_of(mapped, demand, self.precision)
        if group.experts is not None:
            return self._experts(mapped, group.experts, demand)
        compute, energy = 0.0, 0.0
        for die, share in zip(group.dies, group.work_share, strict=True):
            part = DieShare(float(share), mapped.imbalance, group.parallelism)
            compute = max(compute, float(compute_time_s(operator, demand, batch, self.rates[die], part)))
            energy += float(die_energy_j(operator, demand, batch, self.rates[die], part))
        site_s, site_j = self._sites(mapped, flows, float(demand.kv_accesses))
        traffic = operator_traffic(self.mapped, group, mapped, flows)
        link_bytes = self.load.loads(traffic)
        active = float(activity(demand))
        overhead = max(float(launch_s(operator, self.rates[die], len(group.dies))) for die in group.dies)
        return OperatorCost(
            name=operator.name,
            kind=operator.kind,
            count=operator.count,
            compute_s=compute / self.speed.compute,
            site_s=site_s,
            link_s=link_bytes / (self.load.capacity * self.speed.network),
            overhead_s=active * overhead / self.speed.overhead,
            hops_s=active * self._latency_s(mapped) / self.speed.hops,
            energy_j=energy + site_j + float(self.load.joules(link_bytes)),
            dies=group.dies,
        )

    def _experts(self, mapped: MappedOperator, experts: ExpertPlacement, demand: Demand) -> OperatorCost:
        """Experts placed whole: the mean over routings of the busiest resource."""
        operator, group = mapped.operator, self.pool.groups[mapped.group]
        active, rows = float(activity(demand)), max(float(np.asarray(demand.rows)), 1.0)
        paths = self._expert_paths(mapped, group)
        cost = expert_cost(operator, experts, paths, self.precision, mapped.resident_share, np.array([rows]))
        flows = flows_of(mapped, demand, self.precision)
        traffic = operator_traffic(self.mapped, group, mapped, flows)
        joules = np.array([site.joules_per_byte for site in self.mapped.sites])
        memory_j = float((group.weights_from(float(np.asarray(flows.rows))).sum(axis=1) * flows.weights) @ joules)
        link_j = float(self.load.joules(self.load.loads(traffic)))
        site_s, link_s, compute = active * cost.site_s[0], active * cost.link_s[0], active * float(cost.compute_s[0])
        expected = max(compute, float(site_s.max(initial=0.0)), float(link_s.max(initial=0.0)))
        launch = max(float(launch_s(operator, rate, len(group.dies))) for rate in paths.rates)
        return OperatorCost(
            name=operator.name,
            kind=operator.kind,
            count=operator.count,
            compute_s=compute,
            site_s=site_s,
            link_s=link_s,
            overhead_s=active * launch / self.speed.overhead,
            hops_s=active * self._latency_s(mapped) / self.speed.hops,
            energy_j=active * float(cost.die_j[0]) + memory_j + link_j,
            dies=group.dies,
            varying_s=max(active * float(cost.busiest_s[0]) - expected, 0.0),
        )

    def _expert_paths(self, mapped: MappedOperator, group: ExecutionGroup) -> ExpertPaths:
        """Paths die by die, at the speeds of this pool."""
        fetch = group.experts.fetch if group.experts is not None else group.weight_fetch
        site_s, link_s = np.zeros(fetch.shape), np.zeros((len(self.load.routes.links), len(group.dies)))
        capacity, size = self.load.capacity * self.speed.network, self.mapped.component_count
        for column, die in enumerate(group.dies):
            traffic = np.zeros((size, size))
            for site, home in enumerate(self.mapped.sites):
                reached = home.achievable_bytes_per_s(float(self.rates[die].memory["weights"])) * self.speed.memory
                site_s[site, column] = fetch[site, column] / min(reached, self.links[site] * self.speed.network)
                if home.component != die:
                    traffic[home.component, die] = fetch[site, column]
            link_s[:, column] = self.load.loads(traffic) / capacity
        moved = np.zeros((size, size))
        for transfer in mapped.transfers:
            per_row = transfer.elements_per_token * self.precision.activation_bytes
            moved[np.ix_(transfer.sources, transfer.targets)] += transfer.share * per_row
        rates = [self.rates[die].faster(self.speed.compute) for die in group.dies]
        return ExpertPaths(site_s, link_s, self.load.loads(moved) / capacity, rates)

    def _sites(self, mapped: MappedOperator, flows: Flows, accesses: float) -> tuple[FloatArray, float]:
        """Busy seconds of each memory site and joules of all; the start of an access to KV costs time alone."""
        group = self.pool.groups[mapped.group]
        seconds, joules = np.zeros(len(self.mapped.sites)), 0.0
        amounts = {
            "weights": (group.weight_fetch, float(flows.weights)),
            "kv": (group.cache_fetch, float(flows.kv_reads + flows.kv_writes)),
            "state": (group.cache_fetch, float(flows.state_reads + flows.state_writes)),
        }
        started = accesses * max(self.rates[die].kv_access_bytes for die in group.dies)
        for kind, (fetch, amount) in amounts.items():
            extra = started if kind == "kv" else 0.0
            for site, home in enumerate(self.mapped.sites):
                for column, die in enumerate(group.dies):
                    moved = amount * float(fetch[site, column])
                    reached = home.achievable_bytes_per_s(float(self.rates[die].memory[kind])) * self.speed.memory
                    busy = moved + extra * float(fetch[site, column])
                    seconds[site] += busy / min(reached, self.links[site] * self.speed.network)
                    joules += moved * home.joules_per_byte
        return seconds, joules

    def _latency_s(self, mapped: MappedOperator) -> float:
        delays, unit_s = self.load.delays
        total = 0.0
        for transfer in mapped.transfers:
            longest = 0.0
            for row, source in enumerate(transfer.sources):
                for column, target in enumerate(transfer.targets):
                    if transfer.share[row, column] > 0:
                        longest = max(longest, float(delays[source, target]))
            total += longest
        return total * unit_s

    def die_busy(self, costs: list[OperatorCost]) -> dict[int, float]:
        """Busy seconds of each die: an operator occupies its dies while it runs."""
        busy = dict.fromkeys(self._dies(), 0.0)
        for cost in costs:
            for die in cost.dies:
                busy[die] += cost.count * cost.time_s
        return busy

    def site_busy(self, costs: list[OperatorCost]) -> FloatArray:
        """Busy seconds of each memory site."""
        return np.asarray(sum(cost.count * cost.site_s for cost in costs))

    def link_busy(self, costs: list[OperatorCost]) -> FloatArray:
        """Busy seconds of each link."""
        return np.asarray(sum(cost.count * cost.link_s for cost in costs))
