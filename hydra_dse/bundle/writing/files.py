"""Trace files: one per rank and a timeline of all, written in order of time in bounded memory, to the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

TIMELINE = -1
"""Number of the file that shows everything; all others are ranks."""
TIMELINE_FILE = "timeline/package_trace.json"

Event = dict[str, Any]


def rank_file(rank: int) -> str:
    """Name of the trace of a rank."""
    return f"rank{rank}_trace.json"


def nanoseconds(seconds: float) -> int:
    """Whole nanoseconds: what starts and ends together does so in the file as well."""
    return round(seconds * 1e9)


def microseconds(time_ns: int) -> float:
    """µs with three decimals, exactly as they are written."""
    return time_ns / 1000


class TraceFiles:
    """Open trace files.  Events wait until nothing earlier can come, so that time never runs back in a file.

    Args:
        folder: of the bundle; it exists.
        ranks: how many.
    """

    def __init__(self, folder: Path, ranks: int) -> None:
        self.folder, self.ranks = folder, ranks
        (folder / TIMELINE_FILE).parent.mkdir(exist_ok=True)
        self._files: dict[int, TextIO] = {}
        self._empty: dict[int, bool] = {}
        self._waiting: list[tuple[int, int, int, tuple[int, ...], str]] = []
        self._tickets = 0
        self.taken_bytes = 0
        for number in (TIMELINE, *range(ranks)):
            file = (folder / self.name(number)).open("w", encoding="utf-8", newline="\n")
            about = {"backend": "nccl", "rank": max(number, 0), "world_size": ranks}
            head = {"schemaVersion": 1, "displayTimeUnit": "ms", "distributedInfo": about}
            file.write(json.dumps(head)[:-1] + ', "traceEvents": [')
            self._files[number], self._empty[number] = file, True

    def name(self, number: int) -> str:
        """Name of a file in the folder."""
        return TIMELINE_FILE if number == TIMELINE else rank_file(number)

    def add(self, event: Event, start_ns: int, duration_ns: int, files: tuple[int, ...]) -> None:
        """Take an event for these files."""
        self._tickets += 1
        text = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        self.taken_bytes += len(text) * len(files)
        heapq.heappush(self._waiting, (start_ns, -duration_ns, self._tickets, files, text))

    def describe(self, event: Event, files: tuple[int, ...]) -> None:
        """Write a name of a process or thread at once: it has no time."""
        self._write(json.dumps(event, ensure_ascii=False, separators=(",", ":")), files)

    def settle(self, time_ns: int | None) -> None:
        """Write what starts before an instant; all that waits for None."""
        waiting = self._waiting
        while waiting and (time_ns is None or waiting[0][0] < time_ns):
            _, _, _, files, text = heapq.heappop(waiting)
            self._write(text, files)

    def _write(self, text: str, files: tuple[int, ...]) -> None:
        for number in files:
            self._files[number].write(("\n" if self._empty[number] else ",\n") + text)
            self._empty[number] = False

    def close(self, compress: bool = False) -> dict[str, str]:
        """Finish all files and return SHA-256 by name, the timeline first; `compress`: a `.gz` beside each."""
        self.settle(None)
        for file in self._files.values():
            file.write("\n]}\n")
            file.close()
        digests = {}
        for number in self._files:
            path = self.folder / self.name(number)
            digests[self.name(number)] = sha256(path)
            if compress:
                _compress(path)
        return digests


def sha256(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def digest_of(digests: Mapping[str, str]) -> str:
    """One digest of all traces of a bundle."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def _compress(path: Path) -> None:
    """A gzip file without a date, so that its bytes are the same every time."""
    with (
        path.open("rb") as plain,
        path.with_name(path.name + ".gz").open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed)
