"""Take an iteration apart: the readable reference of the cost model, with the names of what it meets.

Per operator the longest of compute, memory and network binds; the others hide behind it.  A counterfactual doubles
the speed of one kind of resource and asks for the time again, so that what binds next is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import port_names
from hydra_dse.mapping import LedgerRow, MappedPool, flows_of, ledger, operator_traffic
from hydra_dse.model.operators import Batch
from hydra_dse.network_load import LinkLoad
from hydra_dse.profile.composition import ClassTime, Composition, LinkBytes, MappedClass, OperandBytes, ResourceTime
from hydra_dse.profile.reference import ReferencePool
from hydra_dse.profile.reference_cost import OperatorCost, Speed

FloatArray = NDArray[np.float64]

OPERANDS = ("weights", "kv read", "kv write", "state read", "state write", "activations")
CARRIED = ("weights", "kv", "state", "activations")
TWICE = {
    "compute": Speed(compute=2.0),
    "memory": Speed(memory=2.0),
    "network": Speed(network=2.0),
    "overhead": Speed(overhead=2.0),
    "hops": Speed(hops=2.0),
}


@dataclass(frozen=True)
class _Costs:
    """One batch of those in flight: its operators and its times, in seconds."""

    operators: list[OperatorCost]
    iteration_overhead_s: float
    time_s: float

    @property
    def queue_s(self) -> float:
        """What the whole takes beyond the operators of one batch; rounding is no queue."""
        left = self.time_s - self.iteration_overhead_s - sum(cost.count * cost.time_s for cost in self.operators)
        return left if left > 1e-12 * self.time_s else 0.0


def compose(pool: ReferencePool, batch: Batch) -> Composition:
    """Return what an iteration of a pool with this batch (plain numbers) is made of."""
    part = pool.part(batch)
    costs = _Costs(pool.operators(part), pool.iteration_overhead_s(part), pool.time_s(batch))
    resources = _resources(pool, batch, costs)
    return Composition(
        pool=pool.pool.name,
        batch=batch,
        tokens=float(batch.tokens),
        batches_in_flight=pool.in_flight,
        time_s=costs.time_s,
        iteration_overhead_s=costs.iteration_overhead_s,
        queue_s=costs.queue_s,
        binding=max(resources, key=lambda found: found.bound_s).resource,
        operator_map=operator_map(pool.pool),
        bytes=_bytes(pool, part, pool.flights(batch), float(batch.tokens)),
        links=_links(pool, part, pool.flights(batch), costs.time_s),
        times=_times(costs),
        resources=resources,
    )


def component_names(package: Package) -> tuple[str, ...]:
    """Names of all components in order: `Ap[0]`, …, then `HBM[0]`, …."""
    counts = [(dies.name, dies.count) for dies in package.dies]
    counts += [(stacks.name, stacks.count) for stacks in package.memories]
    return tuple(f"{name}[{number}]" for name, count in counts for number in range(count))


def operator_map(pool: MappedPool) -> tuple[MappedClass, ...]:
    """Where each class of operators runs, in the order of the model."""
    rows = []
    for kind in dict.fromkeys(mapped.operator.kind for mapped in pool.operators):
        mine = [mapped for mapped in pool.operators if mapped.operator.kind is kind]
        group = pool.groups[mine[0].group]
        weights = sum(m.operator.count * m.operator.weight_elements for m in mine)
        resident = sum(m.operator.count * m.operator.weight_elements * m.resident_share for m in mine)
        rows.append(
            MappedClass(
                operator_class=kind.value,
                operators=tuple(mapped.operator.name for mapped in mine),
                instances=sum(mapped.operator.count for mapped in mine),
                die_groups=group.die_groups,
                dies=len(group.dies),
                split=group.parallelism,
                imbalance=max(mapped.imbalance for mapped in mine),
                resident_share=resident / weights if weights else 0.0,
            )
        )
    return tuple(rows)


def _bytes(pool: ReferencePool, part: Batch, flights: float, tokens: float) -> tuple[OperandBytes, ...]:
    """The mapping's ledger of all batches in flight, summed over operators."""
    entries = ledger(pool.mapped, pool.pool, part, pool.precision)
    return tuple(
        _operand(pool, operand, [row for row in entries if row.operand.split(" (")[0] == operand], flights, tokens)
        for operand in OPERANDS
    )


def _operand(
    pool: ReferencePool, operand: str, entries: Sequence[LedgerRow], flights: float, tokens: float
) -> OperandBytes:
    total = flights * sum(row.total_bytes for row in entries)
    at = flights * sum((row.site_bytes for row in entries), np.zeros(len(pool.mapped.sites)))
    held = operand != "activations"
    names = [site.name for site in pool.mapped.sites]
    return OperandBytes(
        operand=operand,
        total_bytes=total,
        bytes_per_token=total / tokens if tokens > 0 else 0.0,
        site_bytes={name: float(amount) for name, amount in zip(names, at, strict=True)} if held else {},
    )


