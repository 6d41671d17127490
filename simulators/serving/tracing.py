"""Spans of the iterations of a trace window, for a sink that wants them.

Where iterations are executed operator by operator their spans are what happened.  Where iteration times come from a
closed form, each iteration of the window is executed alone, and its spans are stretched to the time it took.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError, InvariantBroken
from hydra_dse.records.nouns import IterationBlock, IterationRecord, Visit
from hydra_dse.records.spans import HandoffSpan, ResourceSpan, SpanSink
from simulators.iteration import Work
from simulators.noi import Processor
from simulators.package import PackageCost
from simulators.package.events import Action, PackageExecution
from simulators.package.execution import Iteration
from simulators.package.operators import OperatorProcessor
from simulators.package.program import Program
from simulators.package.spans import IterationFacts, SpanMaker, layout_of
from simulators.package.traced import ResourceLog, TracedIteration, TracedPackage, trace_alone
from simulators.serving.passing import PassedIterations, Passing

if TYPE_CHECKING:
    from simulators.serving.engine import Engine
    from simulators.serving.server import Server

IDLE = 16
"""The window closes when one engine has run this many times its length, though another has not had its share."""


@dataclass(eq=False)
class _Running:
    """An iteration of the window under way."""

    facts: IterationFacts
    work: Work
    maker: SpanMaker
    lane: int
    iteration: TracedIteration | None = None


class Tracer:
    """Takes all records of a run for a span sink, and makes the spans of its window.

    Args:
        sink: where all goes.
        models: names of the models served, in the order of their servers.
        static_power_w: of the package.
    """

    def __init__(self, sink: SpanSink, models: tuple[str, ...], static_power_w: float) -> None:
        self.sink = sink
        self.closed = False
        self._window = sink.window
        self._models, self._static_power_w = models, static_power_w
        self._servers: list[Server] = []
        self._makers: dict[tuple[int, str], SpanMaker] = {}
        self._lanes: dict[Engine, int] = {}
        self._traced: dict[Engine, int] = {}
        self._running: dict[Engine, _Running] = {}
        self._next: _Running | None = None
        self._package: TracedPackage | None = None
        self._seen = self._number = 0
        self._opened_s: float | None = None
        self._warm = False
        self._passed = PassedIterations(sink.span)

    # -- records ----------------------------------------------------------------------------------------------

    def visit(self, record: Visit) -> None:
        """Take a finished visit."""
        self.sink.visit(record)

    def iteration(self, record: IterationRecord) -> None:
        """Take a finished iteration."""
        self.sink.iteration(record)

    def iteration_block(self, block: IterationBlock) -> None:
        """Take consecutive decode steps."""
        self.sink.iteration_block(block)

    def handed_over(self, request: int, start_s: float, end_s: float, amount: float) -> None:
        """Take a hand-off."""
        if self._opened_s is not None and not self.closed:
            self.sink.span(HandoffSpan(request, start_s, end_s, amount))

    # -- the run ----------------------------------------------------------------------------------------------

    def attach(self, server: Server) -> None:
        """Make a server known, before it starts."""
        if server.policy.task_map != "static":
            raise InputError(Fault(f"traces are not written for task_map: {server.policy.task_map}; use static"))
        self._servers.append(server)
        for engine in server.engines:
            self._lanes[engine] = len(self._lanes)
        if len(self._servers) == 1:
            cost = server.engines[0].cost
            if not isinstance(cost, PackageCost):
                raise InvariantBroken("a traced engine has no package")
            self.sink.layout(layout_of(cost.hardware, self._static_power_w))

    def execute(self, processor: Processor) -> None:
        """Trace what a processor executes, if it executes operators."""
        if isinstance(processor, OperatorProcessor) and self._package is None:
            self._package = TracedPackage(processor.package.network)
            processor.package, processor.make = self._package, self._make

    def _make(self, package: PackageExecution, program: Program, finished: Action) -> Iteration:
        running, self._next = self._next, None
        if running is None or not isinstance(package, TracedPackage):
            return Iteration(package, program, finished)
        running.iteration = TracedIteration(package, program, finished)
        return running.iteration

    def marked(self) -> None:
        """Take notice that the warm-up is over."""
        self._warm = True

    def started(self, server: Server, engine: Engine, work: Work) -> None:
        """Take an iteration that starts now."""
        self._next = None
        self._seen += 1
        now = server.env.now
        if not self.recording:
            return
        model = self._servers.index(server)
        name = self._models[model] if len(self._models) > 1 else ""
        if self.closed or not self._takes(engine, work, now):
            self._passes(server, engine, work, name)
            return
        maker = self._maker(model, engine)
        facts = IterationFacts(
            self._number, engine.pool, engine.index, name, now, work.batch, engine.in_service, len(server.waiting),
            self._cache_share(server),
        )  # fmt: skip
        self._number += 1
        self._traced[engine] = self._traced.get(engine, 0) + 1
        self._running[engine] = self._next = _Running(facts, work, maker, self._lanes[engine])
        self._close_if_full(now)

    @property
    def recording(self) -> bool:
        """Whether iterations have to be told: until the last one that leaves spans has ended."""
        return not self.closed or bool(self._running)

    def _passes(self, server: Server, engine: Engine, work: Work, model: str) -> None:
        """Take an iteration that leaves no spans."""

        def make() -> Passing:
            maker = self._maker(self._servers.index(server), engine)
            waiting = len(server.waiting)
            return Passing(model, maker, server.env.now, engine.in_service, waiting, self._cache_share(server))

        self._passed.started(engine, work, server.env.now, self._opened_s, make)

    def _cache_share(self, server: Server) -> float:
        return server.memory.used_bytes / server.system.cache.capacity_bytes

    def _takes(self, engine: Engine, work: Work, now: float) -> bool:
        window = self._window
        if self._opened_s is None:
            position = self._seen - 1 if window.unit == "iterations" else now
            reached = self._warm if window.start is None else position >= window.start
            if not reached or not work.batch.prefill_tokens:
                return False
            self._opened_s = now
            if self._package is not None:
                self._package.log = ResourceLog(self._package.network)
        taken = self._traced.get(engine, 0)
        if self.sink.full and taken >= window.least:
            return False
        return now < self._opened_s + window.length if window.unit == "seconds" else taken < window.length

    def _close_if_full(self, now: float) -> None:
        window = self._window
        if self._opened_s is None:
            return
        least = all(self._traced.get(engine, 0) >= window.least for engine in self._lanes)
        if window.unit == "seconds":
            self.closed = now >= self._opened_s + window.length or (self.sink.full and least)
        else:
            wanted = min(window.length, window.least) if self.sink.full else window.length
            full = all(self._traced.get(engine, 0) >= wanted for engine in self._lanes)
            self.closed = full or self._number >= IDLE * window.length * len(self._lanes)

    def _maker(self, model: int, engine: Engine) -> SpanMaker:
        key = (model, engine.pool)
        if key not in self._makers:
            cost = engine.cost
            if not isinstance(cost, PackageCost):
                raise InvariantBroken("a traced engine has no package")
            self._makers[key] = SpanMaker(cost, self._servers[model].system.programs[engine.pool]())
        return self._makers[key]

    def ended(self, server: Server, engine: Engine) -> None:
        """Take an iteration that ended now."""
        now = server.env.now
        running = self._running.pop(engine, None)
        self._passed.ended(engine, now, self._opened_s)
        if running is not None:
            if self._opened_s is not None and not self.recording:
                self._passed.finish(self._opened_s, now)
            self._emit(running, now)
        if not self.closed and self._opened_s is not None and self._window.unit == "seconds":
            self._close_if_full(now)
        if self.closed and not self._running and self._package is not None:
            self._package.log = None

    def _emit(self, running: _Running, now: float) -> None:
        sink, maker, start = self.sink, running.maker, running.facts.start_s
        if running.iteration is not None and self._package is not None and self._package.log is not None:
            log = self._package.log
            log.flush(now)
            iteration, carried, alone_s, origin, lane = running.iteration, log.done, now - start, start, 0
            log.done = []
        else:
            iteration, carried, alone_s = trace_alone(maker.network, maker.programs.program(running.work.batch))
            origin, lane = 0.0, running.lane
        stretch = (now - start) / alone_s if alone_s > 0.0 else 1.0

        def at(time_s: float) -> float:
            return min(start + (time_s - origin) * stretch, now)

        sink.span(maker.iteration(running.facts, iteration, now, stretch, at))
        for span in maker.operators(running.facts.number, iteration, stretch, at):
            sink.span(span)
        for transfer in maker.transfers(running.facts.number, iteration, at):
            sink.span(transfer)
        native = running.iteration is not None
        for each in carried:
            times = (each.start_s, each.end_s) if native else (at(each.start_s), at(each.end_s))
            busy = each.busy_s if native else each.busy_s * stretch
            sink.span(ResourceSpan(each.resource, lane, *times, each.bytes, busy))
        unsettled = [other.facts.start_s for other in self._running.values()]
        if self._passed.earliest_s is not None:
            unsettled.append(max(self._passed.earliest_s, self._opened_s or 0.0))
        sink.settled(min(unsettled, default=now))
