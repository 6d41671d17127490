"""Spans: what happened inside the iterations of a trace window, operator by operator, and on every link and memory.

A simulator emits them only to a sink that has a window (`SpanSink`); a run without one pays nothing.  All times are
in seconds from the start of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from hydra_dse.records.nouns import RecordSink


@dataclass(frozen=True)
class TraceWindow:
    """Which iterations leave spans.

    The window opens with an iteration that has prompts, so that the first one of a trace is a prefill.

    Attributes:
        unit: of `start` and `length`: `"iterations"` (the length counts those of every engine) or `"seconds"`.
        start: earliest opening from the start of the run; None = the end of the warm-up.
        length: how long it stays open.
        least: iterations of every engine that are taken even where the sink is full.
    """

    unit: str = "iterations"
    start: float | None = None
    length: float = 8
    least: int = 4


class Resource(NamedTuple):
    """A directed link or a memory site: its name and what it carries at most, in bytes/s."""

    kind: str
    name: str
    peak_bytes_per_s: float


class PackageLayout(NamedTuple):
    """What spans refer to by number.

    Attributes:
        dies: name of each compute component.
        resources: memory sites, then links.
        activation_bytes: of one element of activations.
        static_power_w: of the whole package.
    """

    dies: tuple[str, ...]
    resources: tuple[Resource, ...]
    activation_bytes: float
    static_power_w: float


class IterationSpan(NamedTuple):
    """One iteration of an engine.

    Attributes:
        number: among the iterations of the window.
        model: served, where there are several.
        dies: component numbers of all dies that took part.
        batch: sequences in service; waiting: requests in the queue at its start.
        cache_share: of the cache memory in use at its start.
        energy_j: dynamic energy.
        stretch: its duration over that of its operators executed alone; 1 where they were executed as they were.
        host_s: before its first operator.
        drained_s: when its last operator had passed on its result; writes may end later.
    """

    number: int
    pool: str
    engine: int
    model: str
    start_s: float
    end_s: float
    dies: tuple[int, ...]
    prefill_tokens: int
    prefill_sequences: int
    decode_sequences: int
    decode_context_tokens: int
    emitted_tokens: int
    batch: int
    waiting: int
    cache_share: float
    energy_j: float
    stretch: float
    host_s: float
    drained_s: float


class PassedSpan(NamedTuple):
    """Iterations of an engine in the time of the window of which nothing but this is known.

    They came after the engine had had its share of the window, or began before it opened (then from there on).

    Attributes:
        early: whether they began before the window opened.
        batch, waiting, cache_share, energy_j: as in `IterationSpan`, at the first of them and of all of them.
        emitted_tokens: output tokens at their end.
    """

    pool: str
    engine: int
    model: str
    start_s: float
    end_s: float
    early: bool
    batch: int
    waiting: int
    cache_share: float
    emitted_tokens: int
    energy_j: float


class OperatorSpan(NamedTuple):
    """One operator of an iteration, with the instants at which it went on.

    Between the instants: waits for dies, gathers activations, fixed overhead, computes while operands stream in, passes
    its result on, waits for what it writes.

    Attributes:
        kind: class of the operator.
        block: number of its block; position: its own number in the iteration.
        compute_s: time of its slowest die without waiting for data; `unit`: what bounds that (`"matmul"`, `"vector"`
            or `"sram"`), `die`: name of its die group.
        matmul_flops, vector_flops: of all dies.
        weight_bytes, kv_bytes, state_bytes: read from memory.
        work: share of each die; weight_share, cache_share: shares of the bytes read by each die.
        memory_binding: resource that its reads keep busy longest, -1 where it reads nothing.
        gather, reduce: kind of the transfers before and after it, empty where there is none; gather_binding,
            reduce_binding: the resource that they keep busy longest.
    """

    iteration: int
    name: str
    kind: str
    block: int
    dies: tuple[int, ...]
    start_s: float
    acquired_s: float
    gathered_s: float
    began_s: float
    computed_s: float
    reduced_s: float
    ended_s: float
    compute_s: float
    unit: str
    die: str
    matmul_flops: float
    vector_flops: float
    weight_bytes: float
    kv_bytes: float
    state_bytes: float
    work: tuple[float, ...]
    weight_share: tuple[float, ...]
    cache_share: tuple[float, ...]
    memory_binding: int
    gather: str
    gather_binding: int
    reduce: str
    reduce_binding: int
    position: int = 0


class TransferSpan(NamedTuple):
    """Bytes of one operand of one operator on their way.

    Attributes:
        what: `"weights"`, `"kv"`, `"state"`, or the kind of a transfer of activations (`"gather"`, `"reduce"`, …).
        write: to memory.
        dies: that send or receive; lane: transfers of one kind that overlap have different ones.
        binding: the resource that it keeps busy longest.
        position: of its operator in the iteration.
        moves: source, target and bytes, of what goes from die to die (`"forward"` and `"stage"`).
    """

    iteration: int
    operator: str
    what: str
    write: bool
    start_s: float
    end_s: float
    bytes: float
    dies: tuple[int, ...]
    lane: int
    binding: int
    position: int = 0
    moves: tuple[tuple[int, int, float], ...] = ()


class ResourceSpan(NamedTuple):
    """Bytes that crossed a link or a memory site; spans of one resource and lane do not overlap."""

    resource: int
    lane: int
    start_s: float
    end_s: float
    bytes: float
    busy_s: float


class HandoffSpan(NamedTuple):
    """Caches of a request on their way from the prefill to the decode pool (no time: handed over by pointer)."""

    request: int
    start_s: float
    end_s: float
    bytes: float


Span = IterationSpan | PassedSpan | OperatorSpan | TransferSpan | ResourceSpan | HandoffSpan


@runtime_checkable
class SpanSink(RecordSink, Protocol):
    """A sink that wants spans too.

    Attributes:
        window: when.
    """

    window: TraceWindow

    @property
    def full(self) -> bool:
        """Whether no more is wanted than `window.least` iterations of every engine."""

    def layout(self, layout: PackageLayout) -> None:
        """Take what spans refer to, before the first of them."""

    def span(self, span: Span) -> None:
        """Take a finished span; those of an iteration come when it has ended, its own first."""

    def settled(self, time_s: float) -> None:
        """Take notice that no later span starts before this instant."""
