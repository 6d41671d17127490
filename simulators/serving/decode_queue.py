"""Requests between two pools: their prompts are computed, and they wait for a slot of the decode pool."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulators.serving.engine import Engine
    from simulators.serving.sequence import Sequence
    from simulators.serving.server import Server


class DecodeQueue:
    """What a prefill pool hands over, in order.

    Args:
        server: whose pools these are.
        ranked: whether requests differ in priority, so that the order of the queue is not that of the slots.

    Attributes:
        waiting: sequences whose caches the decode pool has.
    """

    def __init__(self, server: Server, ranked: bool) -> None:
        self._server = server
        self._ranked = ranked
        self._limit = server.policy.max_batch
        self._between_pools = 0
        self.waiting: deque[Sequence] = deque()

    def __len__(self) -> int:
        return len(self.waiting)

    def announce(self, sequence: Sequence) -> None:
        """Count a sequence that leaves the prefill pool; a transfer may be under way before it is added."""
        sequence.engine = None
        self._between_pools += 1

    def add(self, sequence: Sequence) -> None:
        """Let a sequence whose caches the decode pool has wait for a slot."""
        sequence.home = self._server.router.choose()
        self.waiting.append(sequence)
        self._server.wake()

    def drop(self, sequence: Sequence) -> None:
        """Let go of a sequence that is preempted."""
        self.waiting.remove(sequence)
        self._between_pools -= 1

    @property
    def pushed_back(self) -> bool:
        """Whether as many requests wait for the decode pool as it serves: prefill pauses."""
        return self._between_pools >= self._limit

    @property
    def backed_up(self) -> bool:
        """Whether half as many requests wait for the decode pool as make prefill pause."""
        return 2 * self._between_pools >= self._limit

    def fill(self, engine: Engine) -> None:
        """Fill the free slots of a decode engine."""
        taken = 0
        while len(engine.decoding) < engine.limits.max_batch:
            sequence = self._next(engine)
            if sequence is None:
                break
            self._server.join(sequence, engine)
            taken += 1
        if taken:
            self._between_pools -= taken
            self._server.wake(prompts_only=True)

    def take_back(self, engine: Engine) -> None:
        """Put the decoding sequences of an engine back to the head of the queue."""
        for sequence in reversed(list(engine.decoding.members)):
            self._server.leave(sequence, engine)
            sequence.engine = None
            self.waiting.appendleft(sequence)
            self._between_pools += 1

    def _next(self, engine: Engine) -> Sequence | None:
        """The first of the lowest level that may decode on an engine."""
        if not self._ranked and self.waiting and self.waiting[0].home is None:
            return self.waiting.popleft()
        mine = [sequence for sequence in self.waiting if sequence.home in (None, engine)]
        if not mine:
            return None
        first = min(mine, key=lambda sequence: sequence.level) if self._ranked else mine[0]
        self.waiting.remove(first)
        return first