def _links(pool: ReferencePool, part: Batch, flights: float, time_s: float) -> tuple[LinkBytes, ...]:
    loads = flights * pool.load.loads(np.stack([_traffic(pool, part, name) for name in CARRIED]))
    busy_s = flights * pool.link_busy(pool.operators(part))
    total = loads.sum(axis=0)
    names, slots = component_names(pool.package), pool.load.placement.slots
    at = port_names(pool.package) | {slot: names[component] for component, slot in enumerate(slots)}
    return tuple(
        LinkBytes(
            link=_link_name(pool.load, int(link)),
            source=at.get(pool.load.routes.links[link][0], "empty"),
            target=at.get(pool.load.routes.links[link][1], "empty"),
            total_bytes=float(total[link]),
            busy_share=float(busy_s[link] / time_s),
            operand_bytes={name: float(loads[row, link]) for row, name in enumerate(CARRIED)},
        )
        for link in np.argsort(-total, kind="stable")
        if total[link] > 0
    )


def _traffic(pool: ReferencePool, part: Batch, operand: str) -> FloatArray:
    """Bytes of one operand from component to component, of one batch in flight."""
    total = np.zeros((pool.mapped.component_count, pool.mapped.component_count))
    for mapped in pool.pool.operators:
        flows = flows_of(mapped, mapped.operator.demand(part, pool.precision), pool.precision)
        kept = replace(
            flows,
            weights=flows.weights if operand == "weights" else 0.0,
            kv_reads=flows.kv_reads if operand == "kv" else 0.0,
            kv_writes=flows.kv_writes if operand == "kv" else 0.0,
            state_reads=flows.state_reads if operand == "state" else 0.0,
            state_writes=flows.state_writes if operand == "state" else 0.0,
            transfers=tuple(amount if operand == "activations" else 0.0 for amount in flows.transfers),
        )
        group = pool.pool.groups[mapped.group]
        total += mapped.operator.count * operator_traffic(pool.mapped, group, mapped, kept)
    return total


def _times(costs: _Costs) -> tuple[ClassTime, ...]:
    rows = []
    for kind in dict.fromkeys(cost.kind for cost in costs.operators):
        mine = [cost for cost in costs.operators if cost.kind is kind]
        bound = _bound(mine)
        time = sum(cost.count * cost.time_s for cost in mine)
        rows.append(
            ClassTime(
                operator_class=kind.value,
                compute_s=sum(cost.count * cost.compute_s for cost in mine),
                memory_s=sum(cost.count * cost.memory_s for cost in mine),
                network_s=sum(cost.count * cost.network_s for cost in mine),
                overhead_s=bound["overhead"],
                hops_s=bound["hops"],
                time_s=time,
                share=time / costs.time_s,
                binding=max(bound, key=lambda name: bound[name]),
            )
        )
    return tuple(rows)


def _bound(costs: Sequence[OperatorCost]) -> dict[str, float]:
    """Seconds by the resource that everything waits for; they sum to the time of the operators."""
    bound = dict.fromkeys(TWICE, 0.0)
    for cost in costs:
        busy = {"compute": cost.compute_s, "memory": cost.memory_s, "network": cost.network_s}
        longest = max(busy, key=lambda name: busy[name])
        bound[longest] += cost.count * cost.busiest_s
        bound["overhead"] += cost.count * cost.overhead_s
        bound["hops"] += cost.count * cost.hops_s
    return bound


def _resources(pool: ReferencePool, batch: Batch, costs: _Costs) -> tuple[ResourceTime, ...]:
    bound = _bound(costs.operators)
    bound["overhead"] += costs.iteration_overhead_s
    named = _most_loaded(pool, costs.operators)
    rows = []
    for name, seconds in bound.items():
        twice = pool.faster(TWICE[name]).time_s(batch)
        saved = 1.0 - twice / costs.time_s
        share = seconds / costs.time_s
        rows.append(ResourceTime(name, seconds, share, twice, saved, named.get(name, "")))
    if costs.queue_s > 0:
        share = costs.queue_s / costs.time_s
        rows.append(ResourceTime("queue", costs.queue_s, share, None, None, _longest(named, pool, costs.operators)))
    return tuple(rows)


def _most_loaded(pool: ReferencePool, costs: list[OperatorCost]) -> dict[str, str]:
    """The die, memory site and link that are busy longest over the iteration."""
    names = component_names(pool.package)
    compute: dict[int, float] = {}
    for cost in costs:
        for die in cost.dies:
            compute[die] = compute.get(die, 0.0) + cost.count * cost.compute_s
    sites, links = pool.site_busy(costs), pool.link_busy(costs)
    found = {
        "compute": names[max(compute, key=lambda die: compute[die])],
        "memory": pool.mapped.sites[int(sites.argmax())].name,
    }
    if links.max(initial=0.0) > 0:
        found["network"] = _link_name(pool.load, int(links.argmax()))
    return found


def _link_name(load: LinkLoad, link: int) -> str:
    return "→".join(str(slot) for slot in load.routes.links[link])


def _longest(named: dict[str, str], pool: ReferencePool, costs: list[OperatorCost]) -> str:
    """What several batches in flight queue for: a die is taken while its operators run, memory waits included."""
    dies = pool.die_busy(costs)
    die = max(dies, key=lambda number: dies[number])
    busy = {
        component_names(pool.package)[die]: dies[die],
        named["memory"]: float(pool.site_busy(costs).max()),
        named.get("network", ""): float(pool.link_busy(costs).max(initial=0.0)),
    }
    return max(busy, key=lambda name: busy[name])
