"""Servers of several models on one package: what they share, and runs of all of them together.

- Every model has a server of its own: waiting queue, engines with their own batch and token budget, hand-off.
- Engines of different models on the same dies take turns (`simulators.serving.turns`); those on different dies run
  side by side and share memory stacks and links.
- Cache memory is shared by all models, or each has a part: a decode step that lacks blocks preempts the newest
  sequence of whoever shares the memory with it.
- Saturation: requests in the order in which they were drawn, each let in as soon as no model has more than a batch
  of them waiting; the model that is slowest for its share sets the pace.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.records.nouns import RecordSink
from hydra_dse.workload.nouns import Requests
from simulators.clock import at
from simulators.noi import FluidProcessor, Processor, SoloProcessor
from simulators.serving.memory import CacheMemory, CacheShape
from simulators.serving.recorder import Mark, PartRecorder, Recorder, Visits
from simulators.serving.run import Outcome, run, warm_requests
from simulators.serving.server import NEVER, Server
from simulators.serving.system import System
from simulators.serving.turns import Turn

IntArray = NDArray[np.int64]

LEAST_WAITING = 32
"""In a saturation run a model keeps at least this many requests waiting, so that chance does not starve it."""


@dataclass(frozen=True, eq=False)
class Mix:
    """Systems of several models on one package.

    Attributes:
        systems: one per model.
        turns: for each model and pool, the number of the set of dies it runs on; equal numbers take turns.
        shared_cache: whether all fill the same memory (then all caches state the same capacity).
        model_of_class: model of each class of requests.
    """

    systems: tuple[System, ...]
    turns: tuple[dict[str, int], ...]
    shared_cache: bool
    model_of_class: tuple[int, ...]

    @property
    def alternates(self) -> bool:
        """Whether one engine at a time is all there is."""
        one = {number for pools in self.turns for number in pools.values()}
        policy = self.systems[0].policy
        handed = any(system.handoff is not None for system in self.systems)
        return len(one) == 1 and policy.serving == "colocated" and policy.batches_in_flight == 1 and not handed

    def models(self, requests: Requests) -> IntArray:
        """Model of each request."""
        return np.asarray(self.model_of_class, dtype=np.int64)[requests.class_index]


class SharedPackage:
    """What the servers of a mix have in common."""

    def __init__(self, env: simpy.Environment, mix: Mix, whole: Recorder) -> None:
        self.env, self.mix, self.whole = env, mix, whole
        executed = mix.systems[0].processor
        self.processor: Processor
        if executed is not None:
            self.processor = executed(env)
        else:
            self.processor = SoloProcessor(env) if mix.alternates else FluidProcessor(env)
        self.admissions = itertools.count(1)
        self.servers: list[Server] = []
        self._turns: dict[tuple[int, int], Turn] = {}

    def memory(self, shape: CacheShape) -> CacheMemory:
        """Cache memory for a server: one that sees what the others have taken where it is shared."""
        others = [server.memory for server in self.servers] if self.mix.shared_cache else []
        memory = CacheMemory(shape)
        for other in others:
            memory.sharers.append(other)
            other.sharers.append(memory)
        return memory

    def recorder(self) -> PartRecorder:
        """Recorder of one model's requests."""
        return PartRecorder(self.whole)

    def add(self, server: Server) -> None:
        """Make a server known to the others and give its engines their turns."""
        pools = self.mix.turns[len(self.servers)]
        self.servers.append(server)
        for engine in server.engines:
            key = (pools[engine.pool], engine.index)
            engine.turn = self._turns.setdefault(key, Turn(self.env))
        for each in self.servers:
            each.neighbours = self.servers
            if self.mix.shared_cache:
                each.memory_sharers = self.servers


@dataclass(frozen=True, eq=False)
class MixOutcome:
    """A run of a mix: all requests together, and those of each model."""

    whole: Outcome
    parts: tuple[Outcome, ...]


def serve(
    mix: Mix,
    requests: Requests,
    warmup_share: float = 0.0,
    sink: RecordSink | None = None,
    saturate: bool = False,
) -> MixOutcome:
    """Serve all requests: of one model by a server of its own, where all may be there from the start."""
    if len(mix.systems) > 1:
        return run_mix(mix, requests, warmup_share, sink, saturate=saturate)
    whole = run(mix.systems[0], requests, warmup_share, sink)
    return MixOutcome(whole, (whole,))


