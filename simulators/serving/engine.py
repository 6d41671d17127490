"""One engine: a SimPy process that executes one batched iteration after the other.

Loop: a planner says what the next iteration consists of (or that there is nothing to do), the processor runs it,
the engine books what it did.  One event ends each iteration.  Stretches of decode steps in which nothing can change
are taken in one event (`simulators.serving.leap`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import simpy

from hydra_dse.records.nouns import IterationRecord
from simulators.iteration import Attended, Composition, IterationCost, Work
from simulators.serving.emitting import decode_set
from simulators.serving.sequence import Sequence

if TYPE_CHECKING:
    from simulators.serving.planners import Planner
    from simulators.serving.server import Server
    from simulators.serving.turns import Turn

Chunks = list[tuple[Sequence, int]]


@dataclass(slots=True)
class Plan:
    """What an iteration consists of: prompt chunks, and whether the decoding sequences advance.

    Attributes:
        steady: a decode step that would be followed by the same step, were there no arrivals.
    """

    decodes: bool = False
    chunks: Chunks = field(default_factory=list)
    steady: bool = False


@dataclass(frozen=True)
class EngineLimits:
    """What one engine may hold: sequences in service, and tokens per iteration."""

    max_batch: int
    token_budget: int


class Engine:
    """An engine of a pool with its own batch.

    Attributes:
        cost: of its next iteration; dies may join or leave the engine while one runs.
        began_with: the cost of the iteration that runs.
        positions: computed of each decoding sequence in a step.
        costs: by phase, of an engine that may do the work of both.
        last_prompts_s: end of its last iteration with prompts.
    """

    def __init__(
        self, server: Server, pool: str, index: int, cost: IterationCost, planner: Planner, limits: EngineLimits
    ) -> None:
        self.server = server
        self.pool = pool
        self.index = index
        self.cost = cost
        self.began_with = cost
        self.costs: dict[str, IterationCost] = {}
        self.last_prompts_s = 0.0
        self.planner = planner
        self.limits = limits
        self.prefilling: list[Sequence] = []
        self.positions = server.emission.positions
        self.decoding = decode_set(server.emission, server.memory.shape.block_tokens, cost.windows)
        self.running = False
        self.stalled = False
        self.wakeup: simpy.Event | None = None
        self.turn: Turn | None = None
        self.last_duration_s = 0.0

    @property
    def in_service(self) -> int:
        """Sequences that are prefilled or decoded here."""
        return len(self.prefilling) + len(self.decoding)

    def run(self) -> Generator[simpy.Event, object, None]:
        """The process: plan, execute, book; sleep while there is nothing to do.

        Engines of several models on the same dies take turns: one plans and executes an iteration at a time.
        """
        server = self.server
        while True:
            if self.turn is not None:
                yield from self.turn.wait(self)
            plan = self.planner.plan(self)
            if plan is None:
                self.wakeup = server.env.event()
                if self.turn is not None:
                    self.turn.pass_on()
                yield self.wakeup
                continue
            if plan.steady:
                jump = server.leaper.leap(self, plan)
                if jump is not None:
                    yield jump
                    self._land()
                    continue
            work = self.begin(plan)
            yield server.processor.run(work)
            self.finish(plan, work)

    def do(self, phase: str) -> None:
        """Take up work of a phase: what is planned next costs what that phase costs on these dies."""
        self.cost = self.costs[phase]

    def wake(self) -> None:
        """Let a sleeping engine look for work."""
        if self.wakeup is not None:
            self.wakeup.succeed()
            self.wakeup = None

    def begin(self, plan: Plan) -> Work:
        """Take the memory that the iteration needs and return its work."""
        self.decoding.running = self.decoding.running or plan.decodes
        if plan.decodes:
            self.server.memory.grow(self.decoding.blocks_due, self.server.env.now)
        work = self.cost.work(self.compose(plan))
        self.began_with = self.cost
        self.running = True
        self.last_duration_s = work.duration_s
        self.server.started(self, work)
        return work

    def compose(self, plan: Plan) -> Composition:
        """Return the exact composition of a planned iteration."""
        decoding = self.decoding
        decoders = len(decoding) if plan.decodes else 0
        rows = decoders * self.positions
        if not plan.chunks:
            inner = decoding.attended_in_windows()
            return Composition(0, 0, decoders, rows, decoding.attended(), inner, self.positions)
        ending = sum(sequence.done + tokens == sequence.target for sequence, tokens in plan.chunks)
        windows = self.cost.windows
        inside: list[Attended] = []
        if windows:
            past = decoding.attended_in_windows() if decoders else (Attended(),) * len(windows)
            inside = [_with_chunks(part, plan.chunks, window) for part, window in zip(past, windows, strict=True)]
        return Composition(
            sum(tokens for _, tokens in plan.chunks),
            len(plan.chunks),
            decoders,
            rows + ending,
            _with_chunks(decoding.attended() if decoders else Attended(), plan.chunks, None),
            tuple(inside),
            self.positions,
        )

    def finish(self, plan: Plan, work: Work) -> None:
        """Book an iteration that ended now: tokens, completions, finished prompts."""
        server, now = self.server, self.server.env.now
        self.running = False
        self.began_with.count(work)
        if plan.decodes:
            self.decoding.running = False
            self._finish_step(now)
        if plan.chunks:
            self.last_prompts_s = now
        for sequence, tokens in plan.chunks:
            sequence.done += tokens
            if sequence.done == sequence.target:
                self.prefilling.remove(sequence)
                server.prefilled(sequence, self)
        server.iteration_ended(self)

    def _finish_step(self, now: float) -> None:
        """Book a decode step: the tokens of each decoding sequence, and the gaps since their last ones."""
        server, decoding = self.server, self.decoding
        server.recorder.tokens += decoding.tokens_due
        decoding.record_gaps(server.recorder, now)
        self._end(decoding.advance(now))

    def _land(self) -> None:
        """Let those go that ended with the last step of a stretch, which is over now."""
        finished = self.decoding.finished()
        if finished:
            self._end(finished)
            self.server.iteration_ended(self)

    def _end(self, finished: list[Sequence]) -> None:
        for sequence in finished:
            self.server.leave(sequence, self)
            self.server.complete(sequence)

    def record(self, start_s: float, work: Work) -> IterationRecord:
        """Return the record of an iteration that starts at `start_s`."""
        batch = work.batch
        return IterationRecord(
            self.pool,
            self.index,
            start_s,
            work.duration_s,
            batch.prefill_tokens,
            batch.decode_sequences,
            batch.attended.decode_tokens,
        )


class PromptTimes:
    """Seconds that a prompt of so many tokens takes alone and in one piece, each computed once."""

    def __init__(self, cost: IterationCost) -> None:
        self._cost = cost
        self._seconds: dict[int, float] = {}

    def __call__(self, tokens: int) -> float:
        """Return the time of `tokens` prompt tokens."""
        if tokens not in self._seconds:
            whole, *windowed = (
                Attended(0, chunk_pairs(0, tokens, window), tokens) for window in (None, *self._cost.windows)
            )
            work = self._cost.work(Composition(tokens, 1, 0, 1, whole, tuple(windowed)))
            self._seconds[tokens] = work.duration_s
        return self._seconds[tokens]


def _with_chunks(attended: Attended, chunks: Chunks, window: int | None) -> Attended:
    """Add prompt chunks to the contexts of a decode batch, exactly, inside a window or without one."""
    pairs, tokens_read = 0.0, 0
    for sequence, tokens in chunks:
        pairs += chunk_pairs(sequence.done, tokens, window)
        tokens_read += tokens + (sequence.done if window is None else min(sequence.done, window))
    return Attended(attended.decode_tokens, pairs, tokens_read, attended.decode_growth)


def chunk_pairs(prior: int, tokens: int, window: int | None) -> float:
    """Causal query-key pairs of a chunk after `prior` tokens: `∫ min(x, window) dx` from prior to its end."""
    end = prior + tokens
    if window is None or end <= window:
        return tokens * (prior + tokens / 2)
    if prior >= window:
        return float(tokens * window)
    return (window - prior) * (prior + window) / 2 + float((end - window) * window)
