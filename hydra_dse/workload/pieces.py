"""A workload that changes in time as a sequence of pieces within which it is taken as stationary.

A stationary workload is one piece.  Rates in steps and shifts of the mix give their own steps, a daily wave equal
slices of its period.  A replayed record is cut into windows of equally many requests: as many as leave `LEAST` in
each, at most `MOST`.  Rate, burstiness and lengths of a window are its own; its requests are kept as a path, so that
a queue that is fast against a window can follow the record instead of a fitted process.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from hydra_dse.workload import shifts as shifting
from hydra_dse.workload.nouns import Arrivals, ArrivalStatistics, FloatArray, IntArray, LengthPoints, Requests, Workload
from hydra_dse.workload.points import thin
from hydra_dse.workload.replay import Replay, digest
from hydra_dse.workload.sampling import arrival_statistics, joined_points, length_points, long_run_shares
from hydra_dse.workload.varying import Diurnal, Piecewise

LEAST = 1000
MOST = 12
POINTS = 300
"""Length points of a piece of several."""
IDLE = 1e-6
"""Rate of a step without arrivals, as a share of the mean rate: an estimate needs a rate above 0."""
LONGEST_PATH = 20_000
"""Requests that paths keep one by one; in longer records neighbours are joined."""


@dataclass(frozen=True)
class Path:
    """Recorded requests of a piece in order, neighbours joined where there are many.

    Attributes:
        gap_s: from the arrival before (of the piece before, for the first; 0 for the first of all).
        prompt_tokens: mean over the joined requests; count: how many they are.
    """

    gap_s: FloatArray
    prompt_tokens: FloatArray
    count: FloatArray


@dataclass(frozen=True)
class Piece:
    """A stretch of time with constant rate, burstiness and lengths.

    Attributes:
        share: of all requests.
        duration_s: how long it lasts; infinite for a stationary workload.
        arrivals, lengths: within the piece.
        class_shares: of the classes among its requests.
        path: the requests themselves where they are recorded.
    """

    share: float
    duration_s: float
    arrivals: ArrivalStatistics
    lengths: LengthPoints
    class_shares: tuple[float, ...] = (1.0,)
    path: Path | None = field(default=None, compare=False, repr=False)


def pieces(workload: Workload, cached_tokens: IntArray | None = None) -> tuple[Piece, ...]:
    """The pieces of a workload in order of time; one of infinite duration where it is stationary.

    `cached_tokens` of each recorded request are not computed: its lengths say so, and its path leaves them out.
    Those of the last few workloads, by identity, are remembered: task after task is estimated under the same.
    """
    if cached_tokens is not None:
        return _pieces(workload, cached_tokens)
    known = next((found for own, found in _remembered if own is workload), None)
    if known is None:
        known = _pieces(workload, None)
        _remembered.append((workload, known))
    return known


_remembered: deque[tuple[Workload, tuple[Piece, ...]]] = deque(maxlen=4)


def _pieces(workload: Workload, cached_tokens: IntArray | None) -> tuple[Piece, ...]:
    if workload.replay is not None and isinstance(workload.arrivals, Replay):
        cached = np.zeros(0, dtype=np.int64) if cached_tokens is None else cached_tokens
        return _windows(_Recorded(workload, workload.arrivals, workload.replay, cached))
    steps = _steps(workload.arrivals)
    phases = shifting.phases(workload)
    if len(steps) * len(phases) == 1:
        return (
            Piece(
                1.0,
                np.inf,
                arrival_statistics(workload),
                length_points(workload),
                long_run_shares(workload),
            ),
        )
    return _phased(workload, steps, phases)


@dataclass(frozen=True)
class _Step:
    """Arrivals for some time."""

    duration_s: float
    arrivals: Arrivals


def _steps(arrivals: Arrivals) -> tuple[_Step, ...]:
    """Stretches of constant rate, at most `MOST`; one where the rate never changes."""
    if isinstance(arrivals, Diurnal) and arrivals.amplitude > 0:
        return _sliced(arrivals.steps())
    if isinstance(arrivals, Piecewise):
        own = zip(arrivals.rates_per_s, arrivals.lengths_s, strict=True)
        if len(arrivals.rates_per_s) > MOST:
            return _sliced(arrivals)
        least = IDLE * arrivals.rate_per_s
        return tuple(_Step(length, Piecewise((max(rate, least),), (length,), arrivals.cv)) for rate, length in own)
    return (_Step(np.inf, arrivals),)


def _sliced(arrivals: Piecewise) -> tuple[_Step, ...]:
    """Equal slices of a cycle, each at its mean rate."""
    ends = np.concatenate([[0.0], np.cumsum(arrivals.lengths_s)])
    mass = np.concatenate([[0.0], np.cumsum(np.multiply(arrivals.rates_per_s, arrivals.lengths_s))])
    edges = np.linspace(0.0, ends[-1], MOST + 1)
    width = float(edges[1])
    rates = np.maximum(np.diff(np.interp(edges, ends, mass)) / width, IDLE * arrivals.rate_per_s)
    return tuple(_Step(width, Piecewise((rate,), (width,), arrivals.cv)) for rate in rates.tolist())


def _phased(workload: Workload, steps: tuple[_Step, ...], phases: tuple[shifting.Phase, ...]) -> tuple[Piece, ...]:
    """Every step in every phase; where both change, each phase meets the steps in proportion to their time."""
    whole = sum(step.duration_s for step in steps)
    cycle = workload.cycle_s if workload.cycle_s is not None else whole
    parts = [thin(kind.lengths.points(), POINTS) for kind in workload.classes]
    found = []
    for phase in phases:
        lengths = thin(joined_points(parts, phase.shares), POINTS)
        for step in steps:
            part = 1.0 if len(steps) == 1 else step.duration_s / whole
            own = step.arrivals.statistics()
            factor = max(phase.rate_factor, IDLE)
            arrivals = own if factor == 1.0 else step.arrivals.with_rate(own.rate_per_s * factor).statistics()
            duration = cycle * phase.weight * part
            found.append(Piece(arrivals.rate_per_s * duration, duration, arrivals, lengths, phase.shares))
    total = sum(piece.share for piece in found)
    return tuple(replace(piece, share=piece.share / total) for piece in found)


@dataclass(frozen=True)
class _Recorded:
    """A replayed workload; workloads compare without their records, this one with the record's content."""

    workload: Workload
    arrivals: Replay
    record: Requests = field(compare=False)
    cached: IntArray = field(compare=False)
    name: str = ""

    def __post_init__(self) -> None:
        name = digest(self.record.prompt_tokens, self.record.output_tokens, self.cached)
        object.__setattr__(self, "name", name)


