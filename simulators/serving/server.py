"""The served system: its waiting queue, cache memory and engines, and how requests move between them."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import simpy

from hydra_dse.errors import InvariantBroken
from hydra_dse.policy import Policy
from hydra_dse.records.nouns import RecordSink
from hydra_dse.workload.nouns import Requests
from simulators.iteration import IterationCost, Work
from simulators.noi import FluidProcessor, Processor, SoloProcessor
from simulators.package.program import PoolProgram
from simulators.serving.departures import Departures
from simulators.serving.emitting import gains_of
from simulators.serving.engine import Engine, EngineLimits, PromptTimes
from simulators.serving.entrance import Entrance
from simulators.serving.leap import Leaper
from simulators.serving.memory import CacheMemory, CacheShape
from simulators.serving.planners import Planner, planners_of
from simulators.serving.recorder import Mark, Recorder, TimeSum
from simulators.serving.reuse import Reuse, prefix_cache_of
from simulators.serving.roles import Roles, RoleSwitcher
from simulators.serving.routes import Router
from simulators.serving.sequence import Sequence
from simulators.serving.tasks import OldestFirst, PromptThief, StepThief, settle, share_decoding
from simulators.serving.tracing import Tracer
from simulators.serving.waiting import ClassRules, WaitingQueue

if TYPE_CHECKING:
    from simulators.serving.mix import SharedPackage

NEVER = float("inf")


@dataclass(frozen=True)
class System:
    """What is simulated: how requests are batched, and the hardware as seen by the request level.

    Attributes:
        costs: iteration cost by pool name: `"serve"`, or `"prefill"` and `"decode"`.
        handoff: returns the transfer that moves a request of so many prompt tokens between the pools;
            None where the hand-off is a pointer.
        source: memory in which prompts are computed, where the prefill pool has one of its own; a request is then
            moved to `cache` as soon as that has room for it, and holds the source until the transfer has ended.
        classes: priority and TTFT bound by class index of the requests.
        roles: role states of an elastic system.
        swapped: costs of prompts on the decode dies and of decode steps on the prefill dies, where pools take each
            other's work.
        processor: makes what executes iterations; None for the fair sharing of whole iterations.
        leaps: whether durations of iterations alone are those of the costs, so that decode steps may be leaped over.
        seed: of the tokens that decode steps emit, where these are drawn.
        programs: makes the operators of the iterations of a pool, for traces.
        handoff_latency_s: from the last byte of a transfer sent to its arrival.
    """

    policy: Policy
    cache: CacheShape
    costs: dict[str, IterationCost]
    handoff: Callable[[int], Work] | None = None
    source: CacheShape | None = None
    classes: tuple[ClassRules, ...] = ()
    roles: Roles | None = None
    swapped: dict[str, IterationCost] = field(default_factory=dict)
    processor: Callable[[simpy.Environment], Processor] | None = None
    leaps: bool = True
    seed: int = 0
    programs: Mapping[str, Callable[[], PoolProgram]] = field(default_factory=dict)
    handoff_latency_s: float = 0.0


class Server:
    """A system in operation.

    Args:
        env: the simulation.
        system: what is simulated.
        requests: all requests of the run.
        sink: takes records, or None.
        marks: indices of the requests at whose arrival running totals are taken.
        fast: take stretches of unchanging decode steps in one event (the records are the same).
        package: what it shares with the servers of other models; None where it has the package to itself.
    """

    def __init__(
        self,
        env: simpy.Environment,
        system: System,
        requests: Requests,
        sink: RecordSink | None = None,
        marks: tuple[int, ...] = (),
        fast: bool = True,
        package: SharedPackage | None = None,
    ) -> None:
        self.env = env
        self.system = system
        self.policy = system.policy
        self.emission = system.policy.emission
        prefix = prefix_cache_of(self.policy, system.cache, requests)
        self.memory = CacheMemory(system.cache, prefix) if package is None else package.memory(system.cache)
        self.source = None if system.source is None else CacheMemory(system.source)
        self.departures = Departures(self)
        self.reuse = Reuse(self, requests)
        self.entrance = Entrance(self, requests, marks)
        prompt_s = PromptTimes(next(iter(system.costs.values())))
        self.waiting = WaitingQueue(self.policy, system.classes, lambda: self.env.now, prompt_s)
        self.handed_over: deque[Sequence] = deque()
        self.recorder = Recorder(len(requests), sink) if package is None else package.recorder()
        self.decoding_time = TimeSum()
        self.preemptions = 0
        self.marks: list[Mark] = []
        self.next_arrival_s = NEVER
        self.next_mark_s = NEVER
        self.admitted: Callable[[], None] | None = None
        self._admissions = itertools.count(1)
        self._between_pools = 0
        self._ranked = len({rules.priority for rules in system.classes}) > 1
        self.engines = _engines(self)
        self.neighbours: list[Server] = [self]
        self.memory_sharers: list[Server] = [self]
        self.leaper = Leaper(self, fast and system.leaps)
        self.processor: Processor
        if package is None:
            self.processor = system.processor(env) if system.processor is not None else _sharing(env, self.engines)
        else:
            self.processor, self._admissions = package.processor, package.admissions
            package.add(self)
        self.tracer = sink if isinstance(sink, Tracer) else None
        if self.tracer is not None:
            self.tracer.attach(self)
            self.tracer.execute(self.processor)
        self.takes_any_work = bool(system.swapped)
        if self.policy.task_map == "fcfs":
            share_decoding(self)
        self.router = Router(self)
        self.switcher = None if system.roles is None else RoleSwitcher(self, system.roles)
        for engine in self.engines:
            env.process(engine.run())
        if package is None:
            env.process(self.entrance.run())

    # -- arrivals ---------------------------------------------------------------------------------------------

    def arrive(self, requests: Requests, index: int, number: int | None = None) -> None:
        """Let a request in now; `number` counts the arrivals where their order is not that of the requests."""
        sequence = Sequence(
            index if number is None else number,
            int(requests.class_index[index]),
            int(requests.prompt_tokens[index]),
            int(requests.output_tokens[index]),
        )
        sequence.drawn = index
        if not self.emission.single:
            sequence.gains = gains_of(self.emission, sequence.output, self.system.seed, index)
        sequence.arrival_s = self.env.now
        if self.policy.max_waiting is not None and len(self.waiting) >= self.policy.max_waiting:
            self.recorder.reject(sequence)
            self.entrance.ended(sequence)
            return
        self.reuse.enter(sequence)
        self.waiting.enter(sequence)
        self.waiting.push(sequence)
        if self.switcher is not None:
            self.switcher.look()
        self.wake(prompts_only=True)

    def mark(self) -> None:
        """Take the running totals now."""
        now = self.env.now
        if self.tracer is not None:
            self.tracer.marked()
        self.memory.integrate(now)
        self.decoding_time.integrate(now)
        recorder = self.recorder
        recorder.gaps.mark()
        self.marks.append(
            Mark(
                now,
                recorder.tokens,
                recorder.completed,
                self.preemptions,
                self.decoding_time.area,
                self.memory.block_seconds,
                self.memory.state_seconds,
                tuple(cost.snapshot() for cost in self.system.costs.values()),
                self.memory.idle_byte_seconds,
                self.departures.moved,
                () if self.switcher is None else tuple(sorted(self.switcher.changes.items())),
            )
        )

    def wake(self, prompts_only: bool = False) -> None:
        """Wake sleeping engines: something that they may wait for has changed."""
        for engine in self.engines:
            if engine.wakeup is None:
                continue
            if not self.takes_any_work:
                if prompts_only and engine.pool == "decode":
                    continue
                if engine.pool == "prefill" and not self.waiting and not engine.prefilling:
                    continue
            engine.wake()

    # -- admission and memory ---------------------------------------------------------------------------------

    def can_admit(self, reserved_blocks: int) -> bool:
        """Whether memory for the prompt at the head of the queue is available."""
        head = self.waiting.head
        if self.source is not None:
            return self.source.admits(head.target)
        return self.memory.admits(head.target, reserved_blocks, hit=self.reuse.hit(head))

    def admit(self, engine: Engine) -> Sequence:
        """Move the head of the queue into an engine; its memory is taken at once."""
        sequence = self.waiting.pop()
        self.reuse.admit(sequence)
        sequence.admission = next(self._admissions)
        sequence.engine = engine
        if math.isnan(sequence.scheduled_s):
            sequence.scheduled_s = self.env.now
        engine.prefilling.append(sequence)
        if self.admitted is not None:
            self.admitted()
        return sequence

    def make_room(self, engine: Engine) -> bool:
        """Preempt the newest sequences until the next decode step of `engine` fits; False if it has to wait.

        Sequences in a running iteration cannot be preempted; the engine then waits for the end of that iteration.
        """
        engine.stalled = False
        while self.memory.free_blocks < engine.decoding.blocks_due:
            candidates = self._preemptible()
            if len(candidates) > 1:
                sequence, holder = max(candidates, key=lambda found: found[0].admission)
                holder.preempt(sequence)
            elif self.departures.moving or any(
                other.running for sharer in self.memory_sharers for other in sharer.engines
            ):
                engine.stalled = True
                return False
            else:
                raise InvariantBroken("a single sequence does not fit into the cache memory")
        return bool(engine.decoding)

    def make_way(self, engine: Engine, slots: int, reserved: int = 0) -> None:
        """Preempt for the head of the queue what has a lower priority, if that gives it a slot and its memory."""
        if not self.policy.class_preemption or not self.waiting:
            return
        head = self.waiting.head
        needs_slot = engine.in_service >= slots
        if not needs_slot and self.can_admit(reserved):
            return
        held = self._preemptible()
        lower = [(s, h) for s, h in held if s.priority > head.priority and s.level > head.level]
        lower.sort(key=lambda found: (found[0].priority, found[0].admission), reverse=True)
        victims = [found for found in lower if needs_slot and found[0].engine is engine][:1]
        if needs_slot and not victims:
            return
        spare = iter([found for found in lower if found not in victims])
        free = sum(holder.held_bytes(sequence) for sequence, holder in victims)
        hit = self.reuse.hit(head)
        while not self.memory.admits(head.target, reserved, free, hit):
            more = next(spare, None)
            if more is None:
                return
            victims.append(more)
            free += more[1].held_bytes(more[0])
        for sequence, holder in victims:
            holder.preempt(sequence)

    def held_bytes(self, sequence: Sequence) -> float:
        """Memory of a sequence; one that decodes has grown since it joined."""
        engine = sequence.engine
        grown = engine.decoding.grown(sequence) if engine is not None and sequence in engine.decoding.members else 0
        return self.reuse.held_bytes(sequence, sequence.target + grown)

    def _preemptible(self) -> list[tuple[Sequence, Server]]:
        """Sequences that hold this memory and are not in a running iteration, and whose they are."""
        candidates: list[tuple[Sequence, Server]] = []
        for sharer in self.memory_sharers:
            held = list(sharer.handed_over)
            for other in sharer.engines:
                if not other.running:
                    if self.source is None:
                        held.extend(other.prefilling)
                    if not other.decoding.running:
                        held.extend(other.decoding.members)
            candidates.extend((sequence, sharer) for sequence in dict.fromkeys(held))
        return candidates

    def preempt(self, sequence: Sequence) -> None:
        """Free all memory of a sequence; its prompt and its tokens are to be computed again."""
        engine = sequence.engine
        if engine is None:
            self.handed_over.remove(sequence)
            self._between_pools -= 1
        elif sequence in engine.decoding.members:
            self.leave(sequence, engine)
        else:
            engine.prefilling.remove(sequence)
        self.reuse.release(sequence)
        sequence.arrived = False
        sequence.preemptions += 1
        self.preemptions += 1
        sequence.target = sequence.prompt + sequence.emitted
        sequence.done = 0
        sequence.engine = None
        self.waiting.push(sequence)
        self.wake(prompts_only=not self.handed_over)  # its slot may be what a handed-over sequence waits for

    # -- progress of sequences --------------------------------------------------------------------------------

    def prefilled(self, sequence: Sequence, engine: Engine) -> None:
        """Take a sequence whose prefill ended now: it emits a token and goes on to decode."""
        now = self.env.now
        self.reuse.computed(sequence)
        if sequence.emitted:
            self.recorder.gaps.add(now - sequence.last_token_s, 1)
        else:
            sequence.first_token_s = now
        sequence.last_token_s = now
        sequence.emitted += 1
        self.recorder.tokens += 1
        if sequence.emitted == sequence.output:
            self.complete(sequence)
        elif engine.pool == "serve":
            self._join(sequence, engine)
        else:
            self._hand_over(sequence)

    def _join(self, sequence: Sequence, engine: Engine) -> None:
        sequence.engine = engine
        if sequence.decode_s != sequence.decode_s:  # NaN: for the first time
            sequence.decode_s = self.env.now
        engine.decoding.join(sequence)
        self.decoding_time.change(1, self.env.now)

    def leave(self, sequence: Sequence, engine: Engine) -> None:
        """Take a sequence out of the decoding ones of an engine."""
        engine.decoding.leave(sequence)
        self.decoding_time.change(-1, self.env.now)

    def _hand_over(self, sequence: Sequence) -> None:
        """Send a sequence to the decode pool: at once where it is a pointer, else by a transfer."""
        sequence.engine = None
        self._between_pools += 1
        if self.system.handoff is None:
            self.ready(sequence)
        else:
            self.departures.add(sequence)

    def ready(self, sequence: Sequence) -> None:
        """Let a sequence whose caches the decode pool has wait for a slot."""
        sequence.home = self.router.choose()
        self.handed_over.append(sequence)
        self.wake()

    @property
    def pushed_back(self) -> bool:
        """Whether as many requests wait for the decode pool as it serves: prefill pauses."""
        return self._between_pools >= self.policy.max_batch

    @property
    def backed_up(self) -> bool:
        """Whether half as many requests wait for the decode pool as make prefill pause."""
        return 2 * self._between_pools >= self.policy.max_batch

    def take_handed_over(self, engine: Engine) -> None:
        """Fill the free slots of a decode engine."""
        taken = 0
        while len(engine.decoding) < engine.limits.max_batch:
            sequence = self._next_handed_over(engine)
            if sequence is None:
                break
            self._join(sequence, engine)
            taken += 1
        if taken:
            self._between_pools -= taken
            self.wake(prompts_only=True)

    def give_back(self, engine: Engine) -> None:
        """Put the decoding sequences of an engine back to the head of the queue for slots."""
        for sequence in reversed(list(engine.decoding.members)):
            self.leave(sequence, engine)
            sequence.engine = None
            self.handed_over.appendleft(sequence)
            self._between_pools += 1

    def _next_handed_over(self, engine: Engine) -> Sequence | None:
        """The first of the lowest level that may decode on an engine."""
        ranked = self._ranked
        if not ranked and self.handed_over and self.handed_over[0].home is None:
            return self.handed_over.popleft()
        mine = [sequence for sequence in self.handed_over if sequence.home in (None, engine)]
        if not mine:
            return None
        first = min(mine, key=lambda sequence: sequence.level) if ranked else mine[0]
        self.handed_over.remove(first)
        return first

    def complete(self, sequence: Sequence) -> None:
        """Let a finished sequence go and free its memory."""
        self.reuse.computed(sequence)
        self.reuse.release(sequence)
        self.departures.look()
        self.recorder.complete(sequence)
        self.entrance.ended(sequence)
        for sharer in self.memory_sharers:
            sharer.wake()

    # -- iterations -------------------------------------------------------------------------------------------

    def started(self, engine: Engine, work: Work) -> None:
        """Pass the record of an iteration on."""
        if self.recorder.sink is not None:
            self.recorder.sink.iteration(engine.record(self.env.now, work))
        if self.tracer is not None:
            self.tracer.started(self, engine, work)

    @property
    def tracing(self) -> bool:
        """Whether iterations have to come one by one, for a trace."""
        return self.tracer is not None and self.tracer.recording

    @property
    def prompts(self) -> int:
        """Requests whose prompt waits or is under way."""
        return len(self.waiting) + sum(len(engine.prefilling) for engine in self.engines)

    def iteration_ended(self, ended: Engine) -> None:
        """Let engines that wait for memory look again, and dies that change roles leave."""
        if self.tracer is not None:
            self.tracer.ended(self, ended)
        if self.switcher is not None:
            self.switcher.iteration_ended(ended)
        if self.takes_any_work:
            settle(self, ended)
        for sharer in self.memory_sharers:
            for engine in sharer.engines:
                if engine.stalled:
                    engine.wake()

    def check_empty(self) -> None:
        """Check that nothing is left behind."""
        source = self.source or CacheMemory(self.memory.shape)
        left = (
            len(self.waiting),
            len(self.handed_over) + len(self.departures),
            self.memory.blocks + source.blocks,
            self.memory.states + source.states,
        )
        if self.switcher is not None and self.switcher.target is not None:
            raise InvariantBroken("a finished run left dies between two roles")
        if any(left) or any(engine.in_service for engine in self.engines):
            raise InvariantBroken(f"a finished run left (waiting, handed over, blocks, states) = {left}")
        if self.memory.prefix is not None:
            self.memory.prefix.check_unread()


def _planners(policy: Policy) -> dict[str, Planner]:
    """The planner of each pool."""
    if policy.task_map == "stealing":
        return {"prefill": StepThief(), "decode": PromptThief()}
    if policy.task_map == "fcfs":
        return {"prefill": OldestFirst(), "decode": OldestFirst()}
    return planners_of(policy)


def _sharing(env: simpy.Environment, engines: list[Engine]) -> Processor:
    return SoloProcessor(env) if len(engines) == 1 else FluidProcessor(env)


def _engines(server: Server) -> list[Engine]:
    """The engines of a policy: `batches_in_flight` per pool, each with its share of the batch and of the budget."""
    policy = server.policy
    pools = _planners(policy)
    count = policy.batches_in_flight
    limits = EngineLimits(max(1, policy.max_batch // count), max(1, policy.token_budget // count))
    engines = [
        Engine(server, pool, index, server.system.costs[pool], planner, limits)
        for pool, planner in pools.items()
        for index in range(count)
    ]
    for engine in engines:
        engine.costs = {**server.system.swapped, engine.pool: engine.cost}
    return engines
