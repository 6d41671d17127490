"""The served system: its waiting queue, cache memory and engines, and how requests move between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import simpy

from hydra_dse.records.nouns import RecordSink
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Work
from simulators.noi import Processor
from simulators.serving.decode_queue import DecodeQueue
from simulators.serving.departures import Departures
from simulators.serving.emitting import gains_of
from simulators.serving.engine import Engine, PromptTimes
from simulators.serving.entrance import Entrance
from simulators.serving.leap import Leaper
from simulators.serving.memory import CacheMemory
from simulators.serving.pools import engines_of, sharing
from simulators.serving.preemption import Preemption
from simulators.serving.recorder import Mark, Recorder, TimeSum
from simulators.serving.reuse import Reuse, prefix_cache_of
from simulators.serving.roles import RoleSwitcher
from simulators.serving.routes import Router
from simulators.serving.sequence import Sequence
from simulators.serving.system import System
from simulators.serving.tasks import settle, share_decoding
from simulators.serving.totals import check_empty, totals_of
from simulators.serving.tracing import Tracer
from simulators.serving.waiting import WaitingQueue

if TYPE_CHECKING:
    from simulators.serving.mix import SharedPackage

NEVER = float("inf")


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
        self.preemption = Preemption(self)
        self.recorder = Recorder(len(requests), sink) if package is None else package.recorder()
        self.decoding_time = TimeSum()
        self.preemptions = 0
        self.marks: list[Mark] = []
        self.next_arrival_s = NEVER
        self.next_mark_s = NEVER
        self.admitted: Callable[[], None] | None = None
        self._admissions = itertools.count(1)
        self.decode_queue = DecodeQueue(self, ranked=len({rules.priority for rules in system.classes}) > 1)
        self.engines = engines_of(self)
        self.neighbours: list[Server] = [self]
        self.memory_sharers: list[Server] = [self]
        self.leaper = Leaper(self, fast and system.leaps)
        self.processor: Processor
        if package is None:
            self.processor = system.processor(env) if system.processor is not None else sharing(env, self.engines)
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
        self.marks.append(totals_of(self))

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

    # -- admission --------------------------------------------------------------------------------------------

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
            self.join(sequence, engine)
        else:
            self._hand_over(sequence)

    def _hand_over(self, sequence: Sequence) -> None:
        """Send a sequence to the decode pool: at once where it is a pointer, else by a transfer."""
        self.decode_queue.announce(sequence)
        if self.system.handoff is None:
            self.decode_queue.add(sequence)
        else:
            self.departures.add(sequence)

    def join(self, sequence: Sequence, engine: Engine) -> None:
        """Let a sequence decode on an engine."""
        sequence.engine = engine
        if sequence.decode_s != sequence.decode_s:  # NaN: for the first time
            sequence.decode_s = self.env.now
        engine.decoding.join(sequence)
        self.decoding_time.change(1, self.env.now)

    def leave(self, sequence: Sequence, engine: Engine) -> None:
        """Take a sequence out of the decoding ones of an engine."""
        engine.decoding.leave(sequence)
        self.decoding_time.change(-1, self.env.now)

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
        """Check that a finished run left nothing behind.

        Raises:
            InvariantBroken: it did.
        """
        check_empty(self)
