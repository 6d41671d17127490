"""A system over the cycle of a shifting load: what waits, what decodes, and what ends, by time since it began.

With A(t) arrivals until t and F(t) first tokens, N = A − F requests wait for their first token; the mean of N over a
part of the cycle is the difference of ∫A − ∫F at its ends divided by its length; ∫₀ᵗ A = Σ (t − aᵢ)⁺.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hydra_dse.records import Visit
from hydra_dse.studies.dynamic_loads import Load

FloatArray = NDArray[np.float64]
WAITING, DECODING, OFFERED, COMPLETED = "waiting", "decoding", "offered_per_s", "completed_per_s"
COURSE = (WAITING, DECODING, OFFERED, COMPLETED)


def course_of(visits: Sequence[Visit], load: Load, first: int, parts: int) -> list[dict[str, list[float]]]:
    """By phase of the cycle, means by part of the phase over the whole cycles that were measured; see `COURSE`.

    Args:
        visits: all of a run, also those that warm it up.
        load: with a cycle.
        first: number of the first request that counts.
        parts: of a phase.

    Returns:
        One mapping a phase; empty where the load has no cycle, or no whole one was measured.
    """
    served = [visit for visit in visits if visit.last_token_s == visit.last_token_s]
    counted = [visit.arrival_s for visit in visits if visit.request >= first]
    if load.cycle_s is None or not counted or not served:
        return []
    within = _offsets(load, parts)
    edges, turn = _edges(within, load.cycle_s, min(counted), max(counted))
    if len(edges) < 2:
        return []
    arrival, start, end = np.array([(v.arrival_s, v.first_token_s, v.last_token_s) for v in served]).T
    until_arrival, until_start, until_end = (_integral(times, edges) for times in (arrival, start, end))
    found = {
        WAITING: np.diff(until_arrival - until_start),
        DECODING: np.diff(until_start - until_end),
        OFFERED: np.diff(_count(np.array([visit.arrival_s for visit in visits]), edges)),
        COMPLETED: np.diff(_count(end, edges)),
    }
    whole = {
        name: np.roll((values / np.diff(edges)).reshape(-1, len(within)).mean(axis=0), turn)
        for name, values in found.items()
    }
    return [
        {name: values[parts * phase : parts * (phase + 1)].tolist() for name, values in whole.items()}
        for phase in range(len(load.starts_s))
    ]


def mean_course(records: Sequence[Mapping[str, Sequence[float]]], name: str) -> FloatArray | None:
    """Mean over replications by part; None where a record lacks it, as those of earlier versions do."""
    values = [record.get(name) for record in records]
    known = [value for value in values if value is not None]
    return np.mean(np.array(known, dtype=np.float64), axis=0) if known and len(known) == len(values) else None


def _offsets(load: Load, parts: int) -> FloatArray:
    """Where each part of each phase begins, from the start of the cycle."""
    ends = [*load.starts_s, load.cycle_s or 0.0]
    return np.concatenate([np.linspace(start, stop, parts, endpoint=False) for start, stop in pairwise(ends)])


def _edges(within: FloatArray, cycle_s: float, first_s: float, last_s: float) -> tuple[FloatArray, int]:
    """Edges of parts over as many whole cycles as fit between two times, and how far into the cycle they begin."""
    cycles = np.arange(np.floor(first_s / cycle_s), np.ceil(last_s / cycle_s) + 1)
    every = (cycle_s * cycles[:, None] + within[None, :]).ravel()
    inside = np.flatnonzero((every >= first_s) & (every <= last_s))
    whole = (len(inside) - 1) // len(within) if len(inside) else 0
    if whole < 1:
        return np.zeros(0), 0
    start = int(inside[0])
    return every[start : start + whole * len(within) + 1], start % len(within)


def _integral(times: FloatArray, at: FloatArray) -> FloatArray:
    """∫ of the number of events until then, Σ (t − timeᵢ)⁺, at each of `at`."""
    ordered = np.sort(times)
    count = np.searchsorted(ordered, at)
    sums = np.concatenate(([0.0], np.cumsum(ordered)))
    return np.asarray(count * at - sums[count], dtype=np.float64)


def _count(times: FloatArray, at: FloatArray) -> FloatArray:
    return np.searchsorted(np.sort(times), at).astype(np.float64)
