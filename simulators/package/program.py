"""An iteration as a program: its operators in order of execution, each with what it moves and computes.

Quantities that do not depend on the batch (routes, dies, shares) are found once per pool; a composition then gives
bytes and seconds by operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import ExecutionGroup, MappedOperator, Transfer
from hydra_dse.model.operators import Batch, Demand
from hydra_dse.operator_cost import DieRates, DieShare, activity, compute_time_s, launch_s
from simulators.iteration import Composition
from simulators.noi.flows import FlowNetwork, Route, stripes_on
from simulators.package.coefficients import PlacedHardware
from simulators.package.experts import expert_bytes

FloatArray = NDArray[np.float64]

Flow = tuple[int, float]
"""A route and bytes of its operand."""

ACCESS = "access"
"""Name of the routes of starts of accesses."""

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


@dataclass(frozen=True, eq=False)
class Program:
    """Blocks of step numbers over a few distinct steps.

    Attributes:
        start_s: the host's cost before the first.
        keeps_dies: whether an iteration keeps its dies until the next operator has its own, so that another one only
            gets what it leaves (a stage of a pipeline takes one batch after the other).
    """

    steps: tuple[Step, ...]
    blocks: tuple[tuple[int, ...], ...]
    start_s: float
    keeps_dies: bool = False


class PoolProgram:
    """Makes the programs of one pool.

    Args:
        hardware: the placed package.
        pool: name of the pool.
        blocks: operator names in order of execution, by block.
        network: routes are registered here; shared by all pools of the package.
    """

    def __init__(
        self, hardware: PlacedHardware, pool: str, blocks: Sequence[Sequence[str]], network: FlowNetwork
    ) -> None:
        self.hardware, self.network = hardware, network
        self.placed = hardware.pool(pool)
        mapped = hardware.mapped.pool(pool)
        number = {operator.operator.name: at for at, operator in enumerate(mapped.operators)}
        self.blocks = tuple(tuple(number[name] for name in block if name in number) for block in blocks)
        self.windows = tuple(sorted({w for w in (each.operator.window for each in mapped.operators) if w is not None}))
        self._known: dict[object, int | None] = {}
        self._expert_fetch: dict[int, list[FloatArray]] = {}
        latency_s = hardware.links.delay_s
        self.operators = [
            PlacedStep(self, each, mapped.groups[each.group], latency_s, at) for at, each in enumerate(mapped.operators)
        ]

    def program(self, batch: Composition) -> Program:
        """Return the program of an iteration with this composition."""
        steps = tuple(operator.step(batch) for operator in self.operators)
        running = [step.compute_s > 0.0 or step.read_bytes > 0.0 or bool(step.gathers) for step in steps]
        blocks = tuple(tuple(at for at in block if running[at]) for block in self.blocks)
        whole = tuple(block for block in blocks if block)
        return Program(steps, whole, self.placed.iteration_overhead_s, self.hardware.pipeline > 1)

    def expert_routes(self, group: ExecutionGroup) -> list[int | None]:
        """Routes of the weights of experts placed whole, one for each die; empty where there are none."""
        if group.experts is None:
            return []
        if id(group.experts) not in self._expert_fetch:
            fetch = group.experts.fetch
            self._expert_fetch[id(group.experts)] = [fetch[:, [number]] for number in range(len(group.dies))]
        return [
            self.memory_route(replace(group, dies=(die,)), fetch, "weights", write=False)
            for die, fetch in zip(group.dies, self._expert_fetch[id(group.experts)], strict=True)
        ]

    def memory_route(self, group: ExecutionGroup, fetch: FloatArray, kind: str, write: bool) -> int | None:
        """Route of an operand between memory sites and the dies of a group."""
        key = (id(fetch), group.dies, kind, write)
        if key not in self._known:
            self._known[key] = self._register_memory(group, fetch, kind, write)
        return self._known[key]

    def _register_memory(self, group: ExecutionGroup, fetch: FloatArray, kind: str, write: bool) -> int | None:
        hardware, links = self.hardware, self.hardware.links
        at = [site.component for site in hardware.mapped.sites]
        busy = np.zeros(hardware.site_count + links.count)
        stripes, paths = np.zeros(len(busy)), []
        for site, die in np.argwhere(fetch > 0.0).tolist():
            busy[site] += fetch[site, die] / hardware.reached(site, group.dies[die], kind)
            stripes[site] += 1.0
            if at[site] != group.dies[die]:
                ends = (group.dies[die], at[site]) if write else (at[site], group.dies[die])
                paths.append((links.path(*ends), fetch[site, die]))
        carried = np.concatenate((fetch.sum(axis=1), np.zeros(links.count)))
        return self._register(f"{kind} {'write' if write else 'read'}", busy, stripes, paths, carried)

    def access_route(self, group: ExecutionGroup) -> int | None:
        """Route of what the starts of accesses to KV cost: memory sites are busy, nothing moves; None without cost."""
        if self.hardware.kv_access_bytes(group) <= 0.0:
            return None
        key = (id(group.cache_fetch), group.dies, ACCESS)
        if key not in self._known:
            reads = self.memory_route(group, group.cache_fetch, "kv", write=False)
            if reads is None:
                return None
            route, sites = self.network.routes[reads], self.hardware.site_count
            busy, stripes = (np.where(np.arange(len(x)) < sites, x, 0.0) for x in (route.busy_s, route.stripes))
            self._known[key] = self._register(ACCESS, busy, stripes, [], np.zeros(len(busy)))
        return self._known[key]

    def transfer_route(self, transfer: Transfer) -> int | None:
        """Route of activations between dies."""
        key = (id(transfer.share), transfer.sources, transfer.targets)
        if key not in self._known:
            links = self.hardware.links
            busy = np.zeros(self.hardware.site_count + links.count)
            paths = [
                (links.path(transfer.sources[row], transfer.targets[column]), transfer.share[row, column])
                for row, column in np.argwhere(transfer.share > 0.0).tolist()
                if transfer.sources[row] != transfer.targets[column]
            ]
            nothing = np.zeros(len(busy))
            self._known[key] = self._register(f"activations ({transfer.kind})", busy, nothing, paths, nothing.copy())
        return self._known[key]

    def _register(
        self,
        name: str,
        busy: FloatArray,
        stripes: FloatArray,
        paths: list[tuple[tuple[int, ...], float]],
        carried: FloatArray,
    ) -> int | None:
        sites, capacity = self.hardware.site_count, self.hardware.links.capacity_bytes_per_s
        for path, share in paths:
            busy[[sites + link for link in path]] += share / capacity[list(path)]
            carried[[sites + link for link in path]] += share
        if not busy.any():
            return None
        stripes = stripes + stripes_on([path for path, _ in paths], len(busy), sites)
        hops = max((self.hardware.links.length(path) for path, _ in paths), default=0)
        return self.network.add(Route(f"{self.placed.name}: {name}", busy, stripes, hops, len(paths), carried))


class PlacedStep:
    """An operator of a pool, ready to become a step.

    Attributes:
        placed: the operator on its dies.
        transfers: kind and elements per row of what it moves between dies, and the dies concerned.
        moves: source, target and share of what goes from die to die, by kind.
        weight_die, cache_die: share of its weights (caches) that each of its dies reads.
    """

    def __init__(
        self, pool: PoolProgram, mapped: MappedOperator, group: ExecutionGroup, latency_s: float, at: int
    ) -> None:
        self.pool, self.group, self.placed = pool, group, pool.placed.operators[at]
        self.operator = replace(mapped.operator, window=None)
        window = mapped.operator.window
        self.window = None if window is None else pool.windows.index(window)
        self.precision = pool.hardware.precision
        routes = pool.network.routes
        self.weights = pool.memory_route(group, group.weight_fetch, "weights", write=False)
        self.expert_weights = pool.expert_routes(group)
        self.caches = [
            pool.memory_route(group, group.cache_fetch, kind, write)
            for kind in ("kv", "state")
            for write in (False, True)
        ]
        self.access = pool.access_route(group)
        self.access_bytes = pool.hardware.kv_access_bytes(group)
        self.gathers: list[tuple[int, float]] = []
        self.reduces: list[tuple[int, float]] = []
        for transfer in mapped.transfers:
            route = pool.transfer_route(transfer)
            if route is not None:
                per_row = transfer.elements_per_token * self.precision.activation_bytes
                (self.reduces if transfer.kind in ("reduce", "combine") else self.gathers).append((route, per_row))
        self.transfers = tuple(
            (each.kind, each.elements_per_token, tuple(sorted({*each.sources, *each.targets})))
            for each in mapped.transfers
        )
        self.moves = {each.kind: each.moves for each in mapped.transfers if each.kind in ("forward", "stage")}
        hops = [sum(routes[route].hops for route, _ in each) for each in (self.gathers, self.reduces)]
        read_hops = max(
            (routes[r].hops for r in (self.weights, self.caches[0], self.caches[2]) if r is not None), default=0
        )
        self.latencies_s = (hops[0] * latency_s, read_hops * latency_s, hops[1] * latency_s)
        dies = len(group.dies)
        overheads = [float(launch_s(self.operator, part.rates, dies)) for part in self.placed.dies]
        self.overhead_s = max(overheads, default=0.0)
        self.weight_die = group.weight_fetch.sum(axis=0)
        self.cache_die = group.cache_fetch.sum(axis=0)
        self.buffer = np.array([pool.hardware.stream_buffer_bytes(die) for die in group.dies])

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
        names = [self.pool.hardware.die_names[die] for die in self.group.dies]
        loads = experts.placement.load_share.tolist()
        return [
            (name, rates, DieShare(load, parallelism="expert", weights=part))
            for name, rates, load, part in zip(names, experts.rates, loads, share.tolist(), strict=True)
        ]


def _flows(found: object) -> tuple[Flow, ...]:
    return tuple((route, amount) for route, amount in found if route is not None and amount > 0.0)  # type: ignore[attr-defined]
