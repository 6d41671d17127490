"""Means and distributions of TTFT, TPOT, TBT and E2E from the queues a request passes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.company import Company
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.lengths import Bins, LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.prompts import WAIT_WEIGHTS
from hydra_dse.estimator.solution import Latency
from hydra_dse.estimator.transient import Transient

FloatArray = NDArray[np.float64]

# Slices of an exponential wait: probability, and its conditional mean in units of the mean.
EXPONENTIAL_EDGES = np.array([0.0, 0.25, 0.5, 0.7, 0.85, 0.93, 0.97, 0.99, 1.0])
_SURVIVAL = 1.0 - EXPONENTIAL_EDGES
_XLOGX = np.where(_SURVIVAL > 0, _SURVIVAL * np.log(np.where(_SURVIVAL > 0, _SURVIVAL, 1.0)), 0.0)
EXPONENTIAL_WEIGHTS = np.diff(EXPONENTIAL_EDGES)
EXPONENTIAL_POINTS = 1.0 + np.diff(_XLOGX) / EXPONENTIAL_WEIGHTS
TTFT_SHARES = (0.06, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.96, 0.99, 0.998)
_CUTS = np.concatenate(([0.0], (np.array(TTFT_SHARES[1:]) + np.array(TTFT_SHARES[:-1])) / 2.0, [1.0]))
TTFT_WEIGHTS = np.diff(_CUTS)
JITTER_EDGES = (0.0, 0.4, 0.8, 0.96, 1.0)
JITTER_WEIGHTS = np.diff(JITTER_EDGES)
RESIDUALS = np.array([1.0, 3.0, 5.0]) / 6.0
RAMP = (np.arange(10) + 0.5) / 10.0


@dataclass(frozen=True)
class Entry:
    """From arrival to the first token, beside each of j decode batches.

    Attributes:
        own_s: a prompt of each size alone, shape (n, j, bins); own_bins: the sizes.
        waits: probability to wait for work ahead, (n, j); wait_s: slices of that wait, (n, j, slices).
        behind: prompts packed behind one that waits, (n, j, slices, bins); behind_lone: behind others, (n, j, bins).
        beside: probability of each batch, (n, j).
        mean_wait_s: mean of both waits and the residual over all requests, (n,).
        residual_s: a running iteration that one who finds no prompts ahead must let end, (n, j); None = none.
        blocked: probability to be held back by a full pool, (n,); blocked_s: mean of that over all requests.
        held: share of requests that meet a fluid backlog; held_s: mean wait for it over all requests; None = none.
        order: waits of each size relative to `wait_s`, (n, j, bins), blocked_order: to that for a full pool, (n, bins);
            None = all sizes wait alike.
        blocked_points: waits for a full pool over their mean, (n, slices); None = exponential.
    """

    own_s: FloatArray
    own_bins: Bins
    waits: FloatArray
    wait_s: FloatArray
    behind: Company
    behind_lone: Company
    beside: FloatArray
    mean_wait_s: FloatArray
    residual_s: FloatArray | None
    blocked: FloatArray
    blocked_s: FloatArray
    held: FloatArray | None = None
    held_s: FloatArray | None = None
    order: FloatArray | None = None
    blocked_order: FloatArray | None = None
    blocked_points: FloatArray | None = None

    @property
    def mean_own_s(self) -> FloatArray:
        """Mean time of a prompt alone, shape (n,)."""
        return np.asarray(((self.own_s @ self.own_bins.weight) * self.beside).sum(axis=1))


@dataclass(frozen=True)
class Stall:
    """Prompts that a request leaves behind, or that follow it in its burst: they delay its first tokens.

    Attributes:
        share: of requests that meet any, shape (n,); mean_s: their mean delay, were the request long enough, (n,).
        variance: of it over requests, s², (n,).
        cap_s: most that they delay one token, (n,).
        spared_s: mean delay that a long request is spared, where fewer prompts come than at random times, (n,).
        usual_s: mean delay by prompts per step, (n,).
    """

    share: FloatArray
    mean_s: FloatArray
    variance: FloatArray
    cap_s: FloatArray
    spared_s: FloatArray
    usual_s: FloatArray

    def points(self, size: FloatArray) -> FloatArray:
        """Slices of the delay of requests of each size, (n, bins, slices): exponential, at most `cap_s` a token."""
        slices = (self.mean_s[:, None] * EXPONENTIAL_POINTS)[:, None, :]
        return np.minimum(slices, (self.cap_s[:, None] * size)[:, :, None])

    def by_size(self, size: FloatArray) -> FloatArray:
        """Mean delay of all requests of each size, (n, bins); less than none where fewer prompts come."""
        more = self.share[:, None] * (self.points(size) @ EXPONENTIAL_WEIGHTS)
        spared = self.spared_s[:, None]
        usual = self.usual_s[:, None] * size
        return np.asarray(more + spared * np.expm1(-usual / np.maximum(spared, 1e-300)))

    def mean_of(self, bins: Bins) -> FloatArray:
        """Mean delay of all requests, (n,)."""
        return np.asarray(self.by_size(bins.size) @ bins.weight)


@dataclass(frozen=True)
class Stream:
    """From the first token to the last.

    Attributes:
        joining_per_s: requests that start to decode.
        state: of the pool; batch, step_s: decoding sequences and mean iteration time at its nodes, (n, k).
        extra_s: part of the step that prompts cause, at each node.
        extra_square: variance per time of their delays, `λ·E[e²]` where prompts come at random, (n,).
        gaps: gaps between tokens inside the decode phase.
        full: probability to wait for a slot; slot_s: mean of that wait over all requests that decode.
        longest_s: bound of its mean; leaving_s, leaving_scv: time from one that leaves a full pool to the next.
        moved_s: mean time to move and to join.
        moved_by_inverse_s: the same as the mean time per token counts it, where it depends on the prompt; None = alike.
        stall: by prompts that follow; None = none.
    """

    joining_per_s: FloatArray
    state: PoolState
    batch: FloatArray
    step_s: FloatArray
    extra_s: FloatArray
    extra_square: FloatArray
    gaps: Mixture
    full: FloatArray
    slot_s: FloatArray
    longest_s: FloatArray
    leaving_s: FloatArray
    leaving_scv: FloatArray
    moved_s: FloatArray
    stall: Stall | None = None
    moved_by_inverse_s: FloatArray | None = None


def held_back(entry: Entry, transient: Transient) -> Entry:
    """An entry with the fluid that a full pool holds back, by Little's law over the arrivals."""
    return replace(entry, held=transient.held_share, held_s=transient.held / transient.offered)


