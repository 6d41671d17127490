"""Taking a stretch of decode steps in one event where nothing can change in between.

The steps, their dates and their memory are the same to the last bit as one by one: sums run in the same order, and
the event fires at the exact end of the last step.  A stretch ends before the next arrival that could change the
batch, before the next mark of the run, before a step that does not fit into memory, and with the step that ends a
sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.records.nouns import IterationBlock
from simulators.clock import at
from simulators.iteration import Race, Rival, Stretch

if TYPE_CHECKING:
    from simulators.serving.engine import Engine, Plan
    from simulators.serving.server import Server

FloatArray = NDArray[np.float64]

SHORTEST = 8
"""Fewer steps are not worth the arrays: they are taken one after the other."""
LONGEST = 512
"""Steps taken in one event, which bounds the arrays."""


class Leaper:
    """Decides how far an engine may leap, and books the steps."""

    def __init__(self, server: Server, enabled: bool) -> None:
        self.server = server
        self.enabled = enabled
        self.steps = 0

    def leap(self, engine: Engine, plan: Plan) -> simpy.Event | None:
        """Book a stretch that starts now and return the event of its end; None if the next step goes alone."""
        server = self.server
        if not self.enabled or engine.last_duration_s <= 0.0 or server.tracing:
            return None
        if server.switcher is not None and not server.switcher.settled:
            return None
        if not self._undisturbed(engine):
            return self._leap_beside(engine, plan)
        horizon = min(self._horizon(engine), server.reuse.next_load_s, server.departures.next_landing_s)
        ahead = horizon - server.env.now
        if ahead <= engine.last_duration_s:
            return None
        steps = min(engine.decoding.steps_to_change(), LONGEST)
        if steps >= SHORTEST and ahead >= SHORTEST * engine.last_duration_s:
            return self._leap_far(engine, plan, steps, horizon)
        taken = self._race(engine, plan, steps, horizon, None)
        return None if taken is None else at(server.env, taken)

    def _leap_far(self, engine: Engine, plan: Plan, steps: int, horizon: float) -> simpy.Event | None:
        """Book many steps of an engine that has the package to itself, as arrays."""
        now = self.server.env.now
        steps = int(min(steps, 2.0 + (horizon - now) / engine.last_duration_s))
        steps = self._steps_that_fit(engine, steps)
        if steps < 1:
            return None
        stretch = engine.cost.stretch(engine.compose(plan), steps)
        times = np.cumsum(np.concatenate(([now], stretch.duration_s)))
        steps = int(np.searchsorted(times[1:], horizon, side="left"))
        if steps < 1:
            return None
        self.server.memory.grow_in_steps(engine.decoding.blocks_due_in(steps), times[:steps])
        self._book(engine, times[: steps + 1], stretch.head(steps))
        return at(self.server.env, float(times[steps]))

    def _leap_beside(self, engine: Engine, plan: Plan) -> simpy.Event | None:
        """Book steps that end while the only other iteration under way goes on: nothing else can happen meanwhile."""
        server = self.server
        if len(server.neighbours) > 1:
            return None
        rival = server.processor.only_job()
        others = [other for other in server.engines if other is not engine and other.wakeup is None]
        if rival is None or len(others) != 1 or not others[0].running:
            return None
        closed = len(server.engines) == 2 and server.switcher is None and not server.takes_any_work
        horizon = server.next_mark_s if closed else min(server.next_mark_s, server.next_arrival_s)
        horizon = min(horizon, server.reuse.next_load_s, server.departures.next_landing_s)
        steps = min(engine.decoding.steps_to_change(), LONGEST)
        taken = self._race(engine, plan, steps, horizon, rival)
        return None if taken is None else server.processor.hold(taken)

    def _race(self, engine: Engine, plan: Plan, steps: int, horizon: float, rival: Rival | None) -> float | None:
        """Book steps that end before the horizon, and before the rival does; return the end of the last of them."""
        server = self.server
        steps = self._steps_that_fit(engine, steps)
        if steps < 1:
            return None
        race = Race(engine.compose(plan), steps, server.env.now, horizon, rival, [])
        stretch = engine.cost.beside(race)
        if stretch is None:
            return None
        times = [race.start_s, *race.ends_s]
        for offset, start_s in enumerate(times[:-1]):
            server.memory.grow(engine.decoding.blocks_due_after(offset), start_s)
        self._book(engine, np.array(times), stretch)
        return race.ends_s[-1]

    def _steps_that_fit(self, engine: Engine, steps: int) -> int:
        """How many of the next `steps` steps find their KV blocks."""
        free = self.server.memory.free_blocks
        if engine.decoding.blocks_due_at_most(steps) <= free:
            return steps
        due = np.cumsum(engine.decoding.blocks_due_in(steps))
        return int(np.searchsorted(due, free, side="right"))

    def _undisturbed(self, engine: Engine) -> bool:
        """Whether no other engine on the package runs or is about to."""
        server = self.server
        if server.processor.jobs:
            return False
        for near in server.neighbours:
            for other in near.engines:
                if other is not engine and other.wakeup is None:
                    return False
        return True

    def _horizon(self, engine: Engine) -> float:
        """The next instant at which the batch may change from outside."""
        server = self.server
        others = [near.next_arrival_s for near in server.neighbours if near is not server]
        horizon = min([server.next_mark_s, *others]) if others else server.next_mark_s
        if self._closed(engine):
            return horizon
        if server.waiting.reorders:
            # Another head may fit where the present one does not, or have a right to a slot.
            return server.env.now
        return min(horizon, server.next_arrival_s)

    def _closed(self, engine: Engine) -> bool:
        """Whether no arrival can be admitted before the batch changes from inside.

        A steady batch with a queue behind it is blocked by slots, tokens or memory, and its memory only shrinks.
        """
        server = self.server
        if server.switcher is not None or server.takes_any_work:
            return False  # an arrival may move dies, or be the other pool's next work
        if server.waiting and not server.waiting.new_may_overtake:
            return True
        if engine.pool == "serve":
            if len(server.engines) > 1 or server.policy.class_preemption:
                return False
            return server.policy.batching == "static" or engine.in_service >= engine.limits.max_batch
        return server.decode_queue.pushed_back

    def _book(self, engine: Engine, times: FloatArray, stretch: Stretch) -> None:
        """Book tokens, gaps, contexts and records of the steps between consecutive `times`."""
        recorder, decoding = self.server.recorder, engine.decoding
        steps, decoders = len(times) - 1, len(decoding)
        recorder.tokens += steps * decoders
        decoding.record_gaps(recorder, float(times[1]))
        if recorder.gaps.open:
            recorder.gaps.extend(np.diff(times[1:]), decoders)
        decoding.advance_by(steps, float(times[-1]))
        engine.cost.count_stretch(stretch)
        engine.last_duration_s = float(stretch.duration_s[-1])
        self.steps += steps
        if recorder.sink is not None:
            context = stretch.first.attended
            recorder.sink.iteration_block(
                IterationBlock(
                    engine.pool,
                    engine.index,
                    times[:-1],
                    stretch.duration_s,
                    decoders,
                    context.decode_tokens,
                    context.decode_growth,
                )
            )
