"""Spans of the record protocol from the times that a traced iteration noted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.fabric import port_names
from hydra_dse.model.operators import Batch, Demand
from hydra_dse.operator_cost import DieRates, DieShare, compute_time_s, work_of
from hydra_dse.records.spans import IterationSpan, OperatorSpan, PackageLayout, Resource, TransferSpan
from simulators.iteration import Composition, Work
from simulators.package.coefficients import PlacedHardware
from simulators.package.cost import PackageCost
from simulators.package.ledger import ledger_of
from simulators.package.program import PoolProgram
from simulators.package.routes import ACCESS
from simulators.package.steps import Flow, PlacedStep, Step
from simulators.package.tally import Tally
from simulators.package.traced import TracedIteration

FloatArray = NDArray[np.float64]
Clock = Callable[[float], float]

UNBOUNDED = 1e12
"""Factor on a rate that takes it out of a time."""


@dataclass(frozen=True)
class IterationFacts:
    """What the request level knows of an iteration (see `IterationSpan`)."""

    number: int
    pool: str
    engine: int
    model: str
    start_s: float
    composition: Composition
    batch: int
    waiting: int
    cache_share: float


def layout_of(hardware: PlacedHardware, static_power_w: float) -> PackageLayout:
    """Names and capacities of what spans refer to; memory sites first, then links."""
    package = hardware.package
    names = [f"{group.name}[{number}]" for group in package.dies for number in range(group.count)]
    stacks = [f"{group.name}[{number}]" for group in package.memories for number in range(group.count)]
    components = names + stacks
    at_slot = port_names(package) | {slot: components[number] for number, slot in enumerate(hardware.links.slots)}
    sites = [
        Resource("memory", components[site.component] + (" memory" if site.component < len(names) else ""),
                 site.bandwidth_bytes_per_s)
        for site in hardware.mapped.sites
    ]  # fmt: skip
    capacities = hardware.links.capacity_bytes_per_s.tolist()
    links = [
        Resource("link", " → ".join(at_slot.get(slot, f"slot {slot}") for slot in ends), capacity)
        for ends, capacity in zip(hardware.links.routes.links, capacities, strict=True)
    ]
    return PackageLayout(tuple(names), (*sites, *links), float(hardware.precision.activation_bytes), static_power_w)


class SpanMaker:
    """Makes the spans of one pool.

    Args:
        cost: of its iterations, for their energy.
        programs: by which they were executed.
    """

    def __init__(self, cost: PackageCost, programs: PoolProgram) -> None:
        self.cost, self.programs = cost, programs
        self.network = programs.network

    def iteration(
        self, facts: IterationFacts, traced: TracedIteration, end_s: float, stretch: float, at: Clock
    ) -> IterationSpan:
        """The span of the whole."""
        batch = facts.composition
        dies = sorted({die for times in traced.operators for die in traced.program.steps[times.step].dies})
        return IterationSpan(
            number=facts.number,
            pool=facts.pool,
            engine=facts.engine,
            model=facts.model,
            start_s=facts.start_s,
            end_s=end_s,
            dies=tuple(dies),
            prefill_tokens=batch.prefill_tokens,
            prefill_sequences=batch.prefill_sequences,
            decode_sequences=batch.decode_sequences,
            decode_context_tokens=batch.attended.decode_tokens,
            emitted_tokens=batch.emitted_tokens,
            batch=facts.batch,
            waiting=facts.waiting,
            cache_share=facts.cache_share,
            energy_j=self.energy_j([batch]),
            stretch=stretch,
            host_s=traced.program.start_s * stretch,
            drained_s=at(traced.drained_s),
        )

    def energy_j(self, batches: Iterable[Composition]) -> float:
        """Dynamic energy of iterations."""
        tally = Tally(len(self.cost.windows), len(self.cost.placed.die_groups))
        for batch in batches:
            tally.add(Work(0.0, batch))
        return ledger_of(self.cost, tally.counts()).energy_j

    def operators(self, number: int, traced: TracedIteration, stretch: float, at: Clock) -> Iterator[OperatorSpan]:
        """Its operators in order."""
        known: dict[int, OperatorSpan] = {}
        for times in traced.operators:
            step, placed = traced.program.steps[times.step], self.programs.operators[times.step]
            if times.step not in known:
                known[times.step] = self._operator(number, step, placed, stretch)
            gathered = times.gathered_s + step.gather_latency_s
            yield known[times.step]._replace(
                block=times.block,
                position=times.position,
                start_s=at(times.start_s),
                acquired_s=at(times.acquired_s),
                gathered_s=at(min(gathered, times.computed_s)),
                began_s=at(min(gathered + step.overhead_s, times.computed_s)),
                computed_s=at(times.computed_s),
                reduced_s=at(times.reduced_s),
                ended_s=at(times.ended_s),
            )

    def _operator(self, number: int, step: Step, placed: PlacedStep, stretch: float) -> OperatorSpan:
        """All but the instants, which are the same for every instance."""
        demand, totals = step.demand, step.totals
        die, unit, matmul, vector = "", "", 0.0, 0.0
        if demand is not None and totals is not None:
            die, rates, share = max(
                placed.die_parts(demand), key=lambda part: _seconds(placed, demand, totals, part[1], part[2])
            )
            unit = _unit(placed, demand, totals, rates, share)
            work = work_of(placed.operator, demand, totals, rates.style)
            matmul, vector = float(work.matmul_flops), float(work.vector_flops)
        weights = float(step.read_bytes) - (float(demand.kv_read_bytes + demand.state_read_bytes) if demand else 0.0)
        return OperatorSpan(
            iteration=number,
            name=step.name,
            kind=placed.operator.kind.value,
            block=0,
            dies=step.dies,
            start_s=0.0,
            acquired_s=0.0,
            gathered_s=0.0,
            began_s=0.0,
            computed_s=0.0,
            reduced_s=0.0,
            ended_s=0.0,
            compute_s=step.compute_s * stretch,
            unit=unit,
            die=die,
            matmul_flops=matmul,
            vector_flops=vector,
            weight_bytes=max(0.0, weights),
            kv_bytes=float(demand.kv_read_bytes) if demand else 0.0,
            state_bytes=float(demand.state_read_bytes) if demand else 0.0,
            work=tuple(placed.group.work_share.tolist()),
            weight_share=_shares(placed.weight_die),
            cache_share=_shares(placed.cache_die),
            memory_binding=self._binding(step.reads),
            gather=_activations(placed, "gather")[0] if step.gathers else "",
            gather_binding=self._binding(step.gathers),
            reduce=_activations(placed, "reduce")[0] if step.reduces else "",
            reduce_binding=self._binding(step.reduces),
        )

    def transfers(self, number: int, traced: TracedIteration, at: Clock) -> Iterator[TransferSpan]:
        """What moved for them, in the order in which it had arrived."""
        for times in traced.transfers:
            step, placed = traced.program.steps[times.step], self.programs.operators[times.step]
            if times.what in ("read", "write"):
                what = self.network.routes[times.flows[0][0]].name.split(": ")[1].split()[0]
                if what == ACCESS:
                    continue
                dies = step.dies
            else:
                what, dies = _activations(placed, times.what)
            amount = sum(amount for _, amount in times.flows)
            yield TransferSpan(
                iteration=number,
                operator=step.name,
                what=what,
                write=times.what == "write",
                start_s=at(times.start_s),
                end_s=at(times.end_s),
                bytes=amount,
                dies=dies,
                lane=times.lane,
                binding=self._binding(times.flows),
                position=times.position,
                moves=tuple((a, b, share * amount) for a, b, share in placed.moves.get(what, ())),
            )

    def _binding(self, flows: tuple[Flow, ...]) -> int:
        """The resource that flows keep busy longest; the first of equals."""
        if not flows:
            return -1
        busy_s = [self.network.routes[route].busy_s * amount for route, amount in flows]
        return int(np.sum(busy_s, axis=0).argmax())


def _activations(placed: PlacedStep, what: str) -> tuple[str, tuple[int, ...]]:
    """Kind of the transfers of activations before or after an operator, and the dies that take part."""
    after = ("reduce", "combine")
    mine = [each for each in placed.transfers if (each[0] in after) == (what == "reduce")]
    dies = sorted({die for _, _, each in mine for die in each})
    return mine[0][0], tuple(dies)


def _seconds(placed: PlacedStep, demand: Demand, totals: Batch, rates: DieRates, share: DieShare) -> float:
    return float(compute_time_s(placed.operator, demand, totals, rates, share))


def _unit(placed: PlacedStep, demand: Demand, totals: Batch, rates: DieRates, share: DieShare) -> str:
    """The unit without which the operator would gain most."""
    without = {
        "matmul": replace(rates, matmul_flops_per_s=rates.matmul_flops_per_s * UNBOUNDED),
        "vector": replace(rates, vector_flops_per_s=rates.vector_flops_per_s * UNBOUNDED),
        "sram": replace(rates, sram_bytes_per_s=rates.sram_bytes_per_s * UNBOUNDED),
    }
    return min(without, key=lambda unit: _seconds(placed, demand, totals, without[unit], share))


def _shares(parts: FloatArray) -> tuple[float, ...]:
    total = float(parts.sum())
    return tuple((parts / total).tolist()) if total > 0.0 else tuple([0.0] * len(parts))
