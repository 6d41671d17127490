"""Which decode engine a finished prompt goes to, where a pool has several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulators.serving.engine import Engine
    from simulators.serving.server import Server


class Router:
    """Routes by the policy: to any engine, to the one with the fewest requests, or to each in turn.

    Ties of the shortest queue go to the first engine.  A request that was routed waits for a slot of its engine.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._engines = [engine for engine in server.engines if engine.pool == "decode"]
        self._rule = server.policy.routing if len(self._engines) > 1 else "shared"
        self._turn = 0

    def choose(self) -> Engine | None:
        """The engine of a request that is handed over now; None for any."""
        if self._rule == "shared":
            return None
        if self._rule == "round_robin":
            self._turn += 1
            return self._engines[(self._turn - 1) % len(self._engines)]
        return min(self._engines, key=lambda engine: (self._held(engine), engine.index))

    def _held(self, engine: Engine) -> int:
        return len(engine.decoding) + sum(sequence.home is engine for sequence in self._server.decode_queue.waiting)