def parked(stream: Stream, transient: Transient, share: float) -> Stream:
    """A stream with the fluid that waits for slots; `share` of the requests decode."""
    more = transient.parked / (transient.offered * share)
    longest = stream.longest_s + 2.0 * more
    full = np.where(more > 0, np.maximum(stream.full, np.minimum(transient.held_share, 1.0)), stream.full)
    return replace(stream, slot_s=stream.slot_s + more, longest_s=longest, full=full)


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


def timings(entry: Entry, stream: Stream, lengths: LengthMoments, percentiles: bool) -> Timings:
    """Compose all latencies."""
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
    if percentiles:
        ttft = ttft_spread(entry)
        waits, wait_weights = _slot_waits(stream)
        tpot = _tpot(stream, share, step, waits, wait_weights, lengths)
        tbt = _tbt(stream, step, waits, wait_weights, lengths)
        e2e = _e2e(ttft, step, waits, wait_weights, lengths)
    return Timings(
        Latency(ttft_mean, ttft),
        Latency(tpot_mean, tpot),
        Latency(decode_s / lengths.decode_tokens, tbt),
        Latency(e2e_mean, e2e),
        stream.joining_per_s * (decode_s - delay),
    )


def ttft_spread(entry: Entry) -> Mixture:
    """Not blocked: no wait or a slice of it, beside each batch; blocked: an exponential wait on the mean one."""
    n, j, bins = len(entry.waits), entry.waits.shape[1], len(entry.own_bins.weight)
    idle = 1 if entry.residual_s is None else len(RESIDUALS)
    held_back = entry.held is not None and entry.held_s is not None
    late_points = len(EXPONENTIAL_WEIGHTS) + (len(RAMP) if held_back else 0)
    points = _Points(n, bins * (j * (4 * idle + 2 * entry.wait_s.shape[2]) + late_points))
    _met_empty(entry, points)
    _met_work(entry, points)
    waits = EXPONENTIAL_POINTS if entry.blocked_points is None else entry.blocked_points
    held = (entry.blocked_s / np.maximum(entry.blocked, 1e-12))[:, None] * waits
    own = (entry.own_s * entry.beside[:, :, None]).sum(axis=1)
    by_size = 1.0 if entry.blocked_order is None else entry.blocked_order[:, None, :]
    value, weight = points.take(len(EXPONENTIAL_WEIGHTS), bins)
    value[...] = (entry.mean_wait_s[:, None] + held)[:, :, None] * by_size + own[:, None, :]
    weight[...] = (entry.blocked[:, None] * EXPONENTIAL_WEIGHTS)[:, :, None] * entry.own_bins.weight
    if entry.held is not None and entry.held_s is not None:
        points.weight *= (1.0 - entry.held)[:, None]
        value, weight = points.take(len(RAMP), bins)
        uniform = 2.0 * RAMP * (entry.held_s / np.maximum(entry.held, 1e-12))[:, None]
        value[...] = (entry.mean_wait_s + entry.blocked_s)[:, None, None] + uniform[:, :, None] + own[:, None, :]
        weight[...] = entry.held[:, None, None] / len(RAMP) * entry.own_bins.weight
    return Mixture(points.value, points.weight)


