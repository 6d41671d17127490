"""Means and distributions of TTFT, TPOT, TBT and E2E from the queues a request passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.exponential import EXPONENTIAL_EDGES, EXPONENTIAL_WEIGHTS
from hydra_dse.estimator.first_tokens import ttft_spread
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.heard import entry_of, stream_of
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.meeting import TTFT_SHARES, TTFT_WEIGHTS
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.solution import Latency
from hydra_dse.estimator.stages import Entry, Stream

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

JITTER_EDGES = (0.0, 0.4, 0.8, 0.96, 1.0)
JITTER_WEIGHTS = np.diff(JITTER_EDGES)


@dataclass(frozen=True)
class Timings:
    """Latencies, and the mean number of decoding sequences."""

    ttft: Latency
    tpot: Latency
    tbt: Latency
    e2e: Latency
    decoding: FloatArray


def joining_s(state: PoolState, batch: FloatArray, step_s: FloatArray, limit: FloatArray) -> FloatArray:
    """Mean wait for the next iteration's start: half an iteration where a batch runs and has room."""
    room = np.where(batch < limit[:, None], 0.5, 0.0)
    return np.asarray((state.at_nodes[:, 1:] * room * step_s).sum(axis=1))


def token_share(state: PoolState, batch: FloatArray, step_s: FloatArray) -> FloatArray:
    """Share of tokens emitted at each node, shape (n, k)."""
    tokens = state.at_nodes[:, 1:] * batch / step_s
    total = tokens.sum(axis=1, keepdims=True)
    first = np.zeros_like(tokens)
    first[:, 0] = 1.0
    return np.where(total > 0, tokens / np.where(total > 0, total, 1.0), first)


def timings(entry: Entry, stream: Stream, lengths: LengthMoments, percentiles: bool | BoolArray) -> Timings:
    """Compose all latencies; `percentiles`: whether, or of which designs, their distributions too."""
    ttft_mean = entry.mean_own_s + entry.mean_wait_s + entry.blocked_s
    if entry.held_s is not None:
        ttft_mean = ttft_mean + entry.held_s
    share = token_share(stream.state, stream.batch, stream.step_s)
    step = (share * stream.step_s).sum(axis=1)
    delay = stream.slot_s + stream.moved_s
    decode_s = delay + lengths.decode * step
    early = delay if stream.moved_by_inverse_s is None else stream.slot_s + stream.moved_by_inverse_s
    tpot_mean = step * lengths.steps_per_token + early * lengths.inverse_decode
    if stream.stall is not None:
        pace = lengths.pace
        stalled = stream.stall.by_size(pace.steps)
        decode_s = decode_s + stalled @ pace.weight
        tpot_mean = tpot_mean + stalled @ (pace.weight / pace.steps * pace.per_token)
    e2e_mean = ttft_mean + lengths.decoding_share * decode_s
    ttft = tpot = tbt = e2e = None
    if np.any(percentiles):
        ttft, tpot, tbt, e2e = _spreads(entry, stream, share, step, lengths, percentiles)
    return Timings(
        Latency(ttft_mean, ttft),
        Latency(tpot_mean, tpot),
        Latency(decode_s / lengths.decode_tokens, tbt),
        Latency(e2e_mean, e2e),
        stream.joining_per_s * (decode_s - delay),
    )


def _spreads(
    entry: Entry,
    stream: Stream,
    share: FloatArray,
    step: FloatArray,
    lengths: LengthMoments,
    percentiles: bool | BoolArray,
) -> list[Mixture]:
    """Distributions of TTFT, TPOT, TBT and E2E, of all designs or of some."""
    among = None if np.all(percentiles) else np.asarray(percentiles)
    if among is not None:
        entry, stream, share, step = entry_of(entry, among), stream_of(stream, among), share[among], step[among]
    ttft = ttft_spread(entry)
    waits, wait_weights = _slot_waits(stream)
    tpot = _tpot(stream, share, step, waits, wait_weights, lengths)
    tbt = _tbt(stream, step, waits, wait_weights, lengths)
    found = [ttft, tpot, tbt, _e2e(ttft, step, waits, wait_weights, lengths)]
    return found if among is None else [replace(spread, among=among) for spread in found]


def _slot_waits(stream: Stream) -> tuple[FloatArray, FloatArray]:
    """Delay before decoding, shape (n, 1 + slices): none but moving and joining, or slices of a gamma variable.

    One waits for `N` others to leave, `N` geometric and bounded by the places: of an exponential variable cut at `L`
    with mean `m` the squared coefficient of variation falls from 1 to that of a uniform one, 1/3 at `m = L/2`; the time
    of each to leave varies too.
    """
    full = bounded(stream.full, 0.0, 1.0)
    mean = np.maximum(stream.slot_s / np.maximum(full, 1e-12), 1e-300)
    one = np.minimum(stream.leaving_s / mean, 1.0)
    part = bounded((1.0 - one) / np.maximum(stream.longest_s / mean - one, 1e-12), 0.0, 0.5)
    scv = (1.0 - one) * (1.0 - 2.0 / 3.0 * part * (1.0 + 2.0 * part)) + one * stream.leaving_scv
    points = np.where(full > 1e-9, mean, 0.0)[:, None] * gamma_slices(
        np.ones_like(mean), 1.0 / np.maximum(scv, 1e-3), tuple(EXPONENTIAL_EDGES.tolist())
    )
    waits = side_by_side(np.zeros_like(points[:, :1]), points) + stream.moved_s[:, None]
    weights = side_by_side((1.0 - full)[:, None], full[:, None] * EXPONENTIAL_WEIGHTS)
    return waits, weights


