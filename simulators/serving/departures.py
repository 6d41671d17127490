"""Hand-off by transfer: finished prompts on their way from the memory of one pool to that of the other.

A request leaves as soon as the target memory has room for all that it has cached; later ones wait for it (first
come, first served).  Where both pools share a memory, a transfer starts at once and nothing is held twice.  Memory at
the source is held until the transfer has ended.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

from hydra_dse.errors import InvariantBroken
from simulators.clock import at

if TYPE_CHECKING:
    import simpy

    from simulators.serving.sequence import Sequence
    from simulators.serving.server import Server


class Departures:
    """The requests of a server between its pools.

    Attributes:
        moving: number of transfers under way.
        moved: cached tokens of all transfers that have ended, and their number.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waiting: deque[Sequence] = deque()
        self.moving = 0
        self.moved = (0, 0)
        self._landings: deque[float] = deque()  # all are late by the same time, so they land in order

    @property
    def next_landing_s(self) -> float:
        """When the first of the transfers arrives whose last byte has left; infinite without any."""
        return self._landings[0] if self._landings else math.inf

    def __len__(self) -> int:
        return len(self._waiting) + self.moving

    def add(self, sequence: Sequence) -> None:
        """Take a request whose prompt is computed."""
        self._waiting.append(sequence)
        self.look()

    def look(self) -> None:
        """Start the transfers that find room at their target."""
        server = self._server
        while self._waiting:
            sequence = self._waiting[0]
            if server.source is not None:
                if not server.memory.admits(sequence.target):
                    return
                server.memory.admit(sequence.target, server.env.now)
            self._waiting.popleft()
            self._start(sequence)

    def _start(self, sequence: Sequence) -> None:
        server = self._server
        if server.system.handoff is None:
            raise InvariantBroken("a request departs where it is handed over by pointer")
        self.moving += 1
        began_s = server.env.now

        def end(_: simpy.Event) -> None:
            self._end(sequence, began_s)

        def sent(_: simpy.Event) -> None:
            self._landings.append(server.env.now + server.system.handoff_latency_s)
            at(server.env, self._landings[-1]).callbacks.append(landed)

        def landed(event: simpy.Event) -> None:
            self._landings.popleft()
            end(event)

        late = server.system.handoff_latency_s > 0.0
        server.processor.run(server.system.handoff(sequence.target)).callbacks.append(sent if late else end)

    def _end(self, sequence: Sequence, began_s: float) -> None:
        server = self._server
        self.moving -= 1
        tokens, count = self.moved
        self.moved = tokens + sequence.target, count + 1
        if server.source is not None:
            server.source.release(sequence.target, server.env.now)
            sequence.arrived = True
        if server.tracer is not None:
            shape = server.memory.shape
            moved = sequence.target * shape.kv_bytes_per_token + shape.state_bytes_per_sequence
            server.tracer.handed_over(sequence.request, began_s, server.env.now, moved)
        server.decode_queue.add(sequence)
