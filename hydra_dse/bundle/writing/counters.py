"""Counters of a trace: queue, batch and cache of every engine; power and tokens of all of them added up.

What adds up is told in order of time, and the end of an iteration is known before it is its time: changes wait.
"""

from __future__ import annotations

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.files import TIMELINE, TraceFiles, microseconds, nanoseconds
from hydra_dse.records import IterationSpan, PassedSpan


class Counters:
    """The counters of a run.

    Attributes:
        watts: by engine, and static ones, after the last change that was told.
    """

    def __init__(self) -> None:
        self.watts: dict[str, float] = {}
        self._watts_due: list[tuple[int, str, float]] = []
        self._emitted_due: list[tuple[int, int]] = []
        self._emitted = 0

    def add(self, files: TraceFiles, span: IterationSpan | PassedSpan, label: str) -> None:
        """Take an iteration of an engine."""
        start, end = nanoseconds(span.start_s), nanoseconds(span.end_s)
        values = {"queue": span.waiting, "batch": span.batch, "cache_share": span.cache_share}
        for name, value in values.items():
            _tell(files, name, {label: float(value)}, start)
        if not self._emitted_due and not self._emitted:
            _tell(files, words.TOKENS, {"all": 0}, start)
        watts = span.energy_j / (span.end_s - span.start_s) if span.end_s > span.start_s else 0.0
        self._watts_due += [(start, label, watts), (end, label, 0.0)]
        self._emitted_due.append((end, span.emitted_tokens))

    def settle(self, files: TraceFiles, time_ns: int | None) -> None:
        """Tell every change before an instant; None = all that are left."""
        due = sorted((each for each in self._watts_due if time_ns is None or each[0] < time_ns), key=_time)
        self._watts_due = [each for each in self._watts_due if time_ns is not None and each[0] >= time_ns]
        for number, (start, label, watts) in enumerate(due):
            self.watts[label] = watts
            if number + 1 == len(due) or due[number + 1][0] > start:
                _tell(files, words.POWER, dict(self.watts), start)
        emitted = sorted(each for each in self._emitted_due if time_ns is None or each[0] < time_ns)
        self._emitted_due = [each for each in self._emitted_due if time_ns is not None and each[0] >= time_ns]
        for at, tokens in emitted:
            self._emitted += tokens
            if tokens:
                _tell(files, words.TOKENS, {"all": self._emitted}, at)


def _tell(files: TraceFiles, name: str, values: dict[str, float], start_ns: int) -> None:
    event = {"ph": "C", "name": name, "pid": names.COUNTERS, "tid": 0, "ts": microseconds(start_ns), "args": values}
    files.add(event, start_ns, 0, (TIMELINE, 0))


def _time(change: tuple[int, str, float]) -> int:
    return change[0]
