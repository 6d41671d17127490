"""What the request level asks of a hardware model: the duration of one iteration of a given composition.

The engine describes an iteration by exact totals over its sequences (`Composition`) and gets a `Work` back.
`FixedCost` is the minimal implementation; `simulators.package.PackageCost` is the real one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Attended(NamedTuple):
    """Tokens attended to in one iteration: all of them, or only those inside an attention window.

    Attributes:
        decode_tokens: `Σ context` over decoding sequences, the first position of this step included.
        prefill_pairs: `Σ chunk·(prior + chunk/2)` query-key pairs of prompt chunks.
        prefill_tokens: `Σ (prior + chunk)` tokens whose keys the chunks read.
        decode_growth: sequences whose attended context grows by one with every further decode step.
    """

    decode_tokens: int = 0
    prefill_pairs: float = 0.0
    prefill_tokens: int = 0
    decode_growth: int = 0


NOTHING = Attended()


class Composition(NamedTuple):
    """One engine iteration.

    Attributes:
        prefill_tokens, prefill_sequences: prompt tokens processed and sequences they belong to.
        decode_sequences: sequences that decode.
        emitted_tokens: rows of the LM head: positions of decoders, and prompts that end here.
        attended: contexts without a window.
        windowed: the same inside each attention window of the cost model, in its order.
        positions: computed of each decoding sequence.
    """

    prefill_tokens: int = 0
    prefill_sequences: int = 0
    decode_sequences: int = 0
    emitted_tokens: int = 0
    attended: Attended = NOTHING
    windowed: tuple[Attended, ...] = ()
    positions: int = 1

    @property
    def rows(self) -> int:
        """Tokens that pass through the blocks."""
        return self.prefill_tokens + self.decode_sequences * self.positions

    def later(self, steps: int) -> Composition:
        """The same decode batch `steps` steps later."""
        return self._replace(
            attended=_grown(self.attended, steps), windowed=tuple(_grown(part, steps) for part in self.windowed)
        )


def _grown(attended: Attended, steps: int) -> Attended:
    return attended._replace(decode_tokens=attended.decode_tokens + steps * attended.decode_growth)


class Work(NamedTuple):
    """An iteration ready to run: its duration alone, what it keeps busy, and what the cost model counts it by.

    Attributes:
        duration_s: time alone on the package.
        batch: what is executed.
        parts_s: durations of the operators whose time the composition does not fix alone (for accounting).
        usage_of: returns the busy share of every shared resource; None where nothing is shared.
        program_of: returns its operators, where they are executed in events of their own.
    """

    duration_s: float
    batch: Composition = Composition()
    parts_s: tuple[float, ...] = ()
    usage_of: Callable[[Work], FloatArray] | None = None
    program_of: Callable[[Work], object] | None = None

    def usage(self) -> FloatArray | None:
        """Busy share of every shared resource while the iteration runs alone."""
        return None if self.usage_of is None else self.usage_of(self)


class Stretch(NamedTuple):
    """Consecutive decode steps of one unchanging batch: duration of each, and its parts, shape (parts, steps)."""

    first: Composition
    duration_s: FloatArray
    parts_s: FloatArray | list[list[float]]

    def head(self, steps: int) -> Stretch:
        """The first `steps` of them."""
        return Stretch(self.first, self.duration_s[:steps], [part[:steps] for part in self.parts_s])


class Rival(Protocol):
    """A job under way beside decode steps: what is left of it, and its end, at the speed it has."""

    usage: FloatArray | None
    speed: float
    end_s: float
    state: tuple[float, float, float, float]

    def change_speed(self, speed: float, now_s: float) -> None:
        """Give it another speed from now on."""


class Race(NamedTuple):
    """Decode steps that share the package with at most one other job.

    Attributes:
        first: composition of the first step; the batch does not change.
        steps: how many there may be.
        start_s: when the first one starts.
        horizon_s: they must end before it.
        rival: the other job, as it was before `start_s`, whose speed changes with every step; None without one.
        ends_s: filled with the end of every step taken.
    """

    first: Composition
    steps: int
    start_s: float
    horizon_s: float
    rival: Rival | None
    ends_s: list[float]


class IterationCost(Protocol):
    """Iterations of one pool.  `work` and `stretch` must agree to the last bit; both are free of side effects.

    The engine calls `count` (or `count_stretch`) once for every iteration that has ended.
    """

    @property
    def windows(self) -> tuple[int, ...]:
        """Attention windows for which compositions carry exact clipped sums."""

    def work(self, batch: Composition) -> Work:
        """Return the iteration with this composition."""

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Return `steps` consecutive decode steps, the first with composition `first`."""

    def beside(self, race: Race) -> Stretch | None:
        """Return the decode steps of a race, or None where there are none or steps must go one by one."""

    def count(self, work: Work) -> None:
        """Book an iteration that has ended."""

    def count_stretch(self, stretch: Stretch) -> None:
        """Book decode steps that have ended."""

    def snapshot(self) -> object:
        """Return what has been counted so far, as a value that later counting does not change."""

    def reset(self) -> None:
        """Forget what has been counted."""


class FixedCost:
    """Every iteration takes `duration(composition)`: for theory and for tests."""

    windows: tuple[int, ...] = ()

    def __init__(self, duration: Callable[[Composition], float]) -> None:
        self.duration = duration
        self.iterations = 0

    def work(self, batch: Composition) -> Work:
        """Return an iteration that shares nothing."""
        return Work(self.duration(batch), batch)

    def stretch(self, first: Composition, steps: int) -> Stretch:
        """Return the steps one by one."""
        durations = [self.duration(first.later(step)) for step in range(steps)]
        return Stretch(first, np.array(durations), np.zeros((0, steps)))

    def beside(self, race: Race) -> Stretch | None:
        """Leave it to single steps."""
        return None

    def count(self, work: Work) -> None:
        """Count one iteration."""
        self.iterations += 1

    def count_stretch(self, stretch: Stretch) -> None:
        """Count its iterations."""
        self.iterations += len(stretch.duration_s)

    def snapshot(self) -> int:
        """Iterations so far."""
        return self.iterations

    def reset(self) -> None:
        """Forget them."""
        self.iterations = 0
