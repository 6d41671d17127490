"""Where requests come in: at their times, and turns of sessions a think time after the turn before them ended.

Requests are numbered as they arrive.  The marks of a run are taken at the arrival of given numbers.
"""

from __future__ import annotations

import heapq
from array import array
from collections import deque
from collections.abc import Callable, Generator
from collections.abc import Sequence as Ordered
from typing import TYPE_CHECKING

import numpy as np
import simpy

from hydra_dse.workload.nouns import Requests
from simulators.clock import at
from simulators.serving.sequence import Sequence

if TYPE_CHECKING:
    from simulators.serving.server import Server

NEVER = float("inf")


class Entrance:
    """Lets the requests of a run into a server.

    Args:
        server: takes the requests.
        requests: of the run; `parent` and `think_s` make sessions of them.
        marks: numbers of the arrivals at which running totals are taken.
    """

    def __init__(self, server: Server, requests: Requests, marks: tuple[int, ...]) -> None:
        self._server = server
        self._requests = requests
        self._due = array("d", requests.arrival_s.astype(np.float64).tobytes())
        self._to_mark = deque(sorted(marks))
        self._arrived = 0
        self._next_first_s = NEVER
        self._turns: list[float] = []
        self._after: dict[int, list[int]] = {}
        self._think_s: list[float] = []
        if requests.parent is not None and requests.think_s is not None:
            self._think_s = requests.think_s.tolist()
            for index, before in enumerate(requests.parent.tolist()):
                if before >= 0:
                    self._after.setdefault(before, []).append(index)
        later = {index for followers in self._after.values() for index in followers}
        everyone = range(len(requests))
        self._first: Ordered[int] = [index for index in everyone if index not in later] if later else everyone

    def run(self) -> Generator[simpy.Event, object, None]:
        """The process: requests that wait for no other."""
        env = self._server.env
        for index in self._first:
            self._next_first_s = self._due[index]
            self._announce()
            if self._due[index] > env.now:
                yield at(env, self._due[index])
            self._arrive(index)
        self._next_first_s = NEVER
        self._announce()

    def _announce(self) -> None:
        """Tell the server when the next request and the next mark are due, at the earliest."""
        server = self._server
        server.next_arrival_s = min(self._next_first_s, self._turns[0]) if self._turns else self._next_first_s
        if not self._to_mark:
            server.next_mark_s = NEVER
        else:
            server.next_mark_s = server.next_arrival_s if self._after else self._due[self._to_mark[0]]

    def ended(self, sequence: Sequence) -> None:
        """Send the turns on their way that wait for this one."""
        env = self._server.env
        for index in self._after.get(sequence.drawn, ()):
            time_s = env.now + self._think_s[index]
            heapq.heappush(self._turns, time_s)
            at(env, time_s).callbacks.append(self._turn(index))
        if self._turns:
            self._announce()

    def _turn(self, index: int) -> Callable[[simpy.Event], None]:
        def arrive(_: simpy.Event) -> None:
            heapq.heappop(self._turns)
            self._arrive(index)
            self._announce()

        return arrive

    def _arrive(self, index: int) -> None:
        while self._to_mark and self._to_mark[0] == self._arrived:
            self._to_mark.popleft()
            self._server.mark()
        self._arrived += 1
        self._server.arrive(self._requests, index, self._arrived - 1)
