"""One trace file held against the rules, in one pass; kept of it are four numbers an event that lasts."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.reading.meaning import collective_kind, number
from hydra_dse.bundle.reading.nouns import Column
from hydra_dse.bundle.reading.stream import EventStream
from hydra_dse.errors import Fault

MOST = 5
"""Faults told of one rule in one file; all are counted."""

_DEVICE = (words.KERNEL, words.MEMCPY, words.MEMSET)
_STEP = re.compile(r"ProfilerStep#(\d{1,15})$")
Group = str


@dataclass
class Notes:
    """Faults by rule."""

    faults: dict[str, list[Fault]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, rule: str, message: str, file: str, event: int | None = None) -> None:
        """Note a fault; of the same rule and file only the first few are kept."""
        self.counts[rule] += 1
        kept = self.faults.setdefault(rule, [])
        if sum(fault.file == file for fault in kept) < MOST:
            kept.append(Fault(message, file, path=None if event is None else f"event {event}"))


class FileCheck:
    """The rules of one file."""

    def __init__(self, file: Path, notes: Notes) -> None:
        self.file, self.notes = file, notes
        self.track, self.start, self.end, self.event = Column("q"), Column(), Column(), Column("q")
        self.tracks: dict[tuple[int, int], int] = {}
        self.latest: dict[int, float] = {}
        self.kernels = 0
        self.process: object = None
        self.steps: dict[str, list[tuple[float, float]]] = {}
        self.calls: list[tuple[float, Group, str, object]] = []
        self.count = 0

    def fault(self, rule: str, message: str, event: bool = True) -> None:
        """Note a fault, of the event at hand or of the file."""
        self.notes.add(rule, message, str(self.file), self.count if event else None)

    def read(self) -> None:
        """Go through the file."""
        stream = EventStream(self.file)
        for events in stream:
            for event in events:
                self.count += 1
                self._event(event)
        if not stream.is_object:
            self.fault("traceEvents", "the top level is a bare list; the tools need an object", event=False)
        elif "traceEvents" in stream.header or not self.count:
            self.fault("traceEvents", "no list 'traceEvents' with events at the top level", event=False)
        if stream.truncated:
            self.fault("traceEvents", stream.truncated, event=False)
        if self.kernels:
            self._steps()
        self._nesting()

    def _event(self, event: object) -> None:
        if not isinstance(event, dict):
            return self.fault("ph", f"is no object but {str(event)[:20]!r}")
        phase = event.get("ph")
        if phase in ("B", "E"):
            return self.fault("ph", f"phase {phase!r}: only complete events ('X') are read")
        if not isinstance(phase, str):
            return self.fault("ph", f"phase {phase!r} is no text")
        return self._complete(event) if phase == "X" else None

    def _complete(self, event: dict[str, Any]) -> None:
        name, category = event.get("name"), event.get("cat")
        if not isinstance(name, str):
            return self.fault("name", f"name {name!r} is no text")
        if category is not None and not isinstance(category, str):
            return self.fault("cat", f"category {category!r} is no text")
        start, duration = number(event.get("ts")), number(event.get("dur"))
        if start is None or duration is None or duration < 0:
            return self.fault("ts, dur", f"ts {event.get('ts')!r} and dur {event.get('dur')!r} are no times in µs")
        self._place(event, category, start, duration)
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        if category == words.KERNEL:
            self._kernel(event, name, arguments, start)
        elif category == words.MEMCPY and not _whole(arguments.get("bytes"), 0):
            self.fault("bytes", f"args.bytes {arguments.get('bytes')!r} is no whole number")
        elif category == words.ANNOTATION:
            self._marker(name, start)
        return None

    def _place(self, event: dict[str, Any], category: str | None, start: float, duration: float) -> None:
        process, thread = event.get("pid"), event.get("tid")
        if type(thread) is not int or abs(thread) > 2**62:
            if category in _DEVICE:
                self.fault("tid", f"tid {thread!r} is no whole number")
            return
        track = self.tracks.setdefault((_key(process), thread), len(self.tracks))
        for column, value in zip(
            (self.track, self.start, self.end, self.event),
            (track, start, start + duration, self.count),
            strict=True,
        ):
            column.values.append(value)
        if category in _DEVICE:
            if start < self.latest.get(track, start):
                self.fault("monotone time", f"starts at {start:.10g} µs, after an event of its track that starts later")
            self.latest[track] = max(start, self.latest.get(track, start))

    def _kernel(self, event: dict[str, Any], name: str, arguments: dict[str, Any], start: float) -> None:
        self.kernels += 1
        process = event.get("pid")
        if not _whole(process, None):
            self.fault("pid", f"pid {process!r} is no whole number")
        elif self.process is not None and process != self.process:
            self.fault("pid", f"pid {process!r} beside {self.process!r} in one file")
        else:
            self.process = process
        if not _whole(arguments.get("stream"), None):
            self.fault("stream", f"args.stream {arguments.get('stream')!r} is no whole number")
        if name.startswith("nccl") or collective_kind(name, arguments.get("Collective name")) is not None:
            self._collective(name, arguments, start)
        elif number(arguments.get("blocks per SM")) is None:
            self.fault("blocks per SM", f"args.'blocks per SM' {arguments.get('blocks per SM')!r} is no number")

    def _collective(self, name: str, arguments: dict[str, Any], start: float) -> None:
        said = arguments.get("Collective name")
        if not isinstance(said, str) or not said:
            self.fault("Collective name", f"args.'Collective name' {said!r} is no text")
        for key, least in (("In msg nelems", 1), ("Out msg nelems", 0), ("Group size", 1)):
            if not _whole(arguments.get(key), least):
                self.fault(key, f"args.{key!r} {arguments.get(key)!r} is no whole number of at least {least}")
        if str(arguments.get("dtype")) not in words.DTYPE_BYTES:
            self.fault("dtype", f"args.dtype {arguments.get('dtype')!r} is no type that the tools know")
        ranks = arguments.get("Process Group Ranks")
        if not isinstance(ranks, str) or not ranks.startswith("["):
            self.fault("Process Group Ranks", f"args.'Process Group Ranks' {ranks!r} is no text like '[0, 1]'")
            return
        kind = collective_kind(name, said) or name
        self.calls.append((start, ranks, kind, arguments.get("External id")))

    def _marker(self, name: str, start: float) -> None:
        found = _STEP.match(name)
        if found:
            self.steps.setdefault(words.TRAINING_STEP, []).append((start, float(found.group(1))))
        elif name.startswith(words.SERVING_STEP):
            self.steps.setdefault(words.SERVING_STEP, []).append((start, 0.0))

    def _steps(self) -> None:
        training, serving = (self.steps.get(kind, []) for kind in (words.TRAINING_STEP, words.SERVING_STEP))
        if training:
            numbers = [step for _, step in sorted(training)]
            if len(numbers) < 3:
                self.fault("ProfilerStep#N", f"{len(numbers)} markers; the first and last are dropped", event=False)
            if any(later <= earlier for earlier, later in pairwise(numbers)):
                self.fault("ProfilerStep#N", "the numbers do not increase in time", event=False)
        elif len(serving) < 4:
            self.fault("execute_context_*", f"{len(serving)} markers; expected at least 4", event=False)

    def _nesting(self) -> None:
        start, end, track, event = (column.array() for column in (self.start, self.end, self.track, self.event))
        order = np.lexsort((-end, start, track))
        # Times of day in µs have a spacing of a quarter; sums of start and duration are off by as much.
        slack = 1e-3 + (4 * float(np.spacing(np.abs(end).max())) if len(end) else 0.0)
        current, open_until = -1, list[float]()
        rows = zip(
            track[order].tolist(), start[order].tolist(), end[order].tolist(), event[order].tolist(), strict=True
        )
        for where, first, last, self.count in rows:
            if where != current:
                current, open_until = where, []
            while open_until and open_until[-1] <= first + slack:
                open_until.pop()
            if open_until and last > open_until[-1] + slack:
                self.fault("nesting", f"overlaps an event of its track that ends at {open_until[-1]:.10g} µs")
            open_until.append(last)

    def sequences(self) -> dict[Group, list[tuple[str, object]]]:
        """The collectives of each group in the order of their start."""
        found: dict[Group, list[tuple[str, object]]] = {}
        for _, group, kind, identity in sorted(self.calls, key=lambda call: call[0]):
            found.setdefault(group, []).append((kind, identity))
        return found


def _whole(value: object, least: int | None) -> bool:
    return type(value) is int and abs(value) < 2**62 and (least is None or value >= least)


def _key(process: object) -> int:
    """A number for any process id; texts, as of host processes, get one below zero."""
    return process if type(process) is int else -1 - zlib.crc32(repr(process).encode())