def _tpot(
    stream: Stream,
    share: FloatArray,
    step: FloatArray,
    waits: FloatArray,
    wait_weights: FloatArray,
    lengths: LengthMoments,
) -> Mixture:
    """Iteration time averaged over a request's life, jitter from prompts, and its delay over its tokens.

    The batch relaxes with the mean life; over a life of `x` relaxation times the spread of an average shrinks by
    `√(2(x − 1 + e^{−x})/x²)`.  The delays of prompts during a life of `d` tokens are compound Poisson: a gamma
    variable of mean `extra`.  A delay gives time for more delays: with `1 − ρ = (step − extra)/step` its variance per
    token is `λE[e²]·step/(d·(1 − ρ)²)`, as of a delay busy period.
    """
    bins = lengths.pace
    n = len(step)
    pairs, (node_s, node_extra) = _paired(share, stream.step_s, stream.extra_s)
    x = bins.steps / lengths.decode
    shrink = np.sqrt(2.0 * (x - 1.0 + np.exp(-x)) / x**2)
    steady = step[:, None, None] + (node_s - step[:, None])[:, :, None] * shrink
    steady = steady + stream.moved_s[:, None, None] / bins.steps
    extra = (share * stream.extra_s).sum(axis=1)[:, None]
    per_step = stream.extra_square[:, None] * step[:, None] / bins.steps
    variance = per_step * (step[:, None] / (step[:, None] - extra)) ** 2
    met = extra + np.zeros_like(variance)
    if stream.stall is not None:
        met = met + stream.stall.by_size(bins.steps) / bins.steps
        variance = variance + stream.stall.variance[:, None] / bins.steps**2
    jitter = gamma_slices(met, met**2 / np.maximum(variance, 1e-300), JITTER_EDGES)
    if stream.stall is not None:
        jitter = np.minimum(jitter, np.maximum(stream.stall.cap_s[:, None] + extra, met)[..., None])
    spread = node_extra[:, :, None] / np.maximum(extra, 1e-300)[:, :, None]
    free = steady[..., None] + spread[..., None] * (jitter - extra[..., None])[:, None]
    free_weight = (pairs * wait_weights[:, :1])[:, :, None, None] * bins.weight[:, None] * JITTER_WEIGHTS
    held = stream.step_s[:, -1:, None] + waits[:, 1:, None] / bins.steps
    held_weight = wait_weights[:, 1:, None] * bins.weight
    return Mixture(
        side_by_side((free * bins.per_token[:, None]).reshape(n, -1), (held * bins.per_token).reshape(n, -1)),
        side_by_side(free_weight.reshape(n, -1), held_weight.reshape(n, -1)),
    )


def _paired(share: FloatArray, *values: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
    """Join neighbouring nodes two by two: half the points, the same means."""
    both = share[:, ::2] + share[:, 1::2]
    safe = np.where(both > 0, both, 1.0)
    joined = [(share[:, ::2] * v[:, ::2] + share[:, 1::2] * v[:, 1::2]) / safe for v in values]
    return both, [np.where(both > 0, v, plain[:, ::2]) for v, plain in zip(joined, values, strict=True)]


def _tbt(
    stream: Stream, step: FloatArray, waits: FloatArray, wait_weights: FloatArray, lengths: LengthMoments
) -> Mixture:
    """Gaps between tokens: one per request with the delay before decoding, the others inside the decode phase.

    The tokens of one step come together: no time lies between them.
    """
    first = 1.0 / lengths.decode
    value = side_by_side(stream.gaps.value, waits + step[:, None])
    inner = stream.gaps.weight / np.maximum(stream.gaps.weight.sum(axis=1, keepdims=True), 1e-300)
    weight = side_by_side(inner * (1.0 - first), wait_weights * first)
    if lengths.decode == lengths.decode_tokens:
        return Mixture(value, weight)
    between = lengths.decode / lengths.decode_tokens
    none = np.zeros((len(step), 1))
    return Mixture(side_by_side(value, none), side_by_side(weight * between, none + (1.0 - between)))


def _e2e(
    ttft: Mixture, step: FloatArray, waits: FloatArray, wait_weights: FloatArray, lengths: LengthMoments
) -> Mixture:
    """TTFT, the delay before decoding and the decode time, taken as independent."""
    n, bins = len(step), lengths.decode_bins
    start = ttft.quantiles(TTFT_SHARES)[:, :, None, None]
    few, few_weight = _few(waits, wait_weights)
    decode = step[:, None, None, None] * lengths.decode_parts[:, None]
    ends = start + few[:, None, :, None] + decode
    weight = TTFT_WEIGHTS[:, None, None] * (few_weight[:, None, :, None] * (lengths.decoding_share * bins.weight))
    alone = np.broadcast_to(TTFT_WEIGHTS * (1.0 - lengths.decoding_share), (n, len(TTFT_WEIGHTS)))
    return Mixture(
        side_by_side(ends.reshape(n, -1), start.reshape(n, -1)),
        side_by_side(weight.reshape(n, -1), alone),
        len(bins.size) > 1,
    )


def _few(waits: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """No wait, and short, long and extreme ones in three groups of slices."""
    cuts = [0, 1, 4, 6, waits.shape[1]]
    mass = np.stack([weights[:, a:b].sum(axis=1) for a, b in pairwise(cuts)], axis=1)
    total = np.stack([(weights * waits)[:, a:b].sum(axis=1) for a, b in pairwise(cuts)], axis=1)
    return np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), waits[:, :1]), mass
