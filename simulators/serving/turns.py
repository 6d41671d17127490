"""Turns of engines that execute on the same dies: one iteration at a time, in the order of asking.

An engine that has executed asks again behind all that wait, so engines with work alternate: round robin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:
    from simulators.serving.engine import Engine


class Turn:
    """Held by one engine at a time; an engine keeps it until it passes it on or asks for the next one."""

    def __init__(self, env: simpy.Environment) -> None:
        self._env = env
        self._holder: Engine | None = None
        self._waiting: deque[tuple[simpy.Event, Engine]] = deque()

    def wait(self, engine: Engine) -> Generator[simpy.Event, object, None]:
        """Wait until it is the engine's turn; an engine that holds it goes to the end of the line."""
        if self._holder is engine:
            self.pass_on()
        if self._holder is None:
            self._holder = engine
            return
        granted = self._env.event()
        self._waiting.append((granted, engine))
        yield granted

    def pass_on(self) -> None:
        """Give the turn to the next in line, or leave it free."""
        self._holder = None
        if self._waiting:
            granted, self._holder = self._waiting.popleft()
            granted.succeed()
