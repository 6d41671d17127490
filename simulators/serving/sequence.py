"""A request while it is served, and the queue in which requests wait."""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulators.serving.engine import Engine


class Sequence:
    """A request with its dates and its progress.

    Attributes:
        request: index of the request, in order of arrival.
        target: tokens that the current prefill must process: the prompt, and after a preemption also the tokens
            emitted so far.
        done: of these processed.
        emitted: tokens emitted; up to date except while the sequence is in a `DecodeSet`.
        admission: number of its last admission; the largest is the newest.
        engine: the engine it is prefilling or decoding on, None while it waits.
        joined_step, ticket: step of the decode set at which it joined, and the number of that stay.
    """

    __slots__ = (
        "admission",
        "arrival_s",
        "class_index",
        "done",
        "emitted",
        "engine",
        "first_token_s",
        "joined_step",
        "last_token_s",
        "output",
        "preemptions",
        "prompt",
        "request",
        "scheduled_s",
        "target",
        "ticket",
    )

    def __init__(self, request: int, class_index: int, prompt: int, output: int) -> None:
        self.request = request
        self.class_index = class_index
        self.prompt = prompt
        self.output = output
        self.arrival_s = math.nan
        self.scheduled_s = math.nan
        self.first_token_s = math.nan
        self.last_token_s = math.nan
        self.preemptions = 0
        self.target = prompt
        self.done = 0
        self.emitted = 0
        self.admission = -1
        self.engine: Engine | None = None
        self.joined_step = 0
        self.ticket = 0


class WaitingQueue:
    """Requests that wait for their prefill: preempted ones first, then in the order of the policy.

    `"fcfs"`: by arrival.  `"sjf"`: shortest prompt first, ties by arrival.
    """

    def __init__(self, scheduling: str) -> None:
        self._shortest_first = scheduling == "sjf"
        self._heap: list[tuple[int, int, int, Sequence]] = []

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> Sequence:
        """The next to be served."""
        return self._heap[0][3]

    @property
    def new_may_overtake(self) -> bool:
        """Whether a later arrival can become the head."""
        return self._shortest_first or not self._heap

    def push(self, sequence: Sequence) -> None:
        """Add a new or a preempted request."""
        if sequence.preemptions:
            entry = (0, sequence.admission, sequence.request, sequence)
        else:
            entry = (1, sequence.prompt if self._shortest_first else 0, sequence.request, sequence)
        heapq.heappush(self._heap, entry)

    def pop(self) -> Sequence:
        """Remove and return the head."""
        return heapq.heappop(self._heap)[3]
