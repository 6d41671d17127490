"""Requests, length points and arrival statistics of a workload: what simulators and estimators ask it for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload import shifts as shifting
from hydra_dse.workload.nouns import ArrivalStatistics, IntArray, LengthPoints, Requests, Workload
from hydra_dse.workload.points import thin
from hydra_dse.workload.replay import Replay, pick
from hydra_dse.workload.turns import draw_turns, turn_points


def requests(workload: Workload, count: int, rng: np.random.Generator, start_share: float | None = None) -> Requests:
    """Draw `count` requests in order of arrival.

    Arrival times, classes and lengths come from streams of their own, so that a change of one leaves the others.
    A replayed workload gives a window of its record, chosen by `rng`.

    Args:
        workload: what to draw from.
        count: how many.
        rng: of the draw.
        start_share: a replayed workload's window starts at this share of its record, 0 to 1, instead of anywhere.

    Raises:
        InputError: `count` is below 1, or `start_share` not in [0, 1).
    """
    if count < 1:
        raise InputError(f"the number of requests must be at least 1, got {count}")
    for_times, for_classes, for_lengths = rng.spawn(3)
    if workload.replay is not None:
        return _replayed(workload, count, for_times, for_classes, start_share)
    if workload.prefixes is not None:
        [for_prefixes] = rng.spawn(1)
        return draw_turns(workload, workload.prefixes, count, for_times, for_classes, for_lengths, for_prefixes)
    times = shifting.warp(workload, workload.arrivals.sample(count, for_times))
    classes = _classes(workload, times, for_classes)
    prompt, output = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for index, (kind, stream) in enumerate(
        zip(workload.classes, for_lengths.spawn(len(workload.classes)), strict=True)
    ):
        mine = classes == index
        prompt[mine], output[mine] = kind.lengths.sample(int(mine.sum()), stream)
    return Requests(times, prompt, output, classes)


def _replayed(
    workload: Workload,
    count: int,
    for_times: np.random.Generator,
    for_classes: np.random.Generator,
    start_share: float | None,
) -> Requests:
    arrivals, record = workload.arrivals, workload.replay
    if not isinstance(arrivals, Replay) or record is None or len(record) != len(arrivals.times_s):
        raise InputError("a workload with recorded requests needs the replay of their arrival times")
    if start_share is None:
        start = arrivals.start(count, for_times)
    elif 0.0 <= start_share < 1.0:
        start = int(start_share * len(record))
    else:
        raise InputError(f"a window must start at a share of 0 to below 1 of its record, got {start_share!r}")
    times, index = arrivals.window(count, start)
    drawn = pick(record, index, shifting.warp(workload, times))
    return replace(drawn, class_index=_classes(workload, drawn.arrival_s, for_classes))


def _classes(workload: Workload, times_s: np.ndarray, rng: np.random.Generator) -> IntArray:
    """Class of each request by the shares that hold when it arrives."""
    uniform = rng.random(len(times_s))
    if len(workload.classes) == 1:
        return np.zeros(len(times_s), dtype=np.int64)
    shares = shifting.shares_at(workload, times_s)
    edges = np.cumsum(shares, axis=1)
    edges /= edges[:, -1:]
    return np.asarray((uniform[:, None] >= edges[:, :-1]).sum(axis=1), dtype=np.int64)


def length_points(workload: Workload, class_index: int | None = None) -> LengthPoints:
    """The joint length distribution as at most about 2,000 weighted points.

    A mixture over the classes (for a workload with shifts: at its long-run shares), or one class alone.
    """
    if workload.prefixes is not None and workload.replay is None:
        return turn_points(workload, workload.prefixes, class_index)
    if class_index is not None:
        return thin(workload.classes[class_index].lengths.points())
    parts = [thin(kind.lengths.points()) for kind in workload.classes]
    return thin(_distinct(joined_points(parts, long_run_shares(workload))))


def _distinct(points: LengthPoints) -> LengthPoints:
    """Points that several classes have in common as one."""
    pairs, place = np.unique(np.stack([points.prompt_tokens, points.output_tokens]), axis=1, return_inverse=True)
    return LengthPoints(pairs[0], pairs[1], np.asarray(np.bincount(place.ravel(), points.weight), dtype=float))


def joined_points(parts: Sequence[LengthPoints], shares: Sequence[float]) -> LengthPoints:
    """A mixture of length distributions in these shares."""
    total = sum(shares)
    kept = [(part, share / total) for part, share in zip(parts, shares, strict=True) if share > 0]
    return LengthPoints(
        np.concatenate([part.prompt_tokens for part, _ in kept]),
        np.concatenate([part.output_tokens for part, _ in kept]),
        np.concatenate([part.weight * share for part, share in kept]),
    )


def long_run_shares(workload: Workload) -> tuple[float, ...]:
    """Shares of the classes among all arrivals in the long run."""
    shares = np.zeros(len(workload.classes))
    for phase in shifting.phases(workload):
        shares += phase.weight * phase.rate_factor * np.asarray(phase.shares)
    return tuple(float(share) for share in shares / shares.sum())


def arrival_statistics(workload: Workload) -> ArrivalStatistics:
    """Mean rate and burstiness of the arrivals in the long run.

    Shifts of the rate that repeat add to the CV as the steps of a piecewise rate do.
    """
    own = workload.arrivals.statistics()
    if workload.prefixes is not None and workload.prefixes.mean_turns > 1.0:
        return _of_turns(own, workload.prefixes.mean_turns)
    parts = shifting.phases(workload)
    if all(part.rate_factor == 1.0 for part in parts):
        return own
    if len(parts) == 1:
        return workload.arrivals.with_rate(own.rate_per_s * parts[0].rate_factor).statistics()
    factor = sum(part.weight * part.rate_factor for part in parts)
    mean = sum(part.weight for part in parts if part.rate_factor > 0) / factor
    second = (1 + own.cv**2) * sum(part.weight / part.rate_factor for part in parts if part.rate_factor > 0) / factor
    return ArrivalStatistics(own.rate_per_s * factor, float(np.sqrt(max(second / mean**2 - 1, 0.0))))


def _of_turns(starts: ArrivalStatistics, mean_turns: float) -> ArrivalStatistics:
    """First turns arrive as sessions do, all others after independent think times: as good as Poisson."""
    return ArrivalStatistics(starts.rate_per_s, float(np.sqrt(1.0 + (starts.cv**2 - 1.0) / mean_turns)))


def at_rate(workload: Workload, rate_per_s: float) -> Workload:
    """The same workload at another mean rate (its shifts keep their times and factors).

    Raises:
        InputError: the rate is not a finite number above zero.
    """
    if not (rate_per_s > 0 and np.isfinite(rate_per_s)):
        raise InputError(f"a rate must be a finite number above zero, got {rate_per_s!r}")
    own = workload.arrivals.statistics().rate_per_s
    factor = arrival_statistics(workload).rate_per_s / own
    return replace(workload, arrivals=workload.arrivals.with_rate(rate_per_s / factor))
