"""Dies that change roles: when they go, what they wait for, and which cost the engines have meanwhile.

State `s` counts the units of decode dies that serve prefill (negative: prefill dies that serve decode).  With `up` or
more prompts waiting or under way the next state is `s + 1`, unless half as many finished prompts already wait for
decode as make prefill pause; with `down` or fewer, or while prefill pauses, it is `s − 1`.  One change at a time:

1. the pool that gives its dies ends the iteration that runs and goes on without them;
2. the bytes that the new state keeps in SRAM are moved, in competition with the iterations that run;
3. the pool that takes the dies has them from its next iteration on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

from simulators.iteration import IterationCost, Work

if TYPE_CHECKING:
    from simulators.serving.engine import Engine
    from simulators.serving.server import Server


@dataclass(frozen=True)
class Roles:
    """Role states of a system.

    Attributes:
        costs: iteration cost of both pools in each state.
        native: the state at the start.
        up, down: prompts at which dies go over to prefill, and back.
        move: the transfer from one state to a neighbour.
    """

    costs: tuple[Mapping[str, IterationCost], ...]
    native: int
    up: int
    down: int
    move: Callable[[int, int], Work]


class RoleSwitcher:
    """The roles of the dies of a server in operation."""

    def __init__(self, server: Server, roles: Roles) -> None:
        self.server = server
        self.roles = roles
        self.state = roles.native
        self.target: int | None = None
        self.switches = 0
        self.changes: dict[tuple[int, int], int] = {}
        self.switching_s = 0.0
        self.seconds = [0.0] * len(roles.costs)
        self._draining: list[Engine] = []
        self._began_s = 0.0
        self._since_s = 0.0
        self._assign("prefill", self.state)
        self._assign("decode", self.state)

    def look(self) -> None:
        """Begin a change where the number of prompts asks for one."""
        wanted = self._wanted()
        if wanted is not None:
            self._begin(wanted, "decode" if wanted > self.state else "prefill")

    @property
    def settled(self) -> bool:
        """Whether no change is under way, nor would one begin were an iteration to end now."""
        return self.target is None and self._wanted() is None

    def _wanted(self) -> int | None:
        """The state that the number of prompts asks for, None where dies stay."""
        if self.target is not None:
            return None
        prompts, wanted = self.server.prompts, self.state
        if prompts >= self.roles.up and not self.server.decode_queue.backed_up:
            wanted += 1
        elif prompts <= self.roles.down or self.server.decode_queue.pushed_back:
            wanted -= 1
        return wanted if wanted != self.state and 0 <= wanted < len(self.roles.costs) else None

    def _begin(self, target: int, lender: str) -> None:
        self.target = target
        self._began_s = self.server.env.now
        self._draining = [engine for engine in self.server.engines if engine.pool == lender and engine.running]
        self._assign(lender, target)
        self._leave_if_drained()

    def iteration_ended(self, engine: Engine) -> None:
        """Take note of the end of an iteration, which may be what dies wait for."""
        if engine in self._draining:
            self._draining.remove(engine)
            self._leave_if_drained()
        self.look()

    def _leave_if_drained(self) -> None:
        if self.target is None or self._draining:
            return
        moved = self.server.processor.run(self.roles.move(self.state, self.target))
        moved.callbacks.append(self._arrived)

    def _arrived(self, _: simpy.Event) -> None:
        if self.target is None:
            return
        now = self.server.env.now
        self.seconds[self.state] += now - self._since_s
        self._since_s = now
        self.switching_s += now - self._began_s
        self.switches += 1
        change = self.state, self.target
        self.changes[change] = self.changes.get(change, 0) + 1
        self.state, self.target = self.target, None
        self._assign("prefill", self.state)
        self._assign("decode", self.state)
        self.look()

    def _assign(self, pool: str, state: int) -> None:
        for engine in self.server.engines:
            if engine.pool == pool:
                engine.cost = self.roles.costs[state][pool]
