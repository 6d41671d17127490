"""Execution by operators that leaves spans: when each operator went on, and what each link and memory carried."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulators.noi.flows import FlowNetwork
from simulators.package.events import Action, Moving, PackageExecution
from simulators.package.execution import Iteration
from simulators.package.program import Program
from simulators.package.progress import COMPUTES, ENDS, PASSED_ON
from simulators.package.steps import Flow


class Carried(NamedTuple):
    """Bytes that crossed a resource within an interval in which it was in use."""

    resource: int
    start_s: float
    end_s: float
    bytes: float
    busy_s: float


class ResourceLog:
    """Adds up what resources carry until it is asked; the intervals of one resource never overlap."""

    def __init__(self, network: FlowNetwork) -> None:
        self._network = network
        self._under_way: dict[Moving, tuple[float, float]] = {}
        width = len(network.routes[0].busy_s) if network.routes else 0
        self._bytes, self._busy_s = np.zeros(width), np.zeros(width)
        self._first, self._last = np.full(width, np.inf), np.full(width, -np.inf)
        self.done: list[Carried] = []

    def begin(self, flow: Moving, now_s: float) -> None:
        """Take a flow that starts."""
        self._under_way[flow] = (flow.left, now_s)

    def end(self, flow: Moving, now_s: float) -> None:
        """Take a flow that has ended."""
        if flow in self._under_way:
            self._account(flow, 0.0, now_s)
            del self._under_way[flow]

    def flush(self, now_s: float) -> None:
        """Close all intervals."""
        for flow in self._under_way:
            self._account(flow, flow.left, now_s)
            self._under_way[flow] = (flow.left, now_s)
        for at in np.flatnonzero(self._bytes > 0.0).tolist():
            first, last = float(self._first[at]), float(self._last[at])
            self.done.append(Carried(at, first, last, float(self._bytes[at]), float(self._busy_s[at])))
        self._bytes[:], self._busy_s[:], self._first[:], self._last[:] = 0.0, 0.0, np.inf, -np.inf

    def _account(self, flow: Moving, left: float, now_s: float) -> None:
        before, since_s = self._under_way[flow]
        route = self._network.routes[flow.route]
        if route.carried is None or before <= left:
            return
        self._bytes += route.carried * (before - left)
        self._busy_s += route.busy_s * (before - left)
        touched = route.carried > 0.0
        self._first[touched] = np.minimum(self._first[touched], since_s)
        self._last[touched] = now_s


class TracedPackage(PackageExecution):
    """A package in operation whose flows are logged while there is a log."""

    def __init__(self, network: FlowNetwork, log: ResourceLog | None = None) -> None:
        super().__init__(network)
        self.log = log

    def flow(self, route: int, amount: float, done: Action) -> Moving:
        """Start a flow of so many operand bytes."""
        log = self.log
        if log is None:
            return super().flow(route, amount, done)

        def ended() -> None:
            log.end(flow, self.now_s)
            done()

        flow = super().flow(route, amount, ended)
        log.begin(flow, self.now_s)
        return flow


class OperatorTimes(NamedTuple):
    """The instants of one executed operator (see `hydra_dse.records.OperatorSpan`)."""

    step: int
    position: int
    block: int
    start_s: float
    acquired_s: float
    gathered_s: float
    computed_s: float
    reduced_s: float
    ended_s: float


class TransferTimes(NamedTuple):
    """One transfer and the flows it is of.

    Attributes:
        step, position: of its operator, and its place in the order.
        what: `"read"`, `"write"`, `"gather"` or `"reduce"`.
    """

    step: int
    position: int
    what: str
    start_s: float
    end_s: float
    flows: tuple[Flow, ...]
    lane: int


class TracedIteration(Iteration):
    """An iteration that notes when its operators went on; it runs exactly as one that does not."""

    def __init__(self, package: TracedPackage, program: Program, finished: Action) -> None:
        self.traced = package
        self.start_s = package.now_s
        self.operators: list[OperatorTimes] = []
        self.transfers: list[TransferTimes] = []
        self.drained_s = package.now_s
        self._block_number = -1
        self._began_s = self._acquired_s = self._gathered_s = self._computed_s = self._reduced_s = package.now_s
        self._open: dict[Moving, tuple[int, int, float, float, int]] = {}
        self._lanes: dict[int, set[int]] = {}
        super().__init__(package, program, finished)

    def _go_on(self) -> None:
        if self.at in self.starts or self.at == len(self.steps):
            self._block_number += 1
            if self.traced.log is not None:
                self.traced.log.flush(self.traced.now_s)
        self._began_s = self.traced.now_s
        if self.at == len(self.steps):
            self.drained_s = self.traced.now_s
        super()._go_on()

    def _start(self) -> None:
        self._acquired_s = self.traced.now_s
        super()._start()

    def _gathered(self) -> None:
        super()._gathered()
        if self._pending <= 0 and self._phase in (COMPUTES, ENDS):
            self._gathered_s = self.traced.now_s
            step = self.steps[self.at]
            if step.gathers:
                self._note_transfer("gather", self._acquired_s, self._gathered_s, step.gathers)

    def _computed(self) -> None:
        self._computed_s = self.traced.now_s
        super()._computed()

    def _passed_on(self) -> None:
        self._reduced_s = self.traced.now_s
        reduces = self.steps[self.at].reduces
        if reduces:
            self._note_transfer("reduce", self._computed_s, self._reduced_s, reduces)
        super()._passed_on()

    def _pass_on_if_done(self) -> None:
        if self._phase == PASSED_ON and not self._own_writes:
            times = (self._began_s, self._acquired_s, self._gathered_s, self._computed_s, self._reduced_s)
            self.operators.append(
                OperatorTimes(self.order[self.at], self.at, self._block_number, *times, self.traced.now_s)
            )
        super()._pass_on_if_done()

    def _note_transfer(self, what: str, start_s: float, end_s: float, flows: tuple[Flow, ...], lane: int = 0) -> None:
        self.transfers.append(TransferTimes(self.order[self.at], self.at, what, start_s, end_s, flows, lane))

    def _read(self, flow: Flow, share: float) -> Moving:
        tile = super()._read(flow, share)
        self._open[tile] = (self.order[self.fetch_at], self.fetch_at, self.traced.now_s, flow[1] * share, 0)
        return tile

    def _arrived(self, flow: Moving) -> None:
        self._close(flow, "read")
        super()._arrived(flow)

    def _write(self, route: int, amount: float, gate: bool) -> None:
        super()._write(route, amount, gate)
        taken = self._lanes.setdefault(route, set())
        lane = next(number for number in range(len(taken) + 1) if number not in taken)
        taken.add(lane)
        self._open[self.writes[-1]] = (self.order[self.at], self.at, self.traced.now_s, amount, lane)

    def _written(self, flow: Moving, gate: bool) -> None:
        lane = self._open[flow][4]
        self._lanes[flow.route].discard(lane)
        self._close(flow, "write")
        super()._written(flow, gate)

    def _close(self, flow: Moving, what: str) -> None:
        step, position, start_s, amount, lane = self._open.pop(flow)
        times = (start_s, self.traced.now_s)
        self.transfers.append(TransferTimes(step, position, what, *times, ((flow.route, amount),), lane))


def trace_alone(network: FlowNetwork, program: Program) -> tuple[TracedIteration, list[Carried], float]:
    """Execute one iteration on an otherwise idle package; times from 0, and its duration in s."""
    package = TracedPackage(network, ResourceLog(network))
    ended: list[float] = []
    iteration = TracedIteration(package, program, lambda: ended.append(package.now_s))
    while not package.idle:
        package.advance(package.next_s())
    log = package.log
    if log is None or not ended:
        return iteration, [], package.now_s
    log.flush(package.now_s)
    return iteration, log.done, ended[0]