@lru_cache(maxsize=4)
def _windows(recorded: _Recorded) -> tuple[Piece, ...]:
    """Windows of a record with equally many requests; kept, as a sweep asks for them with every batch of designs."""
    workload, arrivals, record = recorded.workload, recorded.arrivals, recorded.record
    times = shifting.warp(workload, arrivals.times_s)
    count = len(times)
    windows = int(np.clip(count // LEAST, 1, MOST))
    edges = np.linspace(0, count, windows + 1).astype(np.int64)
    gaps = np.diff(times)
    ends = np.append(times, times[-1] + gaps.mean())
    found = []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        duration = float(ends[end] - ends[first])
        inside = np.diff(ends[first : end + 1])
        statistics = ArrivalStatistics((end - first) / duration, float(np.std(inside) / np.mean(inside)))
        prompt, output = record.prompt_tokens[first:end], record.output_tokens[first:end]
        cached = recorded.cached[first:end].astype(float) if len(recorded.cached) else None
        weight = np.full(end - first, 1.0 / (end - first))
        lengths = thin(LengthPoints(prompt.astype(float), output.astype(float), weight, cached), POINTS)
        computed = prompt if cached is None else prompt - recorded.cached[first:end]
        before = np.diff(times[max(first - 1, 0) : end], prepend=times[:1] if first == 0 else times[:0])
        shares = shifting.shares_at(workload, times[first:end]).mean(axis=0)
        path = _path(before, computed, -(-count // LONGEST_PATH))
        found.append(Piece((end - first) / count, duration, statistics, lengths, tuple(shares.tolist()), path))
    return tuple(found)


def _path(gap_s: FloatArray, prompt_tokens: IntArray, joined: int) -> Path:
    """A path with `joined` neighbours as one, which arrive when the first does."""
    starts = np.arange(0, len(gap_s), joined)
    times = np.cumsum(gap_s)[starts]
    count = np.diff(np.append(starts, len(gap_s))).astype(float)
    prompt = np.add.reduceat(prompt_tokens.astype(float), starts) / count
    gap = np.diff(times, prepend=0.0)
    return Path(np.asarray(gap), prompt, count)
