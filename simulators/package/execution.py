"""Iterations executed operator by operator in events on a placed package.

An operator takes its dies, gathers its activations, computes while its weights, KV and state stream in, and passes its
result on; the next one of the same iteration then starts.  Streams run ahead of the computation in program order as far
as SRAM has room (double buffering: a tile is at least half of what is free when nothing is held).  What it leaves in
memory is written behind it, and holds it up only where it does not fit into SRAM.  All flows that are under way, of
whatever iteration, share links and memory sites fairly (`simulators.noi.flows`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from simulators.package.events import Action, Moving, PackageExecution
from simulators.package.program import Program
from simulators.package.progress import (
    COMPUTES,
    ENDS,
    GATHERS,
    PASSED_ON,
    REDUCES,
    SLACK,
    WAITS,
    Progress,
    State,
    apart,
    free_share,
)
from simulators.package.steps import Flow, Step

HALF = 0.5
"""Smallest tile that is fetched ahead, as a share of the free SRAM (assumption: two buffers)."""
TICK_S = 1e-12
"""Shortest wait for room, so that rounding cannot stop the clock."""


class Iteration:
    """One iteration under way.

    Args:
        package: where it runs.
        program: what it does.
        finished: called at its end.
        at_block: called at the start of every block, may put the iteration at the start of a later one
            (`simulators.package.reuse`).
    """

    def __init__(
        self,
        package: PackageExecution,
        program: Program,
        finished: Action,
        at_block: Callable[[Iteration], None] | None = None,
    ) -> None:
        self.package, self.program, self.finished = package, program, finished
        self.order = tuple(number for block in program.blocks for number in block)
        self.steps: tuple[Step, ...] = tuple(program.steps[number] for number in self.order)
        starts, at = [], 0
        for block in program.blocks:
            starts.append(at)
            at += len(block)
        self.starts = frozenset(starts)
        self.at = 0
        self.fetch_at = 0
        self.fetched = 0.0
        self.target = 0.0
        self.tile: list[Moving] = []
        self.writes: list[Moving] = []
        self._at_block = at_block
        self._turn = package.turn()
        self._kept: tuple[int, ...] = ()
        self._phase = WAITS
        self._pending = 0
        self._own_writes = 0
        self._progress = Progress()
        self._alarm = 0
        package.after(program.start_s, self._next)

    # -- operators in order -----------------------------------------------------------------------------------

    def _next(self) -> None:
        if self._at_block is not None and self.at in self.starts:
            # After all else that ends at this instant.
            self.package.after(0.0, self._block)
        else:
            self._go_on()

    def _block(self) -> None:
        if self._at_block is not None:
            self._at_block(self)
        self._go_on()

    def _go_on(self) -> None:
        kept, self._kept = self._kept, ()
        if self.at == len(self.steps):
            self.package.release(kept)
            self._finish_if_written()
            return
        self._phase = WAITS
        self._progress = Progress()
        self.package.acquire(self._turn, self.steps[self.at].dies, self._start)
        if kept:
            self.package.release(kept)

    def _start(self) -> None:
        """The dies are there: gather the activations."""
        self._phase = GATHERS
        step = self.steps[self.at]
        self._pending = max(1, len(step.gathers))
        for route, amount in step.gathers:
            self.package.flow(route, amount, self._gathered)
        if not step.gathers:
            self._gathered()
        self.fetch()

    def _gathered(self) -> None:
        self._pending -= 1
        if self._pending > 0:
            return
        package, step = self.package, self.steps[self.at]
        self._phase = COMPUTES
        self._progress.at_s = package.now_s + step.gather_latency_s + step.overhead_s
        self._own_writes = 0
        gate = step.write_need > 1.0
        for route, amount in step.writes:
            self._own_writes += gate
            self._write(route, amount, gate)
        if self.fetch_at > self.at:
            self._compute_to_end()
        self.fetch()

    def _write(self, route: int, amount: float, gate: bool) -> None:
        flow = self.package.flow(route, amount, lambda: self._written(flow, gate))
        self.writes.append(flow)

    def _written(self, flow: Moving, gate: bool) -> None:
        self.writes.remove(flow)
        if gate:
            self._own_writes -= 1
            self._pass_on_if_done()
        self._finish_if_written()

    def _compute_to_end(self) -> None:
        """All reads of the current operator are there: nothing holds its computation up any more."""
        step, progress = self.steps[self.at], self._progress
        start = max(progress.at_s, self.package.now_s + progress.late_s)
        self._phase = ENDS
        self.package.after(start - self.package.now_s + step.compute_s * (1.0 - progress.done), self._computed)

    def _computed(self) -> None:
        step = self.steps[self.at]
        self._progress.done, self._phase = 1.0, REDUCES
        if self.program.keeps_dies:
            self._kept = step.dies
        else:
            self.package.release(step.dies)
        self._pending = max(1, len(step.reduces))
        for route, amount in step.reduces:
            self.package.flow(route, amount, self._reduced)
        if not step.reduces:
            self._reduced()
        self.fetch()

    def _reduced(self) -> None:
        self._pending -= 1
        if self._pending > 0:
            return
        latency = self.steps[self.at].reduce_latency_s
        if latency > 0.0:
            self.package.after(latency, self._passed_on)
        else:
            self._passed_on()

    def _passed_on(self) -> None:
        self._phase = PASSED_ON
        self._pass_on_if_done()

    def _pass_on_if_done(self) -> None:
        if self._phase != PASSED_ON or self._own_writes:
            return
        self._phase = WAITS
        self.at += 1
        self._alarm += 1
        self._next()
        self.fetch()

    def _finish_if_written(self) -> None:
        if self.at == len(self.steps) and not self.writes:
            self.at += 1
            self.finished()

    # -- streams ahead of the computation ---------------------------------------------------------------------

    def fetch(self) -> None:
        """Start the next tile if there is one and room for it."""
        while not self.tile and self.fetch_at < len(self.steps):
            step = self.steps[self.fetch_at]
            if step.reads and self.fetched < 1.0:
                room = self._room(step)
                if room < 1.0 - self.fetched and room < HALF / step.buffer_need:
                    self._wait_for_room(step, room)
                    return
                self.target = min(1.0, self.fetched + room)
                if self.target > 1.0 - SLACK:
                    self.target = 1.0
                share = self.target - self.fetched
                self.tile = [self._read(flow, share) for flow in step.reads]
                return
            self._fetched_one()

    def _read(self, flow: Flow, share: float) -> Moving:
        tile = self.package.flow(flow[0], flow[1] * share, lambda: self._arrived(tile))
        return tile

    def _arrived(self, flow: Moving) -> None:
        self.tile.remove(flow)
        if not self.tile:
            self._tile_there()

    def state(self) -> State:
        """What is under way at the start of a block."""
        return State(
            self.fetch_at - self.at,
            self.fetched,
            self.target,
            tuple((flow.route, flow.left) for flow in self.tile),
            tuple((flow.route, flow.left) for flow in self.writes),
        )

    def resume(self, at: int, state: State) -> None:
        """Go on from the start of a block; the package has jumped there."""
        self.at, self.fetch_at, self.fetched, self.target = at, at + state.ahead, state.fetched, state.target
        self._alarm += 1
        self.tile, self.writes = [], []
        for route, left in state.tile:
            tile = self.package.resume(route, left, lambda: None)
            tile.done = partial(self._arrived, tile)
            self.tile.append(tile)
        for route, left in state.writes:
            flow = self.package.resume(route, left, lambda: None)
            flow.done = partial(self._written, flow, False)
            self.writes.append(flow)

    def _tile_there(self) -> None:
        self.fetched = self.target
        if self.fetch_at == self.at and self._phase in (GATHERS, COMPUTES):
            self._progress.late_s = self.steps[self.at].read_latency_s
            self._advance_compute()
        if self.fetched >= 1.0:
            self._fetched_one()
        self.fetch()

    def _fetched_one(self) -> None:
        self.fetch_at += 1
        self.fetched = 0.0
        if self.fetch_at == self.at + 1 and self._phase == COMPUTES:
            self._compute_to_end()

    def _advance_compute(self) -> None:
        """Bring the progress of the current operator up to now; it cannot be ahead of its data."""
        if self._phase not in (COMPUTES, ENDS):
            return
        there = self.fetched if self.fetch_at == self.at else 1.0
        self._progress.advance(self.package.now_s, self.steps[self.at].compute_s, there)

    def _room(self, step: Step) -> float:
        """Share of a step's reads that fits into the SRAM that is free now."""
        if step.buffer_need <= SLACK:
            return 1.0
        self._advance_compute()
        current = None if self._phase == WAITS else self.steps[self.at]
        return free_share(step, self.fetched, self.steps[self.at : self.fetch_at], current, self._progress.done)

    def _wait_for_room(self, step: Step, room: float) -> None:
        """Come back when the current operator has used up enough, or else at its end."""
        current = self.steps[self.at] if self.at < len(self.steps) else None
        if (
            current is None
            or self._phase not in (COMPUTES, ENDS)
            or current.buffer_need <= 0.0
            or apart(step.dies, current.dies)
        ):
            return
        lacking = min(1.0 - self.fetched, HALF / step.buffer_need) - room
        share = lacking * step.buffer_need / current.buffer_need + SLACK
        progress = self._progress
        if progress.done + share > 1.0:
            return
        self._alarm += 1
        alarm = self._alarm

        def look_again() -> None:
            if alarm == self._alarm:
                self.fetch()

        start = max(progress.at_s, self.package.now_s)
        self.package.after(start - self.package.now_s + max(share * current.compute_s, TICK_S), look_again)