def run_mix(
    mix: Mix,
    requests: Requests,
    warmup_share: float = 0.0,
    sink: RecordSink | None = None,
    fast: bool = True,
    saturate: bool = False,
) -> MixOutcome:
    """Serve all requests and check that nothing was lost.

    Args:
        mix: what is simulated.
        requests: of all models, in order of arrival.
        warmup_share: share of them that only warms the system up.
        sink: takes records, or None.
        fast: take stretches of unchanging decode steps in one event.
        saturate: let requests in as the models can take them instead of at their times.

    Raises:
        InvariantBroken: the simulator contradicts itself.
    """
    for cost in (cost for system in mix.systems for cost in system.costs.values()):
        cost.reset()
    env = simpy.Environment()
    whole = Recorder(len(requests), sink)
    package = SharedPackage(env, mix, whole)
    nothing = np.zeros(0, dtype=np.int64)
    none = Requests(np.zeros(0), nothing, nothing, nothing)
    for system in mix.systems:
        Server(env, system, none, sink, (), fast, package)
    first = warm_requests(warmup_share, len(requests))
    models = mix.models(requests)
    if saturate:
        _let_in(package, requests, models, max(LEAST_WAITING, mix.systems[0].policy.max_batch))
    else:
        for number, server in enumerate(package.servers):
            env.process(_arrivals(server, requests, np.flatnonzero(models == number).tolist()))
        env.process(_marks(package, [float(requests.arrival_s[first]), float(requests.arrival_s[-1])]))
    env.run()
    if saturate:
        for server in package.servers:
            server.mark()
            server.mark()
    whole.tokens = sum(server.recorder.tokens for server in package.servers)
    visits = whole.visits()
    for server in package.servers:
        server.check_empty()
    return _outcome(package, visits, models, first)


def _arrivals(server: Server, requests: Requests, mine: Sequence[int]) -> Generator[simpy.Event, object, None]:
    """Let the requests of one model in at their times."""
    for index in mine:
        time_s = float(requests.arrival_s[index])
        server.next_arrival_s = time_s
        if time_s > server.env.now:
            yield at(server.env, time_s)
        server.arrive(requests, index)
    server.next_arrival_s = NEVER


def _marks(package: SharedPackage, times_s: Sequence[float]) -> Generator[simpy.Event, object, None]:
    """Take the running totals of all servers at given times."""
    for time_s in times_s:
        for server in package.servers:
            server.next_mark_s = time_s
        if time_s > package.env.now:
            yield at(package.env, time_s)
        for server in package.servers:
            server.mark()
    for server in package.servers:
        server.next_mark_s = NEVER


def _let_in(package: SharedPackage, requests: Requests, models: IntArray, most: int) -> None:
    """Keep up to `most` requests of each model waiting, in the order of all requests."""
    order = iter(enumerate(models.tolist()))
    servers = package.servers

    def refill() -> None:
        while all(len(server.waiting) < most for server in servers):
            index, model = next(order, (-1, -1))
            if index < 0:
                return
            servers[model].arrive(requests, index)

    for server in servers:
        server.admitted = refill
    refill()


def _outcome(package: SharedPackage, visits: Visits, models: IntArray, first: int) -> MixOutcome:
    """Outcomes of the whole and of every model, between the same marks."""
    servers = package.servers
    parts = []
    for number, server in enumerate(servers):
        start, end = server.marks
        gap_s, gap_weight = server.recorder.gaps.values()
        mine = models == number
        parts.append(
            Outcome(
                server.system,
                visits.of(mine),
                int(mine[:first].sum()),
                start,
                end,
                gap_s,
                gap_weight,
                server.memory.peak_bytes,
            )
        )
    return MixOutcome(_whole(package, visits, parts, first), tuple(parts))


def _whole(package: SharedPackage, visits: Visits, parts: Sequence[Outcome], first: int) -> Outcome:
    """All requests as one outcome; its memory counts bytes, as blocks differ from model to model."""
    system = package.mix.systems[0]
    capacity = system.cache.capacity_bytes * (1 if package.mix.shared_cache else len(parts))
    costs = {f"{pool}@{number}": cost for number, part in enumerate(parts) for pool, cost in part.system.costs.items()}
    return Outcome(
        System(system.policy, CacheShape(capacity, 1.0, 1.0, 1), costs, system.handoff),
        visits,
        first,
        _sum([(part.start, part.system.cache) for part in parts]),
        _sum([(part.end, part.system.cache) for part in parts]),
        np.concatenate([part.gap_s for part in parts]),
        np.concatenate([part.gap_weight for part in parts]),
        sum(part.peak_bytes for part in parts),
    )


def _sum(marks: Sequence[tuple[Mark, CacheShape]]) -> Mark:
    """The running totals of all models at one instant."""
    times = {mark.time_s for mark, _ in marks}
    if len(times) != 1:
        raise InvariantBroken(f"marks of one instant lie at {sorted(times)} s")

    def total(value: Callable[[Mark], float]) -> float:
        return sum(value(mark) for mark, _ in marks)

    first = marks[0][0]
    return replace(
        first,
        tokens=int(total(lambda mark: mark.tokens)),
        completed=int(total(lambda mark: mark.completed)),
        preemptions=int(total(lambda mark: mark.preemptions)),
        decoding_seconds=total(lambda mark: mark.decoding_seconds),
        block_seconds=sum(mark.block_seconds * cache.block_bytes for mark, cache in marks),
        state_seconds=sum(mark.state_seconds * cache.state_bytes_per_sequence for mark, cache in marks),
        counts=tuple(count for mark, _ in marks for count in mark.counts),
    )
