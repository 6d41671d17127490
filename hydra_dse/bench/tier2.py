"""Tier 2 across chips, and deployment: scaling, batch saturation, precision gain.

Runs are compared that differ in one thing only.  `E(n) = T(n)·n₀ / (n·T(n₀))` with n₀ the fewest chips measured;
communication share `1 − E`; step change `T(2n)/T(n) − 1`; a batch saturates where doubling it gains less than 5 %;
precision gain `T_a/T_b − 1`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import TypeVar

from hydra_dse.bench.record import Profile

Key = TypeVar("Key", int, float, str)
SATURATED = 0.05
"""Gain of a doubled batch below which it is saturated."""


@dataclass(frozen=True)
class ScalingPoint:
    """One number of chips; `step_change` is against the next fewer, None for the first."""

    chips: int
    rate: float
    efficiency: float
    communication_share: float
    step_change: float | None


@dataclass(frozen=True)
class Scaling:
    """Runs that differ in chips alone.

    Attributes:
        subject: what ran.
        parallelism: how it was split.
        work: `"equal batch (b)"`, `"equal batch per chip"` or `"batch not stated"`.
        falls_after: most chips before the first that lower the rate, None where none does.
    """

    subject: str
    parallelism: str
    work: str
    points: tuple[ScalingPoint, ...]
    falls_after: int | None


@dataclass(frozen=True)
class BatchSaturation:
    """Runs that differ in batch alone.

    Attributes:
        smallest_saturating_batch: None where the rate still grows by 5 % or more at the last doubling measured.
        elasticity: slope of log rate over log batch between the ends; 1 is linear.
        best_batch: of the highest rate.
    """

    subject: str
    points: tuple[tuple[float, float], ...]
    smallest_saturating_batch: float | None
    elasticity: float
    best_batch: float


@dataclass(frozen=True)
class PrecisionGain:
    """Two configurations of one run and how much faster the second is."""

    subject: str
    base: str
    faster: str
    gain: float


@dataclass(frozen=True)
class Failure:
    """A run that gave no rate."""

    name: str
    reason: str
    source: str
    line: int | None


@dataclass(frozen=True)
class Tier2:
    """All of tier 2 for a set of runs."""

    scaling: tuple[Scaling, ...]
    batch_saturation: tuple[BatchSaturation, ...]
    precision_gain: tuple[PrecisionGain, ...]
    failures: tuple[Failure, ...]


def tier2_of(profiles: Iterable[Profile]) -> Tier2:
    """Return the tier-2 metrics of a set of runs; failures are listed, never averaged in."""
    runs = list(profiles)
    working = [profile for profile in runs if profile.rate is not None and not profile.failure]
    failures = tuple(
        Failure(profile.name, profile.failure, profile.source, profile.line) for profile in runs if profile.failure
    )
    return Tier2(scaling_of(working), saturation_of(working), precision_of(working), failures)


def scaling_of(runs: Sequence[Profile]) -> tuple[Scaling, ...]:
    """Return scaling over chips for every way of splitting; runs on one chip belong to all ways."""
    ways = dict.fromkeys(run.parallelism for run in runs if run.chips > 1)
    found = []
    for way in ways:
        members = [run for run in runs if run.parallelism == way or run.chips == 1]
        for work, amount in _WORK:
            groups = _groups(members, _work_key(amount))
            found += [scaling for group in groups if (scaling := _scaling(group, way, work)) is not None]
    return _distinct(found)


def _distinct(found: Sequence[Scaling]) -> tuple[Scaling, ...]:
    """Without pairs of runs that a longer series of the same subject and split holds already."""
    kept = []
    for scaling in dict.fromkeys(found):
        longer = [each for each in found if len(each.points) > max(len(scaling.points), 2)
                  and (each.subject, each.parallelism) == (scaling.subject, scaling.parallelism)]  # fmt: skip
        rates = {(point.chips, point.rate) for each in longer for point in each.points}
        if not any((point.chips, point.rate) in rates for point in scaling.points):
            kept.append(scaling)
    return tuple(kept)


def _work_key(amount: Callable[[Profile], float | None]) -> Callable[[Profile], tuple[object, ...]]:
    return lambda run: (*_subject(run), run.precision, amount(run))


def _per_chip(run: Profile) -> float | None:
    return None if run.batch is None else run.batch / run.chips


_WORK: tuple[tuple[str, Callable[[Profile], float | None]], ...] = (
    ("equal batch", lambda run: run.batch),
    ("equal batch per chip", _per_chip),
)


def _scaling(group: Sequence[Profile], way: str, work: str) -> Scaling | None:
    best = _best(group, lambda run: run.chips)
    if len(best) < 2:
        return None
    if group[0].batch is None:
        work = "batch not stated"
    elif work == "equal batch":
        work = f"equal batch ({group[0].batch:g})"
    fewest = min(best)
    base = best[fewest] / fewest
    points: list[ScalingPoint] = []
    for chips in sorted(best):
        efficiency = best[chips] / chips / base
        change = best[chips] / points[-1].rate - 1 if points else None
        points.append(ScalingPoint(int(chips), best[chips], efficiency, 1 - efficiency, change))
    falls = next((first.chips for first, second in pairwise(points) if second.rate < first.rate), None)
    return Scaling(_label(group[0]), way or "not stated", work, tuple(points), falls)


def saturation_of(runs: Sequence[Profile]) -> tuple[BatchSaturation, ...]:
    """Return batch saturation for every set of two batches or more."""
    sized = [run for run in runs if run.batch]
    groups = _groups(sized, lambda run: (*_subject(run), run.precision, run.chips, run.parallelism))
    found = []
    for group in groups:
        points = sorted(_best(group, lambda run: run.batch or 0.0).items())
        if len(points) >= 2:
            (b0, t0), (b1, t1) = points[0], points[-1]
            elasticity = math.log(t1 / t0) / math.log(b1 / b0) if t0 > 0 and t1 > 0 else 0.0
            best = max(points, key=lambda point: point[1])[0]
            found.append(BatchSaturation(_label(group[0]), tuple(points), saturating_batch(points), elasticity, best))
    return tuple(found)


def saturating_batch(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the smallest measured batch whose doubling gains less than 5 %.

    Args:
        points: (batch, rate), ascending.  Between them the rate is linear in the logarithm of the batch; a batch whose
            double lies beyond the last point is not judged.
    """
    last = points[-1][0]
    for batch, rate in points:
        if 2 * batch <= last * (1 + 1e-9) and _at(points, 2 * batch) < (1 + SATURATED) * rate:
            return batch
    return None


