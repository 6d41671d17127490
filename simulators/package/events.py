"""A package in operation: flows under way at their fair rates, timers, and which iteration holds which die."""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable

from hydra_dse.errors import InvariantBroken
from simulators.noi.flows import FlowNetwork

Action = Callable[[], None]


class Moving:
    """A flow under way: operand bytes left of it, its rate, and what to do at its end."""

    __slots__ = ("done", "left", "rate", "route")

    def __init__(self, route: int, left: float, done: Action) -> None:
        self.route, self.left, self.done, self.rate = route, left, done, 0.0


class PackageExecution:
    """The package in operation: flows, timers, and which iteration holds which die.

    Attributes:
        now_s: time of the last event.
        moved: operand bytes by route since the start.
        events: number of events so far.
        most_stripes: highest number of point-to-point streams at once.
    """

    def __init__(self, network: FlowNetwork) -> None:
        self.network = network
        self.now_s = 0.0
        self.moved: dict[int, float] = {}
        self.events = 0
        self.most_stripes = 0
        self.flows: list[Moving] = []
        self._stale = False
        self._timers: list[tuple[float, int, Action]] = []
        self._tickets = 0
        self._turns = 0
        self._held: set[int] = set()
        self._queue: list[tuple[int, tuple[int, ...], Action]] = []

    # -- what iterations ask for ------------------------------------------------------------------------------

    def flow(self, route: int, amount: float, done: Action) -> Moving:
        """Start a flow of so many operand bytes."""
        flow = Moving(route, amount, done)
        self.flows.append(flow)
        self.moved[route] = self.moved.get(route, 0.0) + amount
        self._stale = True
        return flow

    def after(self, seconds: float, action: Action) -> None:
        """Do something later."""
        self._tickets += 1
        heapq.heappush(self._timers, (self.now_s + seconds, self._tickets, action))

    def turn(self) -> int:
        """Number the next iteration."""
        self._turns += 1
        return self._turns

    def acquire(self, turn: int, dies: tuple[int, ...], action: Action) -> None:
        """Do something as soon as all of these dies are free; the iteration that started first comes first."""
        bisect.insort(self._queue, (turn, dies, action), key=_turn)
        self._grant()

    def release(self, dies: tuple[int, ...]) -> None:
        """Free dies."""
        self._held.difference_update(dies)
        if self._queue:
            self._grant()

    def _grant(self) -> None:
        claimed: set[int] = set()
        waiting, granted = [], []
        for turn, dies, action in self._queue:
            if any(die in self._held or die in claimed for die in dies):
                claimed.update(dies)
                waiting.append((turn, dies, action))
                continue
            self._held.update(dies)
            granted.append(action)
        self._queue = waiting
        for action in granted:
            action()

    # -- events -----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is under way."""
        return not self.flows and not self._timers

    def next_s(self) -> float:
        """When the next event is due (infinity if nothing is under way)."""
        if self._stale:
            self._share()
        due = self._timers[0][0] if self._timers else float("inf")
        for flow in self.flows:
            end = self.now_s + flow.left / flow.rate
            if end < due:
                due = end
        return due

    def advance(self, to_s: float) -> None:
        """Move on to an instant not after the next event, and do what is due then."""
        elapsed = to_s - self.now_s
        if not elapsed >= 0.0:
            raise InvariantBroken(f"time ran from {self.now_s} s to {to_s} s")
        ended: list[Moving] = []
        for flow in self.flows:
            left = flow.left - flow.rate * elapsed
            flow.left = left
            # What would take less than a rounding error of the clock is done.
            if left <= flow.rate * 1e-15 * (1.0 + to_s):
                ended.append(flow)
        self.now_s = to_s
        self.events += 1
        if ended:
            self.flows = [flow for flow in self.flows if flow not in ended]
            self._stale = True
        for flow in ended:
            flow.done()
        while self._timers and self._timers[0][0] <= to_s:
            heapq.heappop(self._timers)[2]()

    def jump(self, seconds: float, moved: dict[int, float]) -> None:
        """Move on past all that is under way; the caller starts again what is left of it (see `reuse`)."""
        self.now_s += seconds
        self.moved = moved
        self.flows = []
        self._timers = []
        self._stale = True

    def resume(self, route: int, left: float, done: Action) -> Moving:
        """Go on with a flow that was started, and counted, before a jump."""
        flow = self.flow(route, left, done)
        self.moved[route] -= left
        return flow

    def _share(self) -> None:
        """Give every flow its fair rate."""
        self._stale = False
        self.flows.sort(key=_route)
        routes = tuple([flow.route for flow in self.flows])
        if not routes:
            return
        for flow, rate in zip(self.flows, self.network.rates(routes), strict=True):
            flow.rate = rate
        stripes = sum([self.network.routes[route].pairs for route in routes])
        if stripes > self.most_stripes:
            self.most_stripes = stripes


def _turn(waiting: tuple[int, tuple[int, ...], Action]) -> int:
    return waiting[0]


def _route(flow: Moving) -> int:
    return flow.route
