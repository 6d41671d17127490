"""An operator of a pool on its dies, and one instance of it with what it moves and computes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import ExecutionGroup, MappedOperator
from hydra_dse.model.operators import Batch, Demand
from hydra_dse.operator_cost import DieRates, DieShare, activity, compute_time_s, launch_s
from simulators.iteration import Composition
from simulators.package.coefficients import PlacedOperator
from simulators.package.experts import expert_bytes
from simulators.package.routes import PoolRoutes

FloatArray = NDArray[np.float64]

Flow = tuple[int, float]
"""A route and bytes of its operand."""

LEFT_FOR_STREAMS = 0.25
"""Least share of the SRAM without resident weights that activations leave to streams (assumption)."""


@dataclass(frozen=True, eq=False)
class Step:
    """One operator of one iteration.

    Attributes:
        name: of the operator.
        dies: component numbers of the dies that it needs.
        gathers: activations that must be there before it starts.
        reads: weights, KV and state that stream in while it computes, or before.
        writes: KV and state that it leaves.
        reduces: activations that it passes on.
        read_bytes, write_bytes: sums of the above over a group.
        compute_s: time of its slowest die.
        overhead_s: fixed cost of an instance.
        gather_latency_s, read_latency_s, reduce_latency_s: of the longest path.
        buffer_need, write_need: SRAM that its reads (writes) need over what the tightest of its dies has for them.
        demand, totals: what it asks for and the batch it does so for, for accounts.
    """

    name: str
    dies: tuple[int, ...]
    gathers: tuple[Flow, ...]
    reads: tuple[Flow, ...]
    writes: tuple[Flow, ...]
    reduces: tuple[Flow, ...]
    read_bytes: float
    write_bytes: float
    compute_s: float
    overhead_s: float
    gather_latency_s: float
    read_latency_s: float
    reduce_latency_s: float
    buffer_need: float
    write_need: float
    demand: Demand | None = None
    totals: Batch | None = None


class PlacedStep:
    """An operator of a pool, ready to become a step.

    Args:
        routes: of the pool.
        placed: the operator on its dies.
        mapped: what it moves.
        group: its dies, and where their operands lie.
        window: index of its attention window among those of the pool; None = all of the context.

    Attributes:
        transfers: kind and elements per row of what it moves between dies, and the dies concerned.
        moves: source, target and share of what goes from die to die, by kind.
        weight_die, cache_die: share of its weights (caches) that each of its dies reads.
    """

    def __init__(
        self,
        routes: PoolRoutes,
        placed: PlacedOperator,
        mapped: MappedOperator,
        group: ExecutionGroup,
        window: int | None,
    ) -> None:
        hardware = routes.hardware
        self.group, self.placed, self.window = group, placed, window
        self.operator = replace(mapped.operator, window=None)
        self.precision, self.die_names = hardware.precision, hardware.die_names
        self.weights = routes.memory(group, group.weight_fetch, "weights", write=False)
        self.expert_weights = routes.experts(group)
        self.caches = [
            routes.memory(group, group.cache_fetch, kind, write) for kind in ("kv", "state") for write in (False, True)
        ]
        self.access = routes.access(group)
        self.access_bytes = hardware.kv_access_bytes(group)
        self.gathers: list[tuple[int, float]] = []
        self.reduces: list[tuple[int, float]] = []
        for transfer in mapped.transfers:
            route = routes.transfer(transfer)
            if route is not None:
                per_row = transfer.elements_per_token * self.precision.activation_bytes
                (self.reduces if transfer.kind in ("reduce", "combine") else self.gathers).append((route, per_row))
        self.transfers = tuple(
            (each.kind, each.elements_per_token, tuple(sorted({*each.sources, *each.targets})))
            for each in mapped.transfers
        )
        self.moves = {each.kind: each.moves for each in mapped.transfers if each.kind in ("forward", "stage")}
        known, latency_s = routes.network.routes, hardware.links.delay_s
        hops = [sum(known[route].hops for route, _ in each) for each in (self.gathers, self.reduces)]
        read = [known[route].hops for route in (self.weights, self.caches[0], self.caches[2]) if route is not None]
        read_hops = max(read, default=0)
        self.latencies_s = (hops[0] * latency_s, read_hops * latency_s, hops[1] * latency_s)
        dies = len(group.dies)
        overheads = [float(launch_s(self.operator, part.rates, dies)) for part in self.placed.dies]
        self.overhead_s = max(overheads, default=0.0)
        self.weight_die = group.weight_fetch.sum(axis=0)
        self.cache_die = group.cache_fetch.sum(axis=0)
        self.buffer = np.array([hardware.stream_buffer_bytes(die) for die in group.dies])

    def step(self, batch: Composition) -> Step:
        """Return the step of one instance."""
        attended = batch.attended if self.window is None else batch.windowed[self.window]
        totals = Batch(
            prefill_tokens=float(batch.prefill_tokens),
            prefill_sequences=float(batch.prefill_sequences),
            prefill_pairs=attended.prefill_pairs,
            prefill_context_tokens=float(attended.prefill_tokens),
            decode_sequences=float(batch.decode_sequences),
            decode_context_tokens=float(attended.decode_tokens),
            emitted_tokens=float(batch.emitted_tokens),
            tokens_per_sequence=float(batch.positions),
        )
        demand = self.operator.demand(totals, self.precision)
        rows = float(demand.rows)
        on_die = self._weights_on_dies(demand, rows)
        weights = float(on_die.sum()) if self.expert_weights else float(demand.weight_bytes) * self.placed.streamed
        kv, state = float(demand.kv_read_bytes), float(demand.state_read_bytes)
        written = (float(demand.kv_write_bytes), float(demand.state_write_bytes))
        cached = kv + state
        need = on_die + self.cache_die * cached
        # Activations of the operator itself lie in the same SRAM, in tiles of rows where there are many.
        activations = float(demand.activation_bytes) * self.group.work_share
        room = np.maximum(self.buffer - activations, LEFT_FOR_STREAMS * self.buffer)
        return Step(
            name=self.operator.name,
            dies=self.group.dies,
            gathers=_flows((route, per_row * rows) for route, per_row in self.gathers),
            reads=_flows((*self._weight_flows(weights, on_die), *self._cache_flows(kv, state, demand))),
            writes=_flows(((self.caches[1], written[0]), (self.caches[3], written[1]))),
            reduces=_flows((route, per_row * rows) for route, per_row in self.reduces),
            read_bytes=weights + cached,
            write_bytes=sum(written),
            compute_s=self._compute_s(demand, totals, on_die) if rows else 0.0,
            overhead_s=self.overhead_s * float(activity(demand)),
            gather_latency_s=self.latencies_s[0] if rows else 0.0,
            read_latency_s=self.latencies_s[1],
            reduce_latency_s=self.latencies_s[2] if rows else 0.0,
            buffer_need=float((need / room).max(initial=0.0)),
            write_need=float((self.cache_die * sum(written) / room).max(initial=0.0)),
            demand=demand,
            totals=totals,
        )

    def _weights_on_dies(self, demand: Demand, rows: float) -> FloatArray:
        """Weight bytes that each die streams in; of experts placed whole those expected."""
        if not rows:
            return np.zeros(len(self.group.dies))
        if self.placed.experts is None:
            return np.asarray(self.weight_die * (float(demand.weight_bytes) * self.placed.streamed))
        read = expert_bytes(self.placed, self.placed.experts, self.precision, np.array((rows,)))
        return np.asarray(read[0] * self.placed.streamed)

    def _weight_flows(self, weights: float, on_die: FloatArray) -> list[tuple[int | None, float]]:
        if not self.expert_weights:
            return [(self.weights, weights)]
        return list(zip(self.expert_weights, on_die.tolist(), strict=True))

    def _cache_flows(self, kv: float, state: float, demand: Demand) -> list[tuple[int | None, float]]:
        started = float(demand.kv_accesses) * self.access_bytes
        return [(self.caches[0], kv), (self.access, started), (self.caches[2], state)]

    def _compute_s(self, demand: Demand, totals: Batch, on_die: FloatArray) -> float:
        """Time of the slowest die."""
        parts = self._die_parts(demand, on_die)
        return max(float(compute_time_s(self.operator, demand, totals, rates, share)) for _, rates, share in parts)

    def die_parts(self, demand: Demand) -> list[tuple[str, DieRates, DieShare]]:
        """Die group, rates and share of the dies that differ."""
        return self._die_parts(demand, self._weights_on_dies(demand, float(demand.rows)))

    def _die_parts(self, demand: Demand, on_die: FloatArray) -> list[tuple[str, DieRates, DieShare]]:
        experts = self.placed.experts
        if experts is None:
            return [(part.name, part.rates, part.share) for part in self.placed.dies]
        share = on_die / (self.placed.streamed or 1.0) / max(float(demand.weight_bytes), 1e-300)
        names = [self.die_names[die] for die in self.group.dies]
        loads = experts.placement.load_share.tolist()
        return [
            (name, rates, DieShare(load, parallelism="expert", weights=part))
            for name, rates, load, part in zip(names, experts.rates, loads, share.tolist(), strict=True)
        ]


def _flows(found: Iterable[tuple[int | None, float]]) -> tuple[Flow, ...]:
    return tuple((route, amount) for route, amount in found if route is not None and amount > 0.0)
