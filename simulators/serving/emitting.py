"""Decoding sequences whose steps emit a drawn number of tokens.

The tokens of every step of a request are drawn when it arrives, from a stream of its own, so that they depend neither
on the schedule nor on other requests; a preempted request goes on where it was.  The last step emits what is left.
Steps go one by one: every sequence advances by its own number of tokens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hydra_dse.policy import Emission
from hydra_dse.rng import derive
from simulators.iteration import Attended
from simulators.serving.decoding import DecodeSet
from simulators.serving.recorder import Recorder
from simulators.serving.sequence import Sequence


def gains_of(emission: Emission, output: int, seed: int, request: int) -> bytes:
    """Draw the tokens of each decode step that a request of so many output tokens may take."""
    drawn = derive(seed, "tokens", request).random(max(output - 1, 0))
    levels = np.cumsum(emission.probabilities)[:-1]
    return (1 + np.searchsorted(levels, drawn, side="right")).astype(np.uint8).tobytes()


def decode_set(emission: Emission, block_tokens: int, windows: tuple[int, ...]) -> DecodeSet:
    """The decode set of an engine: the fast one where every step emits one token."""
    if emission.single:
        return DecodeSet(block_tokens, windows)
    return DrawnDecodeSet(block_tokens, windows)


class Due(NamedTuple):
    """What the next step of a decode set does: tokens emitted, KV blocks taken, contexts attended to."""

    tokens: int
    blocks: int
    context: int


class DrawnDecodeSet(DecodeSet):
    """A decode set that advances each sequence by the tokens of its own step.

    Members are up to date at all times: `target` counts cached tokens, `emitted` and `steps` what has happened.  What
    the next step does is summed once, when it is first asked for after a change.
    """

    def __init__(self, block_tokens: int, windows: tuple[int, ...]) -> None:
        super().__init__(block_tokens, ())
        self._window_sizes = windows
        self._known: Due | None = None

    def join(self, sequence: Sequence) -> None:
        """Add a sequence that has just emitted a token by its prefill (or arrived by hand-off)."""
        sequence.joined_step = self.step
        self.members[sequence] = None
        self.fresh[sequence] = sequence.last_token_s
        self._known = None

    def leave(self, sequence: Sequence) -> None:
        """Remove a sequence."""
        del self.members[sequence]
        sequence.last_token_s = self.fresh.pop(sequence, self.last_step_s)
        sequence.done = sequence.target
        self._known = None

    def grown(self, sequence: Sequence) -> int:
        """None: a member's own count is up to date."""
        return 0

    def _due_now(self) -> Due:
        if self._known is None:
            size, tokens, blocks, context = self._block_tokens, 0, 0, len(self.members)
            for sequence in self.members:
                gain, cached = _gain(sequence), sequence.target
                tokens += gain
                context += cached
                blocks += -(-(cached + gain) // size) - -(-cached // size)
            self._known = Due(tokens, blocks, context)
        return self._known

    def attended(self) -> Attended:
        """Contexts of the next step."""
        return Attended(self._due_now().context)

    def attended_in_windows(self) -> tuple[Attended, ...]:
        """Contexts of the next step inside each window."""
        return tuple(
            Attended(sum([min(sequence.target + 1, window) for sequence in self.members]))
            for window in self._window_sizes
        )

    @property
    def tokens_due(self) -> int:
        """Tokens that the next step emits."""
        return self._due_now().tokens

    @property
    def blocks_due(self) -> int:
        """KV blocks that the next step needs."""
        return self._due_now().blocks

    def record_gaps(self, recorder: Recorder, now_s: float) -> None:
        """Book the gaps of a step ending now: tokens of one step arrive together, the first after a gap."""
        super().record_gaps(recorder, now_s)
        recorder.gaps.add(0.0, self.tokens_due - len(self.members))

    def advance(self, now_s: float) -> list[Sequence]:
        """Book a step that ended now and return the sequences that emitted their last token with it."""
        self.step += 1
        self._known = None
        finished = []
        for sequence in self.members:
            gain = _gain(sequence)
            sequence.steps += 1
            sequence.emitted += gain
            sequence.target += gain
            if sequence.emitted == sequence.output:
                finished.append(sequence)
        self.last_step_s = now_s
        self.fresh.clear()
        return finished

    def steps_to_change(self) -> int:
        """None: the tokens of every step are its own."""
        return 0


def _gain(sequence: Sequence) -> int:
    """Tokens that the next step of a sequence emits, the rest beyond its output dropped."""
    left = sequence.output - sequence.emitted
    if sequence.gains is None:
        return left
    gain = sequence.gains[sequence.steps]
    return gain if gain < left else left
