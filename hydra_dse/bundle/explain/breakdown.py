"""Where the time of the iterations of a trace goes: segments of our traces, or overlap in foreign ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.cards import read_card
from hydra_dse.bundle.explain.overlap import device_spans, hidden_share, parts_of_step
from hydra_dse.bundle.reading import TraceFolder, card_of, open_folder, timed_events
from hydra_dse.bundle.reading.folder import read_json
from hydra_dse.bundle.reading.meaning import marker_kind, number
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.bundle import METRICS
from hydra_dse.bundle.writing.files import Event, rank_file
from hydra_dse.errors import Fault, InputError

_CATEGORIES = {names.SEGMENT, names.OPERATOR, words.KERNEL, words.MEMCPY, words.ANNOTATION, words.PYTHON}
DECODE, PREFILL, MIXED, STEP, REQUEST = "decode step", "prefill step", "mixed step", "step", "request"
"""Kinds of iterations (of foreign traces all are steps), and what requests spend outside of them."""


@dataclass
class Phase:
    """All iterations of one kind.

    Attributes:
        seconds: of all of them; `segments`: the same by segment; `bindings`: seconds by segment and resource.
        sequences, tokens, context: sums over iterations of the decoding sequences, of the tokens processed, and of the
            tokens attended to.
    """

    iterations: int = 0
    seconds: float = 0.0
    sequences: float = 0.0
    tokens: float = 0.0
    context: float = 0.0
    segments: dict[str, float] = field(default_factory=dict)
    bindings: dict[str, dict[str, float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float, binding: str) -> None:
        """Add time to a segment."""
        self.segments[name] = self.segments.get(name, 0.0) + seconds
        by = self.bindings.setdefault(name, {})
        by[binding] = by.get(binding, 0.0) + seconds

    def binding(self, name: str) -> str:
        """The resource that most of a segment waits for; none for a segment that does not occur."""
        found = self.bindings.get(name, {})
        return max(found, key=lambda resource: found[resource]) if found else ""

    def busiest(self) -> tuple[str, float]:
        """The resource that binds most of the time, and its share."""
        total: dict[str, float] = {}
        for by in self.bindings.values():
            for resource, seconds in by.items():
                total[resource] = total.get(resource, 0.0) + seconds
        if not total or self.seconds <= 0.0:
            return "", 0.0
        resource = max(total, key=lambda name: total[name])
        return resource, total[resource] / self.seconds


@dataclass(frozen=True)
class Breakdown:
    """Where the time of one bundle goes.

    Attributes:
        label: its name.
        phases: by kind of iteration.
        card: of the bundle, empty where it has none.
        metrics: of the whole run, where known.
        overlap: share of communication that computation hides, None where there is none.
        approximate: whether segments come from overlap of events instead of the simulator.
        skipped: events without a name, a time or a duration.
    """

    label: str
    phases: Mapping[str, Phase]
    card: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    overlap: float | None
    approximate: bool
    skipped: int = 0


def section(data: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """A mapping in a card, empty where there is none."""
    for key in path:
        inner = data.get(key)
        data = inner if isinstance(inner, Mapping) else {}
    return data


def read_breakdown(folder: str | Path) -> Breakdown:
    """Read a bundle, of ours or foreign.

    Raises:
        InputError: no trace there, one that is none, or none with markers of iterations.
    """
    place = open_folder(folder)
    card = _card(place.path)
    if not place.ranks:
        raise InputError(Fault(_no_trace(place, card), file=str(folder)))
    trace = place.ranks[0]
    found = timed_events(trace, _CATEGORIES)
    ours = any(event["cat"] == names.SEGMENT for event in found.events)
    try:
        phases = _from_segments(found.events) if ours else _from_overlap(found.events, card)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"its segments are not those of this version ({type(error).__name__}: {error})"
        raise InputError(Fault(message, file=str(trace))) from error
    if not phases:
        message = "has no markers of iterations (execute_context_…, ProfilerStep#… or run_batch)"
        if found.skipped:
            message += f"; {found.skipped} events have no name, or no time or duration that is a number"
        raise InputError(Fault(message, file=str(trace)))
    hidden = _hidden(found.events)
    return Breakdown(place.name, phases, card, _metrics(place.path), hidden, not ours, found.skipped)


def _no_trace(place: TraceFolder, card: Mapping[str, Any]) -> str:
    """Why a folder cannot be explained."""
    missing = section(card, words.BLOCK).get("traces_missing")
    if missing:
        return f"has no traces: {missing}"
    others = "; Nsight exports and TPU traces are not explained" if place.databases or place.others else ""
    return f"has no {rank_file(0)} or kineto_trace_0.json{others}; give the folder of a bundle"


def _card(folder: Path) -> Mapping[str, Any]:
    try:
        return read_card(card_of(folder)).document.data
    except InputError:
        return {}


def _metrics(folder: Path) -> Mapping[str, float | None]:
    """Numbers of the whole run, empty where the bundle has none."""
    data = read_json(folder / METRICS)
    told = data.get("metrics") if isinstance(data, dict) else None
    return {name: number(value) for name, value in told.items()} if isinstance(told, dict) else {}


def _from_segments(events: Sequence[Event]) -> dict[str, Phase]:
    phases: dict[str, Phase] = {}
    kinds: dict[int, str] = {}
    for event in events:
        if event["cat"] == names.OPERATOR and event["name"].startswith(words.SERVING_STEP):
            args = event["args"]
            kind = MIXED if args["prefill_tokens"] and args["decode_sequences"] else DECODE
            kind = PREFILL if not args["decode_sequences"] else kind
            kinds[int(event["name"].removeprefix(words.SERVING_STEP))] = kind
            phase = phases.setdefault(kind, Phase())
            phase.iterations += 1
            phase.seconds += event["dur"] / 1e6
            phase.sequences += args["decode_sequences"]
            phase.tokens += args["prefill_tokens"] + args["decode_sequences"]
            phase.context += args["decode_context_tokens"]
    for event in events:
        if event["cat"] == names.SEGMENT:
            args = event["args"]
            phases[kinds[args["iteration"]]].add(_segment(event["name"]), event["dur"] / 1e6, args["binding"])
    return phases


def _segment(name: str) -> str:
    """Communication before and after an operator is one segment by its collective."""
    for side in (names.GATHER, names.REDUCE):
        if name.startswith(f"{side}: "):
            return f"communication: {name.removeprefix(f'{side}: ')}"
    return name


def _from_overlap(events: Sequence[Event], card: Mapping[str, Any]) -> dict[str, Phase]:
    """Steps of a foreign trace; what is hidden is charged to nothing."""
    phase = Phase()
    spans = device_spans(events)
    tokens = _tokens_of_step(card)
    for event in events:
        if marker_kind(event["cat"], event["name"]) is not None:
            phase.iterations += 1
            phase.seconds += event["dur"] / 1e6
            phase.tokens += tokens
            for name, seconds in parts_of_step(spans, event["ts"], event["ts"] + event["dur"]).items():
                phase.add(name, seconds, name)
    return {STEP: phase} if phase.iterations else {}


def _tokens_of_step(card: Mapping[str, Any]) -> float:
    """Tokens of a training step by its card, 0 where that does not say (a serving step's are not in a card)."""
    model, data = (section(card, "workload", name) for name in ("model", "data"))
    batch, length = (number(data.get(name)) for name in ("batch_size", "seq_len"))
    if model.get("phase") != "training" or batch is None or length is None:
        return 0.0
    return max(0.0, batch * length)


def _hidden(events: Sequence[Event]) -> float | None:
    """Share of the communication of rank 0 under which it computes (`compute_comm_overlap` of the original)."""
    return hidden_share([event for event in events if event["cat"] == words.KERNEL])
