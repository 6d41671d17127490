"""The sequences that one engine decodes, in constant time per step whatever their number.

No sequence is touched while it decodes.  The set counts its steps; a sequence remembers the step at which it
joined, so its context, its emitted tokens and its blocks follow by subtraction.  Sequences due to end lie in a heap
by their last step, and those due to take a KV block are counted by step modulo the block size.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from simulators.iteration import Attended
from simulators.serving.recorder import Recorder
from simulators.serving.sequence import Sequence

IntArray = NDArray[np.int64]
FAR = 1 << 62
"""A step after the end of every run."""


class WindowedSum:
    """`Σ min(context, window)` over the sequences of a decode set, for its next step."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.total = 0
        self.growing = 0
        self._stops: dict[int, int] = {}

    def join(self, context: int, step: int) -> None:
        """Add a sequence whose context at `step` is `context`."""
        self.total += min(context, self.window)
        if context < self.window:
            self.growing += 1
            stop = step + self.window - context
            self._stops[stop] = self._stops.get(stop, 0) + 1

    def leave(self, context: int, step: int) -> None:
        """Remove a sequence whose context at `step` is `context`."""
        self.total -= min(context, self.window)
        if context < self.window:
            self.growing -= 1
            stop = step + self.window - context
            self._stops[stop] -= 1
            if not self._stops[stop]:
                del self._stops[stop]

    def advance(self, step: int, steps: int = 1) -> None:
        """Move on to `step`, `steps` later; no sequence may fill its window before `step`."""
        self.total += steps * self.growing
        self.growing -= self._stops.pop(step, 0)

    def steps_to_change(self, step: int) -> int:
        """Steps until the next sequence fills its window."""
        return min(self._stops, default=FAR) - step


class DecodeSet:
    """Decoding sequences of one engine, or of several that take turns at their steps.

    Attributes:
        running: whether a step of them is under way.
    """

    def __init__(self, block_tokens: int, windows: tuple[int, ...]) -> None:
        self.step = 0
        self.members: dict[Sequence, None] = {}
        self.context = 0
        self.windowed = [WindowedSum(window) for window in windows]
        self.last_step_s = 0.0
        self.running = False
        self.fresh: dict[Sequence, float] = {}
        self._block_tokens = block_tokens
        self._due = [0] * block_tokens
        self._ends: list[tuple[int, int, Sequence]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.members)

    def join(self, sequence: Sequence) -> None:
        """Add a sequence that has just emitted a token by its prefill (or arrived by hand-off)."""
        sequence.joined_step = self.step
        self.members[sequence] = None
        self.fresh[sequence] = sequence.last_token_s
        context = sequence.target + 1
        self.context += context
        for part in self.windowed:
            part.join(context, self.step)
        self._due[self._phase(sequence)] += 1
        self._tickets += 1
        sequence.ticket = self._tickets
        heapq.heappush(self._ends, (self.step + sequence.output - sequence.emitted, sequence.ticket, sequence))

    def leave(self, sequence: Sequence) -> None:
        """Remove a sequence and bring its own counts up to date."""
        steps = self.step - sequence.joined_step
        context = sequence.target + 1 + steps
        self.context -= context
        for part in self.windowed:
            part.leave(context, self.step)
        self._due[self._phase(sequence)] -= 1
        del self.members[sequence]
        sequence.last_token_s = self.fresh.pop(sequence, self.last_step_s)
        sequence.emitted += steps
        sequence.target += steps
        sequence.done = sequence.target

    def grown(self, sequence: Sequence) -> int:
        """Tokens that a member has cached since it joined."""
        return self.step - sequence.joined_step

    def _phase(self, sequence: Sequence) -> int:
        """Steps, modulo the block size, at which the sequence needs a new block: its cached tokens fill the last."""
        return (sequence.joined_step - sequence.target) % self._block_tokens

    def attended(self) -> Attended:
        """Contexts of the next step."""
        return Attended(self.context, 0.0, 0, len(self.members))

    def attended_in_windows(self) -> tuple[Attended, ...]:
        """Contexts of the next step inside each window."""
        return tuple(Attended(part.total, 0.0, 0, part.growing) for part in self.windowed)

    @property
    def tokens_due(self) -> int:
        """Tokens that the next step emits."""
        return len(self.members)

    @property
    def blocks_due(self) -> int:
        """KV blocks that the next step needs."""
        return self._due[self.step % self._block_tokens]

    def blocks_due_after(self, steps: int) -> int:
        """KV blocks that the step after the next `steps` steps needs."""
        return self._due[(self.step + steps) % self._block_tokens]

    def blocks_due_at_most(self, steps: int) -> int:
        """An upper bound of the KV blocks that the next `steps` steps need: one per sequence and block size."""
        return -(-steps // self._block_tokens) * len(self.members)

    def blocks_due_in(self, steps: int) -> IntArray:
        """KV blocks that each of the next `steps` steps needs."""
        return np.array(self._due, dtype=np.int64)[(self.step + np.arange(steps)) % self._block_tokens]

    def record_gaps(self, recorder: Recorder, now_s: float) -> None:
        """Book the gaps between the tokens that a step ending now emits and the ones before them."""
        recorder.gaps.add(now_s - self.last_step_s, len(self.members) - len(self.fresh))
        for since_s in self.fresh.values():
            recorder.gaps.add(now_s - since_s, 1)

    def advance(self, now_s: float) -> list[Sequence]:
        """Book a step that ended now and return the sequences that emitted their last token with it."""
        self._move(1, now_s)
        return self.finished()

    def finished(self) -> list[Sequence]:
        """Return the sequences that emitted their last token with the last step booked; they are still members."""
        finished: list[Sequence] = []
        while self._ends and self._ends[0][0] <= self.step:
            _, ticket, sequence = heapq.heappop(self._ends)
            if self._valid(ticket, sequence):
                finished.append(sequence)
        return finished

    def advance_by(self, steps: int, now_s: float) -> None:
        """Book `steps` steps that end at `now_s`; only the last of them may end sequences."""
        self._move(steps, now_s)

    def _move(self, steps: int, now_s: float) -> None:
        self.step += steps
        self.context += steps * len(self.members)
        for part in self.windowed:
            part.advance(self.step, steps)
        self.last_step_s = now_s
        self.fresh.clear()

    def steps_to_change(self) -> int:
        """Steps up to the first one with which a sequence ends or fills a window."""
        self._drop_stale()
        steps = self._ends[0][0] - self.step if self._ends else 0
        for part in self.windowed:
            steps = min(steps, part.steps_to_change(self.step))
        return steps

    def _drop_stale(self) -> None:
        """Forget heap entries of sequences that were preempted."""
        while self._ends and not self._valid(*self._ends[0][1:]):
            heapq.heappop(self._ends)

    def _valid(self, ticket: int, sequence: Sequence) -> bool:
        """Whether a heap entry is of the present stay of its sequence: it may have left and joined again since."""
        return ticket == sequence.ticket and sequence in self.members
