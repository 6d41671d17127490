"""Spans of a run as trace events, written while the run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.collectives import collective_args
from hydra_dse.bundle.writing.counters import Counters
from hydra_dse.bundle.writing.files import TIMELINE, Event, TraceFiles, microseconds, nanoseconds
from hydra_dse.bundle.writing.requests import request_events
from hydra_dse.bundle.writing.segments import segments_of
from hydra_dse.bundle.writing.tracks import Tracks, name_process
from hydra_dse.bundle.writing.work import RequestedWork, WindowWork
from hydra_dse.errors import InvariantBroken
from hydra_dse.records import (
    HandoffSpan,
    IterationBlock,
    IterationRecord,
    IterationSpan,
    OperatorSpan,
    PackageLayout,
    PassedSpan,
    ResourceSpan,
    Span,
    TraceWindow,
    TransferSpan,
    Visit,
)

MOST_BYTES = 32e6
"""Size of the traces of a bundle at which its window closes, unless another is given."""


class TraceSink:
    """A span sink that writes the traces of a bundle.

    Args:
        folder: of the bundle; it exists.
        window: which iterations leave spans.
        most_bytes: of all files; once they are that large, only the iterations that tools need are added.
    """

    def __init__(self, folder: Path, window: TraceWindow, most_bytes: float = MOST_BYTES) -> None:
        self.window = window
        self._most_bytes = most_bytes
        self.work = WindowWork()
        self._folder = folder
        self._files: TraceFiles | None = None
        self._layout = PackageLayout((), (), 2.0, 0.0)
        self._tracks = Tracks()
        self._counters = Counters()
        self._visits: list[Visit] = []
        self._iterations: dict[int, IterationSpan] = {}
        self._ends: dict[float, tuple[int, int]] = {}
        self._collectives = self._arrows = 0
        self._before: dict[int, int] = {}
        self._requested = RequestedWork()

    # -- records ----------------------------------------------------------------------------------------------

    def layout(self, layout: PackageLayout) -> None:
        """Open the files."""
        self._layout = layout
        self._files = files = TraceFiles(self._folder, len(layout.dies))
        for rank, name in enumerate(layout.dies):
            name_process(files, rank, f"{name} (rank {rank})", rank, (TIMELINE, rank))
        for order, (process, name) in enumerate(names.PROCESSES.items()):
            name_process(files, process, name, order - len(names.PROCESSES), (TIMELINE, 0))
        self._counters.watts["static"] = layout.static_power_w

    @property
    def full(self) -> bool:
        """Whether the files are as large as they may be."""
        return self.taken_bytes >= self._most_bytes

    @property
    def taken_bytes(self) -> int:
        """Size of the events so far, in all files."""
        return 0 if self._files is None else self._files.taken_bytes

    @property
    def files(self) -> TraceFiles:
        """The open files."""
        if self._files is None:
            raise InvariantBroken("spans came before the layout of the package")
        return self._files

    def visit(self, record: Visit) -> None:
        """Keep a visit that the window may see."""
        self._requested.add(record)
        if self.work.iterations == 0 or record.arrival_s <= self.work.end_s:
            self._visits.append(record)

    def iteration(self, record: IterationRecord) -> None:
        """Drop it: spans say more."""

    def iteration_block(self, block: IterationBlock) -> None:
        """Drop it."""

    def settled(self, time_s: float) -> None:
        """Write what is due."""
        self._counters.settle(self.files, nanoseconds(time_s))
        self.files.settle(nanoseconds(time_s))

    def span(self, span: Span) -> None:
        """Write a span."""
        if isinstance(span, OperatorSpan):
            self._operator(span)
        elif isinstance(span, TransferSpan):
            self._transfer(span)
        elif isinstance(span, ResourceSpan):
            self._resource(span)
        elif isinstance(span, IterationSpan):
            self._iteration(span)
        elif isinstance(span, PassedSpan):
            self.work.passes(span)
            self._counters.add(self.files, span, _label(span))
        else:
            self._handoff(span)

    def close(self, compress: bool = False) -> dict[str, str]:
        """Finish the files and return their digests by name; none where the run never began."""
        if self._files is None:
            return {}
        for event, start, length in self._request_events():
            self.files.add(event, start, length, (TIMELINE, 0))
        self._counters.settle(self.files, None)
        return self._files.close(compress)

    def arrivals(self) -> str:
        """All requests as a trace that can be replayed (CSV; arrivals on the clock of the run)."""
        return self._requested.as_table()

    def unit_of_work(self) -> dict[str, object]:
        """All requests of the run, for the card."""
        return self._requested.as_block()

    @property
    def mean_lengths(self) -> tuple[float, float]:
        """Mean prompt and output tokens of the requests; 0 where there were none."""
        return self._requested.mean_lengths

    # -- events -----------------------------------------------------------------------------------------------

    def _add(self, event: Event, start_s: float, end_s: float, files: tuple[int, ...]) -> None:
        """Add a complete event; one that would last less than a nanosecond is left out."""
        start, end = nanoseconds(start_s), nanoseconds(end_s)
        if end > start:
            times = {"ts": microseconds(start), "dur": microseconds(end - start)}
            self.files.add({"ph": "X", **event, **times}, start, end - start, files)

    def _track(self, process: int, name: str, files: tuple[int, ...]) -> int:
        return self._tracks.number(self.files, process, name, files)

    def _iteration(self, span: IterationSpan) -> None:
        self.work.add(span)
        self._iterations = {n: it for n, it in self._iterations.items() if it.end_s > span.start_s}
        self._before = {n: end for n, end in self._before.items() if n in self._iterations}
        self._iterations[span.number] = span
        label = _label(span)
        name = f"{words.SERVING_STEP}{span.number}"
        args = {
            "pool": span.pool, "engine": span.engine, "prefill_tokens": span.prefill_tokens,
            "prefill_sequences": span.prefill_sequences, "decode_sequences": span.decode_sequences,
            "decode_context_tokens": span.decode_context_tokens, "emitted_tokens": span.emitted_tokens,
            "stretch": span.stretch, "host_s": span.host_s, "energy_j": span.energy_j, "model": span.model,
        }  # fmt: skip
        event = {"name": name, "cat": words.ANNOTATION}
        for rank in span.dies:
            files = (TIMELINE, rank)
            track = self._track(rank, f"steps of {label}", files)
            self._add({**event, "pid": rank, "tid": track, "args": args}, span.start_s, span.end_s, files)
        track = self._track(names.ENGINES, label, (TIMELINE, 0))
        # On the engines' own track it has another category: tools count the markers of a rank.
        whole = {"name": name, "cat": names.OPERATOR, "pid": names.ENGINES, "tid": track, "args": args}
        self._add(whole, span.start_s, span.end_s, (TIMELINE, 0))
        self._ends[span.end_s] = (track, nanoseconds(span.start_s))
        binding = {"iteration": span.number, "binding": names.HOST}
        self._segment(track, names.HOST, span.start_s, span.start_s + span.host_s, binding)
        self._segment(track, names.DRAIN, span.drained_s, span.end_s, {**binding, "binding": "writes"})
        self._counters.add(self.files, span, label)

    def _segment(self, track: int, name: str, start_s: float, end_s: float, args: dict[str, object]) -> None:
        event = {"name": name, "cat": names.SEGMENT, "pid": names.ENGINES, "tid": track, "args": args}
        self._add(event, start_s, end_s, (TIMELINE, 0))

    def _operator(self, span: OperatorSpan) -> None:
        iteration = self._iterations[span.iteration]
        label = _label(iteration)
        track = self._track(names.ENGINES, label, (TIMELINE, 0))
        args = {"iteration": span.iteration, "kind": span.kind, "block": span.block}
        event = {"name": span.name, "cat": names.OPERATOR, "pid": names.ENGINES, "tid": track, "args": args}
        self._add(event, span.start_s, span.ended_s, (TIMELINE, 0))
        self._arrow(span, track)
        for part in segments_of(span, self._layout):
            self._segment(track, part.name, part.start_s, part.end_s, part.args)
        self._kernels(span, label)
        self.work.flops += span.matmul_flops + span.vector_flops

    def _arrow(self, span: OperatorSpan, track: int) -> None:
        """A flow from the operator that this one waited for, in the timeline alone."""
        start, end = nanoseconds(span.start_s), nanoseconds(span.ended_s)
        if end <= start:
            return
        source = self._before.get(span.iteration)
        if source is not None:
            self._arrows += 1
            about = {
                "cat": names.DEPENDENCY,
                "name": "operator",
                "id": self._arrows,
                "pid": names.ENGINES,
                "tid": track,
            }
            for event, time in (({"ph": "s", **about}, source), ({"ph": "f", "bp": "e", **about}, start)):
                self.files.add({**event, "ts": microseconds(time)}, time, 0, (TIMELINE,))
        # Just before its end, so that viewers bind the arrow to this operator and not to the next.
        self._before[span.iteration] = end - 1

    def _kernels(self, span: OperatorSpan, label: str) -> None:
        length = span.computed_s - span.gathered_s
        busy = min(1.0, span.compute_s / length) if length > 0.0 else 0.0
        for at, rank in enumerate(span.dies):
            files = (TIMELINE, rank)
            track = self._track(rank, f"compute of {label}", files)
            cached = (span.kv_bytes + span.state_bytes) * span.cache_share[at]
            args = {
                "stream": track, "blocks per SM": round(busy, 6),
                "flops": round((span.matmul_flops + span.vector_flops) * span.work[at]),
                "bytes": round(span.weight_bytes * span.weight_share[at] + cached),
                "unit": span.unit, "iteration": span.iteration, "position": span.position,
            }  # fmt: skip
            event = {"name": span.name, "cat": words.KERNEL, "pid": rank, "tid": track, "args": args}
            self._add(event, span.gathered_s, span.computed_s, files)

    def _transfer(self, span: TransferSpan) -> None:
        label = _label(self._iterations[span.iteration])
        if span.what in names.COLLECTIVES:
            self._collective(span, label)
            return
        way = "write" if span.write else "read"
        copies = span.what != "weights"
        for rank in span.dies:
            name = f"{span.what} {way} of {label}" + (f" ({span.lane})" if span.lane else "")
            track = self._track(rank, name, (rank,))
            args = {
                "stream": track, "bytes": round(span.bytes / len(span.dies)), "operator": span.operator,
                "iteration": span.iteration, "position": span.position,
            }  # fmt: skip
            event = {
                "name": f"Memcpy DtoD ({span.what} {way})" if copies else "weights",
                "cat": words.MEMCPY if copies else names.WEIGHTS, "pid": rank, "tid": track, "args": args,
            }  # fmt: skip
            self._add(event, span.start_s, span.end_s, (rank,))

    def _collective(self, span: TransferSpan, label: str) -> None:
        self._collectives += 1
        kernel, _ = names.COLLECTIVES[span.what]
        for rank in span.dies:
            files = (TIMELINE, rank)
            track = self._track(rank, f"collectives of {label}", files)
            args = {"stream": track, **collective_args(span, rank, self._layout.activation_bytes, self._collectives)}
            event = {"name": kernel, "cat": words.KERNEL, "pid": rank, "tid": track, "args": args}
            self._add(event, span.start_s, span.end_s, files)

    def _resource(self, span: ResourceSpan) -> None:
        resource = self._layout.resources[span.resource]
        process = names.MEMORIES if resource.kind == "memory" else names.LINKS
        suffix = f" ({span.lane})" if span.lane else ""
        track = self._track(process, resource.name + suffix, (TIMELINE, 0))
        args = {
            resource.kind: resource.name, "bytes": round(span.bytes),
            "peak_bytes_per_s": resource.peak_bytes_per_s, "busy_us": round(span.busy_s * 1e6, 3),
        }  # fmt: skip
        kind = words.MEMORY if resource.kind == "memory" else words.LINK
        event = {"name": resource.name, "cat": kind, "pid": process, "tid": track, "args": args}
        self._add(event, span.start_s, span.end_s, (TIMELINE, 0))

    def _handoff(self, span: HandoffSpan) -> None:
        track = self._track(names.ENGINES, f"hand-off {span.request % 64}", (TIMELINE, 0))
        args = {"request": span.request, "bytes": round(span.bytes)}
        event = {"name": "hand-off", "cat": words.MEMCPY, "pid": names.ENGINES, "tid": track, "args": args}
        self._add(event, span.start_s, span.end_s, (TIMELINE, 0))

    def _request_events(self) -> Iterator[tuple[Event, int, int]]:
        work = self.work
        if work.iterations:
            yield from request_events(self._visits, (work.start_s, work.end_s), self._ends, self._lane)

    def _lane(self, number: int) -> int:
        return self._track(names.REQUESTS, f"requests {number}", (TIMELINE, 0))


def _label(span: IterationSpan | PassedSpan) -> str:
    """Name of an engine."""
    model = f" {span.model}" if span.model else ""
    return f"{span.pool} {span.engine}{model}"
