"""The chain of a pool whose arrivals come in two phases: levels of sequences in service, each in both phases.

Levels and phases are a quasi-birth–death process: with the rows `π_l` of both phases, `π_{l+1} = π_l·R_l` and

    R_l = Λ_l·(Λ_{l+1} + μ_{l+1} − Q − μ_{l+2}·R_{l+1})⁻¹,

Λ the arrivals of the phases, `Q` their changes, `μ_l` what `l` sequences complete (Latouche and Ramaswami 1999); beyond
the limit `μ` is constant, and so is R (`two_phases`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.chain import Burstiness, PoolState, buckets
from hydra_dse.estimator.nodes import BatchNodes
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.two_phases import Flows, Matrix, flows_of, summed, tail_of, times

FloatArray = NDArray[np.float64]
MOST_PLACES = 256.0
"""Places before a pool that are told apart; a queue behind them is served at the highest rate."""


@dataclass(frozen=True)
class Waiting:
    """Places before a full pool in which it still works as the phases let it, each of shape (n,).

    Attributes:
        places: how many.
        first_s, second_s: residence in a full pool while either phase lasts.
    """

    places: FloatArray
    first_s: FloatArray
    second_s: FloatArray


def phased_sharing(
    rate: FloatArray,
    nodes: BatchNodes,
    residences_s: tuple[FloatArray, FloatArray],
    limit: FloatArray,
    burst: Burstiness,
    load: FloatArray,
    phases: Phases,
    waiting: Waiting | None = None,
) -> PoolState:
    """Solve the chain of each pool.

    Args:
        rate: mean arrivals per second, shape (n,).
        nodes: batch nodes of the pools.
        residences_s: time in service at each batch node while either phase lasts, shape (n, k) each.
        limit: sequences in service at most, shape (n,).
        burst: variability of arrivals within a phase, and of service; `arrival` as a full pool sees the phases.
        load: offered over highest rate, shape (n,).
        phases: of the arrivals.
        waiting: places before the pool; None = a queue is served at the highest rate.
    """
    n = len(rate)
    whole = np.nan_to_num(np.floor(limit + 1e-9), nan=1.0)
    more = np.zeros(n) if waiting is None else np.floor(np.minimum(np.nan_to_num(waiting.places), MOST_PLACES))
    steady = np.clip(load, 1e-9, 1.0 - 1e-6)
    within = burst.spread if burst.within is None else burst.within
    at_nodes = np.zeros((n, nodes.count + 1))
    full, met, queue, left, ratio, in_service = (np.zeros(n) for _ in range(6))
    stairs = None if nodes.ratio is None else np.ones_like(nodes.batch)
    for rows, length in buckets(whole):
        part = nodes.take(rows)
        levels = np.arange(1.0, length + 1.0)
        relative = np.broadcast_to(phases.relative, (n, 2))[rows]
        flows = flows_of(rate[rows], steady[rows], relative, phases.share, phases.changes)
        deaths = [levels / part.times_at_levels(own[rows], length) for own in residences_s]
        peak = _peak(flows, deaths, within[rows])
        if waiting is not None:
            full_s = (waiting.first_s[rows], waiting.second_s[rows])
            deaths = [
                _lengthened(own, whole[rows], more[rows], limit[rows] / time)
                for own, time in zip(deaths, full_s, strict=True)
            ]
            peak = _lengthened(peak, whole[rows], more[rows], np.ones_like(limit[rows]))
        top = whole[rows] + more[rows]
        solved = _solved(flows, deaths, top, peak)
        places = np.arange(solved.levels.shape[1]) - whole[rows, None]
        before = solved.levels * (places > 0)[:, :, None]
        beyond = before.sum(axis=1) + solved.beyond
        probability = solved.levels.sum(axis=2)[:, : length + 1] * (places[:, : length + 1] <= 0)
        at_nodes[rows] = part.project(probability, beyond.sum(axis=1), limit[rows])
        if stairs is not None and part.ratio is not None:
            stairs[rows] = part.mean_ratio(probability, beyond.sum(axis=1), limit[rows], at_nodes[rows])
        at_top = np.take_along_axis(solved.levels, whole[rows, None, None].astype(int), axis=1)[:, 0] + beyond
        full[rows] = at_top.sum(axis=1)
        met[rows] = (at_top * relative).sum(axis=1)
        left[rows], ratio[rows] = solved.queue, solved.ratio
        queue[rows] = (before.sum(axis=2) * places).sum(axis=1) + solved.queue + more[rows] * solved.beyond.sum(axis=1)
        in_service[rows] = (probability[:, 1:] * levels).sum(axis=1) + beyond.sum(axis=1) * limit[rows]
    # Geometric with the mean queue and, where there are places, with what is beyond them.
    several = (more > 0.0) & (queue > 0.0)
    share = np.where(several, left / np.where(several, queue, 1.0), 0.5)
    ratio = np.where(several, np.maximum(share, 1e-300) ** (1.0 / np.maximum(more, 1.0)), ratio)
    # The chain is that of exponential work: (c_a² + 1)/2 of one whose work varies by c_s² is (c_a² + c_s²)/2.
    longer = 2.0 * burst.wait(limit, steady) / (burst.arrival + 1.0)
    ratio = np.clip(ratio, 1e-12, 1.0 - 1e-9) ** (1.0 / longer)
    queues = np.minimum(longer * queue * (1.0 - ratio) / np.maximum(full, 1e-300), 1.0)
    return PoolState(at_nodes, full, load, ratio, queues, in_service, stairs=stairs, met_full=np.minimum(met, 1.0))


def _peak(flows: Flows, deaths: Sequence[FloatArray], spread: FloatArray) -> FloatArray:
    """By how much arrivals are raised at each level so that weights are peaked as `(λ/μ)^(1/z)`, both phases alike."""
    usual = np.maximum(deaths[0] * flows.share + deaths[1] * (1.0 - flows.share), 1e-300)
    return np.asarray((flows.mean / usual) ** (1.0 / spread[:, None] - 1.0))


def _lengthened(values: FloatArray, whole: FloatArray, more: FloatArray, beyond: FloatArray) -> FloatArray:
    """Values of the levels 1…L with those of the places behind level `whole`, which are all alike."""
    length = int(np.max(whole + more, initial=1.0))
    wide = np.concatenate((values, np.zeros((len(values), max(length - values.shape[1], 0)))), axis=1)[:, :length]
    return np.where(np.arange(1.0, length + 1.0) > whole[:, None], beyond[:, None], wide)


@dataclass(frozen=True)
class Solved:
    """Probabilities of levels and phases, (n, L + 1, 2), and beyond the last, (n, 2); the queue there, its ratio."""

    levels: FloatArray
    beyond: FloatArray
    queue: FloatArray
    ratio: FloatArray


def _solved(flows: Flows, deaths: Sequence[FloatArray], whole: FloatArray, peak: FloatArray) -> Solved:
    """Walk down for the matrices, up for the probabilities."""
    tail, ratio = tail_of(flows)
    steps, first_row = _walked(flows, deaths, whole, peak, tail)
    n, length = deaths[0].shape
    weight, log = np.empty((n, length + 1, 2)), np.zeros((n, length + 1))
    one, two = first_row
    weight[:, 0, 0], weight[:, 0, 1] = one, two
    for level, (a, b, c, d) in enumerate(steps):
        one, two = one * a + two * c, one * b + two * d
        total = one + two
        one, two = one / total, two / total
        weight[:, level + 1, 0], weight[:, level + 1, 1] = one, two
        log[:, level + 1] = np.log(total)
    log = np.cumsum(log, axis=1)
    log[np.arange(length + 1.0) > whole[:, None]] = -np.inf
    weight *= np.exp(log - log.max(axis=1, keepdims=True))[:, :, None]
    last = np.take_along_axis(weight, whole[:, None, None].astype(int), axis=1)[:, 0]
    beyond = times(times(last, tail), summed(tail))
    queue = times(beyond, summed(tail))
    total = weight.sum(axis=(1, 2)) + beyond.sum(axis=1)
    return Solved(weight / total[:, None, None], beyond / total[:, None], queue.sum(axis=1) / total, ratio)


def _walked(
    flows: Flows, deaths: Sequence[FloatArray], whole: FloatArray, peak: FloatArray, tail: Matrix
) -> tuple[list[Matrix], tuple[FloatArray, FloatArray]]:
    """R of all levels from 0, and the probabilities of level 0.

    From any level the pool surely comes back to the one below, so that `μ_{l+1}·R_l` has the row sums of `Λ_l`: what
    changes phase on its way down and up again is all that needs to be carried, and nothing is subtracted.
    """
    length = deaths[0].shape[1]
    births = [rate[:, None] * peak for rate in (flows.first, flows.second)]
    away_at_top, back_at_top = flows.leave_first + tail[1] * flows.served, flows.leave_second + tail[2] * flows.served
    away, back = away_at_top, back_at_top
    last = int(whole.min())
    steps: list[Matrix] = []
    for level in range(length - 1, -1, -1):
        if level + 1 >= last:
            top = level + 1 >= whole
            away, back = np.where(top, away_at_top, away), np.where(top, back_at_top, back)
        one, two = deaths[0][:, level], deaths[1][:, level]
        total = one * two + one * back + two * away
        up, other = births[0][:, level] / total, births[1][:, level] / total
        steps.append((up * (two + back), up * away, other * back, other * (one + away)))
        away, back = flows.leave_first + up * away * two, flows.leave_second + other * back * one
    total = away + back
    return steps[::-1], (back / total, away / total)
