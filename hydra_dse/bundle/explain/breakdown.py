"""Where the time of the iterations of a trace goes: segments of our traces, or overlap in foreign ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.explain.overlap import hidden_share, parts_of_step
from hydra_dse.bundle.writing import names
from hydra_dse.bundle.writing.bundle import METRICS
from hydra_dse.bundle.writing.check import Event, events_of
from hydra_dse.bundle.writing.files import rank_file
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import Fault, InputError

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
    """

    label: str
    phases: Mapping[str, Phase]
    card: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    overlap: float | None
    approximate: bool


def read_breakdown(folder: str | Path) -> Breakdown:
    """Read a bundle, of ours or foreign.

    Raises:
        InputError: no trace there, or none with markers of iterations.
    """
    place = Path(folder)
    trace = place / rank_file(0)
    if not trace.is_file():
        raise InputError(Fault(f"has no {rank_file(0)}; give the folder of a bundle", file=str(folder)))
    card_file = place / f"{place.resolve().name}.yaml"
    card = _card(card_file)
    metrics_file = place / METRICS
    metrics = json.loads(metrics_file.read_text(encoding="utf-8")).get("metrics", {}) if metrics_file.is_file() else {}
    events = list(_steps_and_segments(trace))
    ours = any(event.get("cat") == names.SEGMENT for event in events)
    phases = _from_segments(events) if ours else _from_overlap(events)
    if not phases:
        raise InputError(Fault("has no markers of iterations (execute_context_… or ProfilerStep#…)", file=str(trace)))
    return Breakdown(place.resolve().name, phases, card, metrics, _hidden(events), not ours)


def _card(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    try:
        return load_yaml(file).data
    except (InputError, yaml.YAMLError):
        return {}


def _steps_and_segments(trace: Path) -> Iterator[Event]:
    """Events that a breakdown needs; ours one line at a time, a foreign file at once."""
    wanted = {names.SEGMENT, names.OPERATOR, words.KERNEL, words.MEMCPY, words.ANNOTATION}
    with trace.open(encoding="utf-8") as stream:
        head = stream.readline()
    found: Iterable[Event]
    if '"schemaVersion": 1' in head and head.endswith('"traceEvents": [\n'):
        found = events_of(trace)
    else:
        try:
            data = json.loads(trace.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(Fault(f"is no JSON trace: {error}", file=str(trace))) from None
        found = data.get("traceEvents", ()) if isinstance(data, dict) else data
    for event in found:
        if event.get("ph") == "X" and event.get("cat") in wanted:
            yield event


def _from_segments(events: Iterable[Event]) -> dict[str, Phase]:
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


def _from_overlap(events: list[Event]) -> dict[str, Phase]:
    """Steps of a foreign trace; what is hidden is charged to nothing."""
    phase = Phase()
    for event in events:
        marker = event["cat"] == words.ANNOTATION
        if marker and event["name"].startswith((words.SERVING_STEP, words.TRAINING_STEP)):
            phase.iterations += 1
            phase.seconds += event["dur"] / 1e6
            for name, seconds in parts_of_step(events, event["ts"], event["ts"] + event["dur"]).items():
                phase.add(name, seconds, name)
    return {STEP: phase} if phase.iterations else {}


def _hidden(events: list[Event]) -> float | None:
    """Share of the communication of rank 0 under which it computes (`compute_comm_overlap` of the original)."""
    return hidden_share([event for event in events if event["cat"] == words.KERNEL])
