"""Whether the traces of a bundle of ours are what the original tools, HTA, Perfetto and the Chakra exporter read.

Every row of the table of needed fields for JSON traces is a rule here; beyond it events of a track must nest, time must
not run back on a track, flows must meet, and a collective must be on all of its ranks with equal arguments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.writing.files import nanoseconds, rank_file
from hydra_dse.errors import Fault, InputError

MOST = 100
"""Faults after which the check stops."""
PHASES = ("X", "M", "C", "i", "s", "f", "t")
COLLECTIVE_NAMES = ("allreduce", "_allgather_base", "_reduce_scatter_base", "all_to_allv", "sendrecv", "broadcast")
_STEP = re.compile(rf"{words.SERVING_STEP}(\d+)$")
LEAST_STEPS = 4

Event = dict[str, Any]
Said = tuple[str, tuple[object, ...]]
Collective = tuple[Said, set[int]]
"""Ranks and arguments of a collective, and the ranks it was found on."""


def events_of(path: Path) -> Iterator[Event]:
    """Yield the events of a trace that we wrote, one line each.

    Raises:
        InputError: missing or not written so.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            head = next(stream, "")
            if '"traceEvents": [' not in head:
                raise InputError(Fault("the first line opens no object with traceEvents", file=str(path), line=1))
            for number, line in enumerate(stream, 2):
                text = line.rstrip("\n").rstrip(",")
                if text == "]}":
                    return
                try:
                    event = json.loads(text)
                except ValueError as error:
                    raise InputError(Fault(f"no event: {error}", file=str(path), line=number)) from None
                yield event
    except OSError as error:
        raise InputError(Fault(f"cannot be read: {error.strerror or error}", file=str(path))) from None
    raise InputError(Fault("is cut off: the list of events has no end", file=str(path)))


def check_traces(folder: str | Path) -> list[Fault]:
    """Every fault of the rank traces of a bundle, at most `MOST`; empty for a good one.

    Raises:
        InputError: no rank traces there, or one that is no trace.
    """
    place = Path(folder)
    ranks = len(list(place.glob("rank*_trace.json")))
    if not ranks:
        raise InputError(Fault("has no file rank<N>_trace.json", file=str(folder)))
    found: list[Fault] = []
    collectives: dict[int, Collective] = {}
    for rank in range(ranks):
        check = _RankCheck(place / rank_file(rank), rank, collectives)
        found.extend(check.faults())
        if len(found) >= MOST:
            return found[:MOST]
    for number, ((group, _), on) in sorted(collectives.items()):
        if str(sorted(on)) != group:
            found.append(Fault(f"collective {number} of ranks {group} is on {sorted(on)}", file=str(folder)))
    return found[:MOST]