def _at(points: Sequence[tuple[float, float]], batch: float) -> float:
    for (b0, t0), (b1, t1) in pairwise(points):
        if b0 <= batch <= b1:
            return t0 + (t1 - t0) * math.log(batch / b0) / math.log(b1 / b0)
    return points[-1][1]


def precision_of(runs: Sequence[Profile]) -> tuple[PrecisionGain, ...]:
    """Return the gain between every two precisions of one run, the slower named first."""
    named = [run for run in runs if run.precision]
    groups = _groups(named, lambda run: (*_subject(run), run.chips, run.batch, run.parallelism))
    found = []
    for group in groups:
        best = _best(group, lambda run: run.precision)
        for base, other in permutations(best, 2):
            if best[other] > best[base] > 0:
                found.append(PrecisionGain(_label(group[0]), base, other, best[other] / best[base] - 1))
    return tuple(found)


def _subject(run: Profile) -> tuple[object, ...]:
    """What must be equal for two runs to be compared."""
    return (
        run.platform, run.model, run.sequence, run.output_tokens, run.configuration, run.phase, run.mode,
        run.kind, run.rate_unit,
    )  # fmt: skip


def _label(run: Profile) -> str:
    size = f"{run.model.layers} layers, width {run.model.hidden}" if run.model.layers and run.model.hidden else ""
    parts = (run.platform, run.model.name, size, run.configuration, f"sequence {run.sequence}" if run.sequence else "")
    return ", ".join(part for part in parts if part)


def _groups(runs: Sequence[Profile], key: Callable[[Profile], tuple[object, ...]]) -> list[list[Profile]]:
    found: dict[tuple[object, ...], list[Profile]] = {}
    for run in runs:
        found.setdefault(key(run), []).append(run)
    return list(found.values())


def _best(group: Sequence[Profile], key: Callable[[Profile], Key]) -> dict[Key, float]:
    """The highest rate of each; runs that were repeated count once."""
    found: dict[Key, float] = {}
    for run in group:
        found[key(run)] = max(found.get(key(run), 0.0), run.rate or 0.0)
    return found
