"""What a run leaves behind: dates of every request, gaps between tokens, and counts at the marks of its window."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.records.nouns import RecordSink, Visit
from simulators.serving.gaps import GapLog
from simulators.serving.sequence import Sequence

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]


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


ABSENT, SERVED, REFUSED = 0, 1, 2


class Recorder:
    """Collects the dates of requests in columns and passes finished visits on to a sink.

    A column holds a number per request, 4 or 8 bytes each: a million requests take 60 MB.
    """

    def __init__(self, requests: int, sink: RecordSink | None) -> None:
        self.sink = sink
        self.tokens = 0
        self.completed = 0
        self.rejected = 0
        self.gaps = GapLog()
        self._state = bytearray(requests)
        self._dates = tuple(array("d", [math.nan]) * requests for _ in range(4))
        self._counts = tuple(array("i", [0]) * requests for _ in range(6))

    def complete(self, sequence: Sequence) -> None:
        """Take a request that emitted its last token; each may come once."""
        if self._state[sequence.request] != ABSENT:
            raise InvariantBroken(f"request {sequence.request} was served twice")
        if sequence.emitted != sequence.output:
            raise InvariantBroken(
                f"request {sequence.request} ended with {sequence.emitted} of {sequence.output} tokens"
            )
        dates = (sequence.arrival_s, sequence.scheduled_s, sequence.first_token_s, sequence.last_token_s)
        if not dates[0] <= dates[1] <= dates[2] <= dates[3]:
            raise InvariantBroken(f"the dates of request {sequence.request} are out of order: {dates}")
        self.completed += 1
        self._keep(sequence, SERVED, dates)

    def reject(self, sequence: Sequence) -> None:
        """Take a request that is refused at its arrival."""
        if self._state[sequence.request] != ABSENT:
            raise InvariantBroken(f"request {sequence.request} came twice")
        self.rejected += 1
        self._keep(sequence, REFUSED, (sequence.arrival_s, math.nan, math.nan, math.nan))

    def _keep(self, sequence: Sequence, state: int, dates: tuple[float, float, float, float]) -> None:
        at = sequence.request
        self._state[at] = state
        for column, date in zip(self._dates, dates, strict=True):
            column[at] = date
        prompt, output, preemptions = sequence.prompt, sequence.output, sequence.preemptions
        counts = (sequence.class_index, prompt, output, preemptions, sequence.cached, sequence.drawn)
        for whole, count in zip(self._counts, counts, strict=True):
            whole[at] = count
        if self.sink is not None:
            self.sink.visit(
                Visit(
                    at,
                    sequence.class_index,
                    prompt,
                    output,
                    *dates,
                    preemptions,
                    sequence.decode_s,
                    sequence.cached,
                )
            )

    def visits(self) -> Visits:
        """Return the dates of all requests.

        Raises:
            InvariantBroken: a request was lost, or tokens were.
        """
        state = np.frombuffer(self._state, dtype=np.uint8)
        lost = int((state == ABSENT).sum())
        if lost:
            raise InvariantBroken(f"{lost} of {len(state)} requests were lost")
        if self.completed + self.rejected != len(state):
            raise InvariantBroken(f"{self.completed} served and {self.rejected} refused do not make {len(state)}")
        kind, prompt, output, *others = (np.frombuffer(column, dtype=np.int32) for column in self._counts)
        due = int(output[state == SERVED].sum())
        if due != self.tokens:
            raise InvariantBroken(f"{self.tokens} tokens were emitted where {due} were asked for")
        arrival, scheduled, first, last = (np.frombuffer(column) for column in self._dates)
        preemptions, cached, drawn = others
        return Visits(kind, prompt, output, arrival, scheduled, first, last, preemptions, cached, drawn)


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


@dataclass(frozen=True)
class Mark:
    """Running totals at one instant; the difference of two marks is what happened between them.

    Attributes:
        handed_over: cached tokens of the requests whose hand-off by transfer has ended, and their number.
        role_changes: number of changes of roles by (state before, state after).
    """

    time_s: float
    tokens: int
    completed: int
    preemptions: int
    decoding_seconds: float
    block_seconds: float
    state_seconds: float
    counts: tuple[object, ...]
    idle_byte_seconds: float = 0.0
    handed_over: tuple[int, int] = (0, 0)
    role_changes: tuple[tuple[tuple[int, int], int], ...] = ()


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
