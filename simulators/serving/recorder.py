"""What a run leaves behind: dates of every request, gaps between tokens, and counts at the marks of its window."""

from __future__ import annotations

import itertools
import math
from array import array
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.records.nouns import RecordSink, Visit
from simulators.serving.sequence import Sequence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Visits:
    """Dates of all requests of a run as arrays, in order of arrival; NaN for what a refused request never reached.

    Attributes:
        cached_tokens: prompt tokens found in the prefix cache at the first admission.
        drawn: index among the drawn requests.
    """

    class_index: IntArray
    prompt_tokens: IntArray
    output_tokens: IntArray
    arrival_s: FloatArray
    scheduled_s: FloatArray
    first_token_s: FloatArray
    last_token_s: FloatArray
    preemptions: IntArray
    cached_tokens: IntArray
    drawn: IntArray

    @property
    def rejected(self) -> NDArray[np.bool_]:
        """Whether each request was refused."""
        return np.isnan(self.last_token_s)

    @property
    def served(self) -> Visits:
        """Those that were not refused."""
        kept = ~self.rejected
        return self if kept.all() else Visits(*(getattr(self, part.name)[kept] for part in fields(self)))

    def __len__(self) -> int:
        return len(self.arrival_s)

    def of(self, rows: NDArray[np.bool_]) -> Visits:
        """Some of the requests."""
        return Visits(*(getattr(self, column.name)[rows] for column in fields(self)))


class Recorder:
    """Collects dates and gaps; passes finished visits on to a sink."""

    def __init__(self, requests: int, sink: RecordSink | None) -> None:
        self.sink = sink
        self.tokens = 0
        self.completed = 0
        self.rejected = 0
        self._sequences: list[Sequence | None] = [None] * requests
        self._gap_s = array("d")
        self._gap_weight = array("q")

    def gap(self, gap_s: float, tokens: int) -> None:
        """Book the gap before a token of `tokens` sequences."""
        if tokens:
            self._gap_s.append(gap_s)
            self._gap_weight.append(tokens)

    def gaps(self, gap_s: FloatArray, tokens: int) -> None:
        """Book consecutive gaps of the same `tokens` sequences."""
        self._gap_s.extend(gap_s)
        self._gap_weight.extend([tokens] * len(gap_s))

    @property
    def gap_count(self) -> int:
        """Entries in the list of gaps so far."""
        return len(self._gap_s)

    def gaps_from(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return gaps in s and their weights, entries `first` to `last`."""
        return (
            np.array(self._gap_s[first:last], dtype=np.float64),
            np.array(self._gap_weight[first:last], dtype=np.float64),
        )

    def complete(self, sequence: Sequence) -> None:
        """Take a request that emitted its last token; each may come once."""
        if self._sequences[sequence.request] is not None:
            raise InvariantBroken(f"request {sequence.request} was served twice")
        if sequence.emitted != sequence.output:
            raise InvariantBroken(
                f"request {sequence.request} ended with {sequence.emitted} of {sequence.output} tokens"
            )
        dates = (sequence.arrival_s, sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s)
        if not all(earlier <= later for earlier, later in itertools.pairwise(dates)):
            raise InvariantBroken(f"the dates of request {sequence.request} are out of order: {dates}")
        self._sequences[sequence.request] = sequence
        self.completed += 1
        self._pass_on(sequence)

    def reject(self, sequence: Sequence) -> None:
        """Take a request that is refused at its arrival."""
        if self._sequences[sequence.request] is not None:
            raise InvariantBroken(f"request {sequence.request} came twice")
        self._sequences[sequence.request] = sequence
        self.rejected += 1
        self._pass_on(sequence)

    def _pass_on(self, sequence: Sequence) -> None:
        if self.sink is None:
            return
        dates = (sequence.arrival_s, sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s)
        visit = Visit(
            sequence.request, sequence.class_index, sequence.prompt, sequence.output, *dates, sequence.preemptions
        )
        self.sink.visit(visit)

    def visits(self) -> Visits:
        """Return the dates of all requests.

        Raises:
            InvariantBroken: a request was lost, or tokens were.
        """
        done = [sequence for sequence in self._sequences if sequence is not None]
        if len(done) != len(self._sequences):
            raise InvariantBroken(f"{len(self._sequences) - len(done)} of {len(self._sequences)} requests were lost")
        if self.completed + self.rejected != len(done):
            raise InvariantBroken(f"{self.completed} served and {self.rejected} refused do not make {len(done)}")
        due = sum(sequence.output for sequence in done if sequence.emitted)
        if due != self.tokens:
            raise InvariantBroken(f"{self.tokens} tokens were emitted where {due} were asked for")
        return Visits(
            _integers(sequence.class_index for sequence in done),
            _integers(sequence.prompt for sequence in done),
            _integers(sequence.output for sequence in done),
            np.array([sequence.arrival_s for sequence in done]),
            np.array([sequence.scheduled_s for sequence in done]),
            np.array([sequence.first_token_s for sequence in done]),
            np.array([sequence.last_token_s for sequence in done]),
            _integers(sequence.preemptions for sequence in done),
            _integers(sequence.cached for sequence in done),
            _integers(sequence.drawn for sequence in done),
        )


class PartRecorder(Recorder):
    """Recorder of one model among several: its own counts and gaps; requests are numbered and kept by the whole."""

    def __init__(self, whole: Recorder) -> None:
        super().__init__(0, whole.sink)
        self._whole = whole

    def complete(self, sequence: Sequence) -> None:
        """Take a request that emitted its last token."""
        self._whole.complete(sequence)
        self.completed += 1

    def reject(self, sequence: Sequence) -> None:
        """Take a request that is refused at its arrival."""
        self._whole.reject(sequence)
        self.rejected += 1


def _integers(values: object) -> IntArray:
    return np.fromiter(values, dtype=np.int64)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True)
class Mark:
    """Running totals at one instant; the difference of two marks is what happened between them."""

    time_s: float
    tokens: int
    completed: int
    preemptions: int
    gap_count: int
    decoding_seconds: float
    block_seconds: float
    state_seconds: float
    counts: tuple[object, ...]
    idle_byte_seconds: float = 0.0


class TimeSum:
    """Integral over time of a number that changes at events."""

    def __init__(self) -> None:
        self.value = 0
        self.area = 0.0
        self._since_s = 0.0

    def change(self, by: int, now_s: float) -> None:
        """Add `by` from now on."""
        self.integrate(now_s)
        self.value += by

    def integrate(self, now_s: float) -> None:
        """Book the time since the last change."""
        if math.isnan(now_s) or now_s < self._since_s:
            raise InvariantBroken(f"time ran from {self._since_s} s to {now_s} s")
        self.area += self.value * (now_s - self._since_s)
        self._since_s = now_s
