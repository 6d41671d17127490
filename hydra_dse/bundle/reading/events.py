"""The events of a rank that take time, cleaned of what is none: for readers that need events, not columns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_dse.bundle.reading.meaning import number
from hydra_dse.bundle.reading.stream import EventStream


@dataclass(frozen=True)
class TimedEvents:
    """Complete events of the categories asked for, in the order of the file.

    Attributes:
        events: dicts with `cat` and `name` (text), `ts` and `dur` (finite, in µs, dur ≥ 0), `args` (a dict) and
            whatever else the file says; an event says its `tid` as a whole number or not at all.
        skipped: how many of these categories had no name, or no time or duration that is a number.
    """

    events: tuple[dict[str, Any], ...]
    skipped: int


def timed_events(path: str | Path, categories: Collection[str]) -> TimedEvents:
    """Read the complete events of some categories from a trace, plain or gzipped.

    Raises:
        InputError: the file cannot be read, or is not JSON.
    """
    found: list[dict[str, Any]] = []
    skipped = 0
    for events in EventStream(path):
        for event in events:
            if type(event) is not dict or event.get("ph") != "X":
                continue
            category = event.get("cat")
            if type(category) is not str or category not in categories:
                continue
            start, duration, name = number(event.get("ts")), number(event.get("dur")), event.get("name")
            if start is None or duration is None or duration < 0 or not isinstance(name, str):
                skipped += 1
                continue
            arguments, track = event.get("args"), event.get("tid")
            event.update(ts=start, dur=duration, args=arguments if type(arguments) is dict else {})
            if type(track) is not int:
                event.pop("tid", None)
            found.append(event)
    return TimedEvents(tuple(found), skipped)
