"""One rank's Chrome/Kineto JSON as columns."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.reading.meaning import COPY, collective_kind, marker_kind, number
from hydra_dse.bundle.reading.nouns import (
    COLLECTIVES,
    ENGINE_COPY,
    HOST_COPY,
    KERNEL_COPY,
    Carried,
    Collectives,
    Column,
    FloatArray,
    Names,
    RankTrace,
    Spans,
    Steps,
)
from hydra_dse.bundle.reading.stream import EventStream

_REDISTRIBUTION = "RedistributeBackward"
_CODES = {name: code for code, name in enumerate(COLLECTIVES)}


def read_rank(path: str | Path) -> RankTrace:
    """Read a trace file, plain or gzipped, in memory bounded by its kernels.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    stream, table = EventStream(path), _Columns()
    for events in stream:
        table.take(events)
    return table.trace(Path(path).name, stream)


class _Table:
    """Spans under construction, with further columns."""

    def __init__(self, *more: str) -> None:
        self.start, self.duration, self.name, self.stream = Column(), Column(), Column("i"), Column("q")
        self.more = {name: Column() for name in more}

    def add(self, start: float, duration: float, name: int, stream: int, *more: float) -> None:
        self.start.values.append(start)
        self.duration.values.append(duration)
        self.name.values.append(name)
        self.stream.values.append(stream)
        for column, value in zip(self.more.values(), more, strict=True):
            column.values.append(value)

    def spans(self) -> Spans:
        return Spans(self.start.array(), self.duration.array(), self.name.array(), self.stream.array())


