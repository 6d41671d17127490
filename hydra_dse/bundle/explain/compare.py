"""Why one bundle beats another: a waterfall of their times, after a look at whether they did equal work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hydra_dse.bundle.conventions import BLOCK
from hydra_dse.bundle.explain.breakdown import DECODE, MIXED, PREFILL, REQUEST, STEP, Breakdown, Phase, section
from hydra_dse.errors import Fault, InputError

TOLERANCE = 0.1
"""Steps whose work differs by less than this share are compared as they are."""


@dataclass(frozen=True)
class Row:
    """One step of the waterfall, in s per step (or per token)."""

    phase: str
    name: str
    a_s: float
    b_s: float
    binding_a: str
    binding_b: str

    @property
    def difference_s(self) -> float:
        """What B takes more."""
        return self.b_s - self.a_s


@dataclass(frozen=True)
class EqualWork:
    """Whether two bundles did the same work.

    Attributes:
        equal: None where a bundle does not say what it did.
        reasons: what differs, or is not said.
        normalised_by: what the times are per, where they are not per step.
    """

    equal: bool | None
    reasons: tuple[str, ...]
    normalised_by: str | None = None


@dataclass(frozen=True)
class Lever:
    """What would change the order: a segment of the slower one, and by which factor it would have to be faster."""

    phase: str
    segment: str
    binding: str
    factor: float


@dataclass(frozen=True)
class Comparison:
    """A waterfall from A to B.

    Attributes:
        totals: (A, B) by phase, in s.
        binding: resource and share of the time that it binds, by phase, for A and for B.
        overlap: share of communication hidden by computation in A and in B: it ranks nothing, and is here to show so.
    """

    a: str
    b: str
    rows: tuple[Row, ...]
    totals: dict[str, tuple[float, float]]
    equal_work: EqualWork
    binding: dict[str, tuple[tuple[str, float], tuple[str, float]]]
    levers: tuple[Lever, ...]
    overlap: tuple[float | None, float | None]
    notes: tuple[str, ...] = ()

    def faster(self, phase: str) -> str:
        """Name of the one that takes less time in a phase; empty where none does."""
        a, b = self.totals[phase]
        return "" if a == b else (self.a if a < b else self.b)


def compare(a: Breakdown, b: Breakdown, normalise: bool = False) -> Comparison:
    """Return the waterfall of two bundles.

    Args:
        a: one bundle.
        b: the other.
        normalise: divide the times by the tokens that they processed where their work differs.

    Raises:
        InputError: they did different work and are not to be normalised, or no phase is in both.
    """
    phases = [name for name in (PREFILL, DECODE, MIXED, STEP) if name in a.phases and name in b.phases]
    if not phases:
        message = f"{a.label} has {_listed(a)}, {b.label} has {_listed(b)}: nothing to compare"
        raise InputError(Fault(message))
    reasons = [*_differences(a, b), *(reason for name in phases for reason in _unequal_steps(name, a, b))]
    if reasons and not normalise:
        message = f"{a.label} and {b.label} did different work: {'; '.join(reasons)}; --normalise divides by tokens"
        raise InputError(Fault(message))
    unknown = tuple(reason for side in (a, b) for reason in _unsaid(side))
    per = "token processed" if reasons else None
    if per and any(side.phases[name].tokens <= 0 for side in (a, b) for name in phases):
        raise InputError(Fault("cannot be normalised: a trace does not say how many tokens its steps processed"))
    rows = [row for name in phases for row in _rows(name, a.phases[name], b.phases[name], per is not None)]
    totals = {name: (_per(a.phases[name], per is not None), _per(b.phases[name], per is not None)) for name in phases}
    rows += _request_rows(a, b)
    return Comparison(
        a.label,
        b.label,
        tuple(rows),
        totals,
        EqualWork(None, unknown) if unknown and not reasons else EqualWork(not reasons, tuple(reasons), per),
        {name: (a.phases[name].busiest(), b.phases[name].busiest()) for name in phases},
        tuple(_levers(rows, totals)),
        (a.overlap, b.overlap),
        tuple(_notes(a, b)),
    )


def _listed(side: Breakdown) -> str:
    return ", ".join(f"{phase.iterations} × {name}" for name, phase in side.phases.items())


def _per(phase: Phase, by_tokens: bool) -> float:
    return phase.seconds / (phase.tokens if by_tokens else phase.iterations)


def _rows(name: str, a: Phase, b: Phase, by_tokens: bool) -> Iterator[Row]:
    counts = [phase.tokens if by_tokens else phase.iterations for phase in (a, b)]
    for segment in dict.fromkeys((*a.segments, *b.segments)):
        first, second = (phase.segments.get(segment, 0.0) / count for phase, count in zip((a, b), counts, strict=True))
        yield Row(name, segment, first, second, a.binding(segment), b.binding(segment))


def _request_rows(a: Breakdown, b: Breakdown) -> list[Row]:
    """What a mean request spends before its first token outside of iterations."""
    waits = [_queueing(side) for side in (a, b)]
    if waits[0] is None or waits[1] is None:
        return []
    return [Row(REQUEST, "queueing", waits[0], waits[1], "engine slots and memory", "engine slots and memory")]


def _queueing(side: Breakdown) -> float | None:
    whole, scheduled = side.metrics.get("ttft_mean_s"), side.metrics.get("ttft_scheduled_mean_s")
    return None if whole is None or scheduled is None else whole - scheduled


def _differences(a: Breakdown, b: Breakdown) -> Iterator[str]:
    """What the cards say of the work; what one of them does not say differs from nothing."""
    if not a.card or not b.card:
        return
    models = [_model(side) for side in (a, b)]
    if models[0] != models[1]:
        yield f"models {models[0]} and {models[1]}"
    phases = [_section(side, "model").get("phase", "unknown") for side in (a, b)]
    if phases[0] != phases[1]:
        yield f"phases {phases[0]} and {phases[1]}"
    work = [_unit_of_work(side) for side in (a, b)]
    if work[0].get("workload_sha256") != work[1].get("workload_sha256"):
        counts = [f"{each.get('requests', 'unknown')} requests" for each in work]
        yield f"other requests ({counts[0]} and {counts[1]})"
    if not any(work):
        data = [_section(side, "data") for side in (a, b)]
        for key in ("batch_size", "seq_len", "input_len", "output_len"):
            if data[0].get(key) != data[1].get(key):
                yield f"{key} {data[0].get(key)} and {data[1].get(key)}"


def _unsaid(side: Breakdown) -> Iterator[str]:
    """What a bundle does not say of its work."""
    if not side.card:
        yield f"{side.label} has no card"
    elif not _unit_of_work(side):
        missing = [key for key in ("batch_size", "seq_len") if _section(side, "data").get(key) is None]
        missing += [] if _section(side, "model").get("model_family") else ["model_family"]
        if missing:
            yield f"the card of {side.label} does not say {' and '.join(missing)}"


def _section(side: Breakdown, name: str) -> Mapping[str, Any]:
    return section(side.card, "workload", name)


def _unit_of_work(side: Breakdown) -> Mapping[str, Any]:
    return section(side.card, BLOCK, "unit_of_work")


def _model(side: Breakdown) -> str:
    model = _section(side, "model")
    return f"{model.get('model_family', 'unknown')} ({model.get('precision', 'unknown')})"


def _unequal_steps(name: str, a: Breakdown, b: Breakdown) -> Iterator[str]:
    first, second = a.phases[name], b.phases[name]
    for what in ("sequences", "tokens", "context"):
        each = [getattr(phase, what) / phase.iterations for phase in (first, second)]
        if what == "tokens" and min(each) <= 0.0:
            continue  # not said
        if max(each) > 0.0 and abs(each[0] - each[1]) > TOLERANCE * max(each):
            yield f"{each[0]:.4g} and {each[1]:.4g} {what} a {name}"


def _levers(rows: list[Row], totals: dict[str, tuple[float, float]]) -> Iterator[Lever]:
    """Segments of the slower one that alone, faster by some factor, would bring both level."""
    for name, (a, b) in totals.items():
        gap = abs(a - b)
        slower_is_a = a > b
        for row in rows:
            seconds = row.a_s if slower_is_a else row.b_s
            if row.phase == name and gap > 0.0 and seconds > gap:
                binding = row.binding_a if slower_is_a else row.binding_b
                yield Lever(name, row.name, binding, seconds / (seconds - gap))


def _notes(a: Breakdown, b: Breakdown) -> Iterator[str]:
    for side in (a, b):
        if side.approximate:
            yield f"{side.label}: segments by overlap of the events of rank 0; what limits each is not in the trace"
        if side.skipped:
            yield f"{side.label}: {side.skipped} events left out: no name, or no time or duration that is a number"
