"""The queue in which requests wait for their prompt: classes by priority, and orders within one.

Key of a request: its level, preempted ones first (each goes to the head), then the order of the policy, then arrival.
The level is the priority of its class plus the ticks of the ageing clock before its arrival: as if at every tick all
that wait rose by one priority.  So keys do not change while a request waits, except under `"hrrn"`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

from hydra_dse.policy import Policy
from simulators.serving.sequence import Sequence

Key = tuple[int, int, float, int]


@dataclass(frozen=True)
class ClassRules:
    """What the server knows of a request class: its priority (0 = first) and its TTFT bound, None without one."""

    priority: int = 0
    ttft_s: float | None = None


FIRST = ClassRules()


class WaitingQueue:
    """Requests that wait for their prefill.

    Orders within a level: `"fcfs"` by arrival; `"sjf"` shortest prompt; `"hrrn"` highest ratio of wait to prompt, as
    of now (the order of response ratios, `1 + wait/service`, for services in proportion to prompts); `"edf"`
    earliest arrival + TTFT bound; `"least_slack"` the same less the time of the prompt alone.  A class without a
    bound comes after all that have one.

    Args:
        policy: order and ageing.
        classes: rules by class index; classes beyond them have priority 0 and no bound.
        clock: returns the time in s.
        prompt_s: returns the time that a prompt of so many tokens takes alone.
    """

    def __init__(
        self,
        policy: Policy,
        classes: tuple[ClassRules, ...] = (),
        clock: Callable[[], float] = lambda: 0.0,
        prompt_s: Callable[[int], float] = float,
    ) -> None:
        self._order = policy.scheduling
        self._ageing_s = policy.ageing_s
        self._classes = classes
        self._clock = clock
        self._prompt_s = prompt_s
        self._several = len({rules.priority for rules in classes}) > 1
        self._heap: list[tuple[Key, Sequence]] = []
        self._ranked_s = math.nan

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> Sequence:
        """The next to be served."""
        self._rank()
        return self._heap[0][1]

    @property
    def new_may_overtake(self) -> bool:
        """Whether a later arrival can become the head."""
        return self._order != "fcfs" or self._several or not self._heap

    @property
    def reorders(self) -> bool:
        """Whether time alone can change the head."""
        return self._order == "hrrn" and len(self._heap) > 1

    def enter(self, sequence: Sequence) -> None:
        """Give an arriving request its priority and its level."""
        sequence.priority = self._rules(sequence).priority
        ticks = 0 if self._ageing_s is None else math.floor(sequence.arrival_s / self._ageing_s)
        sequence.level = sequence.priority + ticks

    def push(self, sequence: Sequence) -> None:
        """Add a new or a preempted request."""
        heapq.heappush(self._heap, (self._key(sequence), sequence))
        self._ranked_s = math.nan

    def pop(self) -> Sequence:
        """Remove and return the head."""
        self._rank()
        return heapq.heappop(self._heap)[1]

    def _rules(self, sequence: Sequence) -> ClassRules:
        return self._classes[sequence.class_index] if sequence.class_index < len(self._classes) else FIRST

    def _key(self, sequence: Sequence) -> Key:
        if sequence.preemptions:
            return sequence.level, 0, -float(sequence.returned), sequence.request
        return sequence.level, 1, self._within(sequence), sequence.request

    def _within(self, sequence: Sequence) -> float:
        """Order within a level; equal ones go by arrival."""
        if self._order == "fcfs":
            return 0.0
        if self._order == "sjf":
            return float(sequence.prompt)
        if self._order == "hrrn":
            return (sequence.arrival_s - self._clock()) / sequence.prompt
        bound = self._rules(sequence).ttft_s
        if bound is None:
            return math.inf
        deadline = sequence.arrival_s + bound
        return deadline if self._order == "edf" else deadline - self._prompt_s(sequence.prompt)

    def _rank(self) -> None:
        """Bring keys that change with time up to date."""
        if self._order == "hrrn" and self._ranked_s != self._clock():
            self._ranked_s = self._clock()
            self._heap = [(self._key(sequence), sequence) for _, sequence in self._heap]
            heapq.heapify(self._heap)