class _Columns:
    """Events → columns."""

    def __init__(self) -> None:
        self.names = Names()
        self.kernels = _Table("blocks")
        self.kinds = Column("b")
        self.copies = _Table("bytes", "kind")
        self.moved = [Column("i"), Column(), Column(), Column(), Column()]
        self.steps: dict[str, list[tuple[float, float, float]]] = {}
        self.carried = {words.LINK: _Table("bytes", "peak"), words.MEMORY: _Table("bytes", "peak")}
        self.requests: list[tuple[str, int, float, float]] = []
        self.counters: dict[object, list[tuple[float, float]]] = {words.POWER: [], words.TOKENS: []}
        self.redistributions: list[tuple[float, float, float]] = []
        self.skipped: dict[str, int] = {}
        self.flops: float | None = None
        self._kept: set[object] = {
            None,
            words.KERNEL,
            words.MEMCPY,
            words.MEMSET,
            words.ANNOTATION,
            words.PYTHON,
            *self.carried,
        }

    def take(self, events: list[object]) -> None:
        """Add a list of events."""
        kept = self._kept
        for event in events:
            if type(event) is not dict:
                self._skip("not an object")
                continue
            phase = event.get("ph")
            if phase == "X":
                category = event.get("cat")
                if type(category) is not str and category is not None:
                    category = ""
                if category in kept:
                    self._span(event, category)
                else:
                    arguments = event.get("args")
                    if type(arguments) is dict and "bytes" in arguments:
                        self._other_copy(event, arguments)
                    if event.get("name") == _REDISTRIBUTION:
                        self._redistribution(event)
            elif phase == "i" and event.get("cat") == words.REQUEST:
                self._instant(event)
            elif phase == "C" and event.get("name") in (words.POWER, words.TOKENS):
                self._counter(event)

    def _span(self, event: dict[str, Any], category: str | None) -> None:
        name, start, duration = event.get("name"), number(event.get("ts")), number(event.get("dur"))
        if not isinstance(name, str):
            return self._skip("no name")
        if category in (words.ANNOTATION, words.PYTHON):
            return self._marker(category, name, start, duration)
        if start is None or duration is None or duration < 0:
            return self._skip("no time or duration")
        arguments = event.get("args")
        arguments = arguments if isinstance(arguments, dict) else {}
        code, track = self.names.code(name), event.get("tid")
        track = track if type(track) is int and abs(track) < 2**62 else -1
        if category == words.KERNEL:
            self._kernel(arguments, name, start, duration, code, track)
        elif category in (words.MEMCPY, words.MEMSET) or category is None:
            if category is not None or COPY.search(name):
                size = number(arguments.get("bytes"))
                self.copies.add(start, duration, code, track, math.nan if size is None else size, ENGINE_COPY)
        else:
            self._carry(category, arguments, name, start, duration, track)
        return None

    def _kernel(
        self, arguments: dict[str, Any], name: str, start: float, duration: float, code: int, track: int
    ) -> None:
        blocks = number(arguments.get("blocks per SM"))
        self.kernels.add(start, duration, code, track, math.nan if blocks is None else blocks)
        flops = number(arguments.get("flops"))
        if flops is not None:
            self.flops = (self.flops or 0.0) + flops
        kind = collective_kind(name, arguments.get("Collective name"))
        self.kinds.values.append(-1 if kind is None else _CODES[kind])
        if kind is not None:
            width = words.DTYPE_BYTES.get(str(arguments.get("dtype")), math.nan)
            sent, got = (number(arguments.get(key)) for key in ("In msg nelems", "Out msg nelems"))
            group = number(arguments.get("Group size"))
            row = (
                _CODES[kind],
                duration,
                math.nan if sent is None else sent * width,
                math.nan if got is None else got * width,
                math.nan if group is None else group,
            )
            for column, value in zip(self.moved, row, strict=True):
                column.values.append(value)
        elif COPY.search(name):
            size = number(arguments.get("bytes"))
            self.copies.add(start, duration, code, track, math.nan if size is None else size, KERNEL_COPY)

    def _other_copy(self, event: dict[str, Any], arguments: dict[str, Any]) -> None:
        """A copy in a category of its own counts for bandwidth, where it says its bytes."""
        name, start, duration = event.get("name"), number(event.get("ts")), number(event.get("dur"))
        size = number(arguments.get("bytes"))
        known = start is not None and duration is not None and duration > 0 and size is not None
        if known and isinstance(name, str) and COPY.search(name):
            self.copies.add(start or 0.0, duration or 0.0, self.names.code(name), -1, size or 0.0, HOST_COPY)

    def _redistribution(self, event: dict[str, Any]) -> None:
        start, duration = number(event.get("ts")), number(event.get("dur"))
        if start is not None:
            self.redistributions.append((start, start, duration or 0.0))

    def _marker(self, category: str, name: str, start: float | None, duration: float | None) -> None:
        kind = marker_kind(category, name)
        if kind is None:
            return
        order = start
        if kind == words.TRAINING_STEP:
            order = float(name.removeprefix(words.TRAINING_STEP)[:15])
        if start is None or duration is None or order is None:
            self._skip("step marker without time or duration")
            return
        self.steps.setdefault(kind, []).append((order, start, duration))

    def _carry(
        self, category: str, arguments: dict[str, Any], name: str, start: float, duration: float, track: int
    ) -> None:
        size, peak = number(arguments.get("bytes")), number(arguments.get("peak_bytes_per_s"))
        where = arguments.get(category)
        code = self.names.code(where if isinstance(where, str) else name)
        if size is None:
            return self._skip(f"{category} without bytes")
        return self.carried[category].add(start, duration, code, track, size, math.nan if peak is None else peak)

    def _instant(self, event: dict[str, Any]) -> None:
        arguments, name, at = event.get("args"), event.get("name"), number(event.get("ts"))
        request = arguments.get("request") if isinstance(arguments, dict) else None
        if type(request) is not int or at is None or not isinstance(name, str):
            return self._skip("request instant without number or time")
        key = "output_tokens" if name == words.LAST_TOKEN else "prompt_tokens"
        tokens = number(arguments.get(key)) if isinstance(arguments, dict) else None
        return self.requests.append((name, request, at, math.nan if tokens is None else tokens))

    def _counter(self, event: dict[str, Any]) -> None:
        arguments, at = event.get("args"), number(event.get("ts"))
        if at is None or not isinstance(arguments, dict):
            return self._skip(f"{event['name']} counter without time or values")
        values = [value for value in map(number, arguments.values()) if value is not None]
        return self.counters[event["name"]].append((at, sum(values)))

    def _skip(self, reason: str) -> None:
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def trace(self, label: str, stream: EventStream) -> RankTrace:
        """The finished columns."""
        said = stream.header.get("distributedInfo")
        world = said.get("world_size") if isinstance(said, dict) else None
        return RankTrace(
            label=label,
            names=self.names,
            kernels=self.kernels.spans(),
            kinds=self.kinds.array(),
            blocks_per_multiprocessor=self.kernels.more["blocks"].array(),
            copies=self.copies.spans(),
            copy_bytes=self.copies.more["bytes"].array(),
            copy_kind=self.copies.more["kind"].array().astype(int),
            collectives=self._collectives(),
            steps={kind: _steps(rows) for kind, rows in self.steps.items()},
            links=self._carried(words.LINK),
            memories=self._carried(words.MEMORY),
            requests=tuple(self.requests),
            power=self._levels(words.POWER),
            tokens=self._levels(words.TOKENS),
            world_size=world if isinstance(world, int) else None,
            flops=self.flops,
            skipped=self.skipped,
            truncated=stream.truncated,
            redistributions=_steps(self.redistributions) if self.redistributions else None,
        )

    def _levels(self, name: str) -> tuple[FloatArray, FloatArray] | None:
        """Times and values of a counter in order of time; of equal times the order of the file."""
        rows = np.array(sorted(self.counters[name], key=lambda row: row[0]), dtype=float).reshape(-1, 2)
        return (rows[:, 0], rows[:, 1]) if len(rows) else None

    def _collectives(self) -> Collectives:
        kind, duration, sent, got, group = (column.array() for column in self.moved)
        return Collectives(kind.astype(int), duration, sent, got, group)

    def _carried(self, category: str) -> Carried | None:
        table = self.carried[category]
        if not table.start.values:
            return None
        return Carried(table.spans(), table.more["bytes"].array(), table.more["peak"].array())


def _steps(rows: list[tuple[float, float, float]]) -> Steps:
    ordered = np.array(sorted(rows, key=lambda row: row[0]), dtype=float).reshape(-1, 3)
    return Steps(ordered[:, 1], ordered[:, 2])