class _Points:
    """Room for all points of `n` mixtures: what is written once need not be joined."""

    def __init__(self, n: int, size: int) -> None:
        self.value, self.weight = np.empty((n, size)), np.zeros((n, size))
        self._start = 0

    def take(self, *shape: int) -> tuple[FloatArray, FloatArray]:
        """The next points and their weights, of shape (n, *shape), to be written."""
        stop = self._start + math.prod(shape)
        where, n = slice(self._start, stop), len(self.value)
        self._start = stop
        return self.value[:, where].reshape(n, *shape), self.weight[:, where].reshape(n, *shape)


def _met_empty(entry: Entry, points: _Points) -> None:
    """Write points of TTFT of those that find no prompts ahead: without and with some behind.

    Without a wait to smooth it the distribution is that of the sizes: two points for each slice of them.
    """
    n, j = entry.waits.shape
    idle = np.zeros((n, j, 1)) if entry.residual_s is None else entry.residual_s[:, :, None] * 2.0 * RESIDUALS
    share = (1.0 - entry.blocked)[:, None] * entry.beside * (1.0 - entry.waits) * 0.5 / idle.shape[2]
    weight = np.broadcast_to(share[:, :, None], idle.shape)[..., None] * entry.own_bins.weight
    company = entry.behind_lone
    chance = company.chance[:, :, None]
    gap = bounded(entry.own_bins.spread_of(entry.own_s), 0.0, entry.own_s)
    for own in (entry.own_s - gap, entry.own_s + gap):
        lone, lone_weight = points.take(*weight.shape[1:])
        np.add(idle[..., None], own[:, :, None], out=lone)
        np.multiply(weight, 1.0 - chance, out=lone_weight)
        met, met_weight = points.take(*weight.shape[1:])
        np.add(lone, company.extra_s[:, :, None], out=met)
        np.multiply(weight, chance, out=met_weight)


def _met_work(entry: Entry, points: _Points) -> None:
    """Write those of those that wait for prompts ahead."""
    share = (1.0 - entry.blocked)[:, None] * entry.beside * entry.waits
    weight = (share[:, :, None] * WAIT_WEIGHTS)[..., None] * entry.own_bins.weight
    wait = entry.wait_s[..., None]
    if entry.order is not None:
        wait = wait * entry.order[:, :, None]
    company = entry.behind
    lone, lone_weight = points.take(*weight.shape[1:])
    np.add(wait, entry.own_s[:, :, None], out=lone)
    np.multiply(weight, 1.0 - company.chance, out=lone_weight)
    met, met_weight = points.take(*weight.shape[1:])
    np.add(lone, company.extra_s, out=met)
    np.multiply(weight, company.chance, out=met_weight)


def _outer(a: FloatArray, wa: FloatArray, b: FloatArray, wb: FloatArray, smooth: bool) -> Mixture:
    """The mixture of a sum of two independent parts."""
    n = len(a)
    return Mixture(
        (a[:, :, None] + b[:, None, :]).reshape(n, -1),
        (wa[:, :, None] * wb[:, None, :]).reshape(n, -1),
        smooth,
    )


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
    n = len(step)
    start = ttft.quantiles(TTFT_SHARES)
    bins = lengths.decode_bins
    few, few_weight = _few(waits, wait_weights)
    decode = (step[:, None, None] * bins.size + few[:, :, None]).reshape(n, -1)
    weight = (few_weight[:, :, None] * bins.weight).reshape(n, -1) * lengths.decoding_share
    decode = side_by_side(decode, np.zeros((n, 1)))
    weight = side_by_side(weight, np.full((n, 1), 1.0 - lengths.decoding_share))
    return _outer(start, np.broadcast_to(TTFT_WEIGHTS, start.shape), decode, weight, len(bins.size) > 1)


def _few(waits: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """No wait, and short, long and extreme ones in three groups of slices."""
    cuts = [0, 1, 4, 6, waits.shape[1]]
    mass = np.stack([weights[:, a:b].sum(axis=1) for a, b in pairwise(cuts)], axis=1)
    total = np.stack([(weights * waits)[:, a:b].sum(axis=1) for a, b in pairwise(cuts)], axis=1)
    return np.where(mass > 0, total / np.where(mass > 0, mass, 1.0), waits[:, :1]), mass
