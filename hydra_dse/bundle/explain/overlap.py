"""Intervals of a trace: what computes, what communicates, and what of it shows."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.metrics.measured import COMMUNICATION

Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The same set of instants as disjoint intervals in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return found


def minus(intervals: Sequence[Interval], hidden: Sequence[Interval]) -> list[Interval]:
    """What of disjoint intervals lies outside other disjoint intervals; both in order."""
    left: list[Interval] = []
    first = 0
    for start, end in intervals:
        while first < len(hidden) and hidden[first][1] <= start:
            first += 1
        at, number = start, first
        while number < len(hidden) and hidden[number][0] < end:
            if hidden[number][0] > at:
                left.append((at, hidden[number][0]))
            at = max(at, hidden[number][1])
            number += 1
        if at < end:
            left.append((at, end))
    return left


def length(intervals: Iterable[Interval]) -> float:
    """Sum of lengths."""
    return sum(end - start for start, end in intervals)


@dataclass(frozen=True)
class DeviceSpans:
    """Kernels and copies of a rank by what they do, each in order of its start, in µs.

    Attributes:
        by_name: `"compute"`, `"copies"`, or `"communication: <collective>"` → spans.
        reach: for each of them the longest duration, so that those of a window are found.
    """

    by_name: Mapping[str, Sequence[Interval]]
    reach: Mapping[str, float]

    def within(self, name: str, start: float, end: float) -> list[Interval]:
        """What of the spans of a name lies in a window."""
        spans = self.by_name.get(name, ())
        first = bisect.bisect_left(spans, (start - self.reach.get(name, 0.0), 0.0))
        last = bisect.bisect_left(spans, (end, 0.0))
        cut = ((max(start, each[0]), min(end, each[1])) for each in spans[first:last])
        return [each for each in cut if each[1] > each[0]]


def device_spans(events: Iterable[Mapping[str, Any]]) -> DeviceSpans:
    """Sort kernels and copies by what they do."""
    found: dict[str, list[Interval]] = {}
    for event in events:
        if event["cat"] not in (words.KERNEL, words.MEMCPY):
            continue
        name = "compute"
        if event["cat"] == words.MEMCPY:
            name = "copies"
        elif COMMUNICATION.search(event["name"]):
            name = f"communication: {_collective(event)}"
        found.setdefault(name, []).append((event["ts"], event["ts"] + event["dur"]))
    for spans in found.values():
        spans.sort()
    return DeviceSpans(found, {name: max(end - start for start, end in spans) for name, spans in found.items()})


def parts_of_step(spans: DeviceSpans, start: float, end: float) -> dict[str, float]:
    """Seconds of a step (µs from `start` to `end`): computation, what shows of communication and copies, the rest."""
    seen = union(spans.within("compute", start, end))
    parts = {"compute": length(seen)}
    for name in sorted(spans.by_name):
        if name != "compute":
            showing = minus(union(spans.within(name, start, end)), seen)
            parts[name] = length(showing)
            seen = union([*seen, *showing])
    parts["host and idle"] = (end - start) - length(seen)
    return {name: value / 1e6 for name, value in parts.items() if value > 0.0}


def _collective(event: Mapping[str, Any]) -> str:
    name = str(event["name"]).removeprefix(words.COLLECTIVE_PREFIX).split("(")[0]
    return re.split(r"_(?=RING|TREE|Sum|NVLS)", name)[0]


def hidden_share(kernels: Iterable[Mapping[str, Any]]) -> float | None:
    """Communication under which computation runs, as a share of it; None without communication."""
    compute: list[Interval] = []
    communication: list[Interval] = []
    for event in kernels:
        span = (event["ts"], event["ts"] + event["dur"])
        (communication if COMMUNICATION.search(event["name"]) else compute).append(span)
    total = union(communication)
    if not total:
        return None
    return 1.0 - length(minus(total, union(compute))) / length(total)