class _RankCheck:
    """The rules of one file."""

    def __init__(self, path: Path, rank: int, collectives: dict[int, Collective]) -> None:
        self.path, self.rank, self.collectives = path, rank, collectives
        self.open: dict[tuple[int, int], list[int]] = {}
        self.last: dict[tuple[int, int], int] = {}
        self.named: set[int] = set()
        self.steps: list[int] = []
        self.kernels = 0
        self.flows: dict[object, int] = {}

    def faults(self) -> Iterator[Fault]:
        """Yield every fault."""
        for number, event in enumerate(events_of(self.path), 2):
            for message in self._event(event):
                yield Fault(message, file=str(self.path), line=number)
        for message in self._whole():
            yield Fault(message, file=str(self.path))

    def _whole(self) -> Iterator[str]:
        if self.kernels and len(self.steps) < LEAST_STEPS:
            yield f"{len(self.steps)} markers {words.SERVING_STEP}<i>; tools need {LEAST_STEPS}"
        if self.steps != sorted(self.steps):
            yield f"markers {words.SERVING_STEP}<i> are not in order"
        if self.kernels and self.rank not in self.named:
            yield f"process {self.rank} has no name"
        yield from (f"flow {number} begins or ends alone" for number, ends in self.flows.items() if ends != 0)

    def _event(self, event: Event) -> Iterator[str]:
        phase = event.get("ph")
        if phase not in PHASES:
            yield f"phase {phase!r} is none of {', '.join(PHASES)}"
            return
        if phase == "M":
            if event.get("name") == "process_name":
                self.named.add(event["pid"])
            return
        if not isinstance(event.get("name"), str) or not _number(event.get("ts")):
            yield "an event needs a name and a ts in µs as numbers"
            return
        if not all(isinstance(event.get(key), int) for key in ("pid", "tid")):
            yield "pid and tid must be whole numbers"
            return
        yield from self._in_order(event)
        if phase in ("s", "f"):
            self.flows[event["id"]] = self.flows.get(event["id"], 0) + (1 if phase == "s" else -1)
        if phase == "X":
            yield from self._complete(event)

    def _in_order(self, event: Event) -> Iterator[str]:
        track, start = (event["pid"], event["tid"]), nanoseconds(event["ts"] / 1e6)
        if event["ph"] != "X":
            return
        if start < self.last.get(track, start):
            yield f"time runs back on track {track}"
        self.last[track] = start
        if not _number(event.get("dur")) or event["dur"] < 0:
            yield "a complete event needs a dur ≥ 0 in µs as a number"
            return
        end = start + nanoseconds(event["dur"] / 1e6)
        stack = self.open.setdefault(track, [])
        while stack and stack[-1] <= start:
            stack.pop()
        if stack and end > stack[-1]:
            yield f"{event['name']!r} does not nest on track {track}"
        stack.append(end)

    def _complete(self, event: Event) -> Iterator[str]:
        kind, args = event.get("cat"), event.get("args", {})
        if kind == words.ANNOTATION:
            match = _STEP.match(event["name"])
            if match:
                self.steps.append(int(match.group(1)))
        elif kind == words.MEMCPY:
            if not _whole(args.get("bytes")):
                yield "a copy needs args.bytes as a whole number"
        elif kind == words.KERNEL:
            self.kernels += 1
            yield from self._kernel(event, args)

    def _kernel(self, event: Event, args: Event) -> Iterator[str]:
        if event["pid"] != self.rank:
            yield f"a kernel of process {event['pid']} in the trace of rank {self.rank}"
        if args.get("stream") != event["tid"]:
            yield "a kernel's args.stream must be its tid"
        if event["name"].startswith(words.COLLECTIVE_PREFIX):
            yield from self._collective(args)
        elif not _number(args.get("blocks per SM")) or not (_whole(args.get("flops")) and _whole(args.get("bytes"))):
            yield 'a compute kernel needs args "blocks per SM", flops and bytes'

    def _collective(self, args: Event) -> Iterator[str]:
        if args.get("Collective name") not in COLLECTIVE_NAMES:
            yield f'args."Collective name" {args.get("Collective name")!r} is unknown to the tools'
        if not (_whole(args.get("In msg nelems")) and args["In msg nelems"] > 0 and _whole(args.get("Out msg nelems"))):
            yield 'a collective needs args "In msg nelems" > 0 and "Out msg nelems"'
        if args.get("dtype") not in words.DTYPE_BYTES:
            yield f"args.dtype {args.get('dtype')!r} is unknown: the tools drop the event"
        ranks, number = args.get("Process Group Ranks"), args.get("External id")
        if not isinstance(ranks, str) or not isinstance(number, int):
            yield 'a collective needs args "Process Group Ranks" as text and "External id" as a whole number'
            return
        if args.get("Group size") != len(json.loads(ranks)):
            yield 'args."Group size" is not the number of "Process Group Ranks"'
        keys = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "Group size")
        said = (ranks, tuple(args.get(key) for key in keys))
        known, on = self.collectives.setdefault(number, (said, set()))
        if known != said:
            yield f"collective {number} has other arguments than on rank {min(on)}"
        if self.rank in on:
            yield f"collective {number} is twice on rank {self.rank}"
        on.add(self.rank)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
