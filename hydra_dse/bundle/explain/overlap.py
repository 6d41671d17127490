"""Intervals of a trace: what computes, what communicates, and what of it shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from hydra_dse.bundle import conventions as words

Interval = tuple[float, float]

COMMUNICATES = re.compile(r"nccl|allreduce|all_reduce|all_gather|allgather|reduce_scatter|broadcast|sendrecv", re.I)


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


def parts_of_step(events: Iterable[dict[str, Any]], start: float, end: float) -> dict[str, float]:
    """Seconds of a step (µs from `start` to `end`): computation, what shows of communication and copies, the rest."""
    compute: list[Interval] = []
    others: dict[str, list[Interval]] = {}
    for event in events:
        if event["cat"] not in (words.KERNEL, words.MEMCPY):
            continue
        span = (max(start, event["ts"]), min(end, event["ts"] + event["dur"]))
        if span[1] <= span[0]:
            continue
        if event["cat"] == words.MEMCPY:
            others.setdefault("copies", []).append(span)
        elif COMMUNICATES.search(event["name"]):
            others.setdefault(f"communication: {_collective(event)}", []).append(span)
        else:
            compute.append(span)
    seen = union(compute)
    parts = {"compute": length(seen)}
    for name in sorted(others):
        showing = minus(union(others[name]), seen)
        parts[name] = length(showing)
        seen = union([*seen, *showing])
    parts["host and idle"] = (end - start) - length(seen)
    return {name: value / 1e6 for name, value in parts.items() if value > 0.0}


def _collective(event: dict[str, Any]) -> str:
    name = str(event["name"]).removeprefix(words.COLLECTIVE_PREFIX).split("(")[0]
    return re.split(r"_(?=RING|TREE|Sum|NVLS)", name)[0]


def hidden_share(kernels: Iterable[dict[str, Any]]) -> float | None:
    """Communication under which computation runs, as a share of it; None without communication."""
    compute: list[Interval] = []
    communication: list[Interval] = []
    for event in kernels:
        span = (event["ts"], event["ts"] + event["dur"])
        (communication if COMMUNICATES.search(event["name"]) else compute).append(span)
    total = union(communication)
    if not total:
        return None
    return 1.0 - length(minus(total, union(compute))) / length(total)
