"""The prompt queue of a prefill engine: prompts packed first come, first served into iterations up to a budget.

A single server whose work per prompt falls with packing.  The wait is that of GI/G/1: the root σ of the arrival
transform gives the probability to wait (ρ for Poisson arrivals, Pollaczek–Khinchine then follows), its mean is
scaled to the variability of service.  Prompts packed into one iteration end together: a prompt also waits for those
that came behind it and still fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.company import Company, Packer
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompt_service import light_service, packed_service
from hydra_dse.estimator.surroundings import modulated_load
from hydra_dse.estimator.transient import Transient, critical, follow, ramp, settled_load

FloatArray = NDArray[np.float64]

WAIT_EDGES = (0.0, 0.08, 0.18, 0.3, 0.42, 0.54, 0.66, 0.78, 0.88, 0.95, 0.98, 0.99, 0.995, 1.0)
ROUNDING = 2.0**-52
WAIT_WEIGHTS = np.diff(WAIT_EDGES)


def arrival_root(load: FloatArray, scv: float) -> FloatArray:
    """σ of GI/M/1 with gamma gaps: `σ = (1 + (1 − σ)·c²/ρ)^(−1/c²)`; ρ for c² = 1, deterministic for c² → 0."""
    rho = bounded(load, 1e-12, 1.0 - 1e-9)
    if abs(scv - 1.0) < 1e-12:
        return np.asarray(rho)
    sigma = np.asarray(rho)
    for _ in range(60):
        gap = (1.0 - sigma) / rho
        value = np.exp(-gap) if scv < 1e-9 else (1.0 + gap * scv) ** (-1.0 / scv)
        slope = value / rho / (1.0 if scv < 1e-9 else 1.0 + gap * scv)
        # Newton on value − σ; the root below 1 is approached from either side because value is convex.
        before = sigma
        sigma = bounded(sigma - (value - sigma) / np.minimum(slope - 1.0, -1e-9), 0.0, 1.0 - 1e-12)
        if not (np.abs(sigma - before) > ROUNDING).any():
            break
    return np.asarray(sigma)


@dataclass(frozen=True)
class PromptQueue:
    """Stationary prompt queue, each of shape (n, j) unless stated.

    Attributes:
        busy: share of time the engine works on prompts.
        packing: prompts per iteration.
        full_share: share of prompts served in full iterations.
        service_s, service_square: mean engine time per prompt, and its second moment.
        waits: probability to wait for work ahead.
        wait_s: mean wait of those that wait.
        wait_shape: shape of a gamma distribution of that wait.
        packer: of prompts behind one.
        left_s: prompt work at the end of a piece of time, shape (n,); None where the queue is stationary.
        points: the waits in slices where a path was followed, shape (n, j, slices); None = gamma.
        dispersion: peakedness of the first tokens along the path, shape (n,).
    """

    busy: FloatArray
    packing: FloatArray
    full_share: FloatArray
    service_s: FloatArray
    service_square: FloatArray
    waits: FloatArray
    wait_s: FloatArray
    wait_shape: FloatArray
    packer: Packer
    left_s: FloatArray | None = None
    points: FloatArray | None = None
    dispersion: FloatArray | None = None

    @cached_property
    def mean_wait_s(self) -> FloatArray:
        """Mean time from arrival to the first token beyond the prompt's own isolated time."""
        return np.asarray(self.waits * self.wait_s + self.company_s)

    @cached_property
    def company_s(self) -> FloatArray:
        """Mean extra time for prompts packed behind."""
        waiting = self.behind.mean_s(self.packer.bin_weight) @ WAIT_WEIGHTS
        return np.asarray(self.waits * waiting + (1.0 - self.waits) * self.behind_lone.mean_s(self.packer.bin_weight))

    @cached_property
    def behind(self) -> Company:
        """Prompts packed behind one that waits, by the slice of its wait and its size."""
        return self.packer.behind(self.wait_points)

    @cached_property
    def behind_lone(self) -> Company:
        """Prompts packed behind one that does not wait, by its size."""
        return self.packer.behind(np.zeros_like(self.waits))

    @cached_property
    def wait_points(self) -> FloatArray:
        """Mean wait of those that wait in the slices of `WAIT_EDGES`, shape (n, j, slices)."""
        if self.points is not None:
            return self.points
        return gamma_slices(self.wait_s, self.wait_shape, WAIT_EDGES)


def prompt_queue(
    rate: FloatArray,
    times: PrefillTimes,
    lengths: LengthMoments,
    arrival_scv: float,
    change_per_s: FloatArray | None = None,
    shortest_first: bool = False,
    transient: Transient | None = None,
    beside: FloatArray | None = None,
    life_s: FloatArray | None = None,
    phases: Phases | None = None,
    own_engine: bool = False,
) -> PromptQueue:
    """Solve the queue at arrival rates of shape (n, j).

    Args:
        rate: arrivals per second.
        times: of prompts alone and packed.
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
        change_per_s: rate at which the columns, states of the surroundings, change, shape (n,); None = they stand.
        shortest_first: scale the mean wait to shortest-prompt-first order.
        transient: the piece of time in which the queue need not settle.
        beside: weights of the columns j, where there are several.
        life_s: of a request after its prompt, shape (n,), for the dispersion.
        phases: of the arrivals, which are Poisson within.
        own_engine: whether prompts have an engine of their own, which starts as soon as one comes.
    """
    weight = lengths.prompt_bins.weight
    service, packing, full = packed_service(rate, times, lengths, arrival_scv, own_engine)
    mean = service @ weight
    second, third = service**2 @ weight, service**3 @ weight
    busy = rate * mean
    scv = second / mean**2 - 1.0
    effective = busy
    diffusion = rate * mean**2 * (arrival_scv + scv)
    if transient is not None:
        effective = critical(transient.offered[:, None] * mean)
    if change_per_s is not None and beside is not None:
        effective = modulated_load(effective, diffusion, change_per_s[:, None], beside)
    if transient is not None:
        effective = settled_load(effective, diffusion, transient.horizon_per_s)
    sigma = arrival_root(effective, arrival_scv)
    left, whole, each = sigma, mean, scv
    if own_engine:
        # What waits goes into the next iteration: so far as iterations cost the same whatever they hold, one waits for
        # the rest of one, and for more only of what full iterations leave.
        fixed = np.clip(times.shared_s / (times.alone_s @ weight), 0.0, 1.0)
        together = 1.0 + (packing - 1.0) * fixed
        whole, each = mean * together, scv / together
        packed = np.clip(effective * lengths.prompt * times.token_s / mean, 0.0, 1.0)
        left = arrival_root(packed, arrival_scv)
    gain = shortest_first_gain(effective, service, weight) if shortest_first else np.ones_like(mean)
    if phases is not None and transient is None:
        sigma = phases.loads(rate, effective, rate * second)
        left = sigma if not own_engine else phases.loads(rate, packed, rate * second * (packed / effective) ** 2)
        found = _phased(phases, sigma, left, gain * whole * (1.0 + each) / 2.0, whole**2 * third / (3.0 * mean**3))
    else:
        wait = gain * whole / (1.0 - left) * (arrival_scv + each) / (arrival_scv + 1.0)
        m2 = 2.0 * left * wait**2 + whole**2 * third / mean**3 / (3.0 * (1.0 - left))
        found = Unsettled(sigma, wait, np.clip(wait**2 / np.maximum(m2 - wait**2, 1e-300), 0.05, 50.0))
    if transient is not None:
        columns = np.ones_like(mean) / mean.shape[1] if beside is None else beside
        if transient.path is not None:
            gain = shortest_first_gain(effective, service, weight) if shortest_first else np.ones_like(mean)
            light = light_service(times, packing, lengths)
            life = np.full(len(mean), np.inf) if life_s is None else life_s
            found = _followed(transient, light, times, lengths, columns, life, gain)
        else:
            found = _drained(transient, found, (mean * columns).sum(axis=1))
    return PromptQueue(
        busy,
        packing,
        full,
        mean,
        second,
        found.waits,
        found.wait_s,
        found.shape,
        Packer(rate, times, lengths, arrival_scv),
        found.left_s,
        found.points,
        found.dispersion,
    )


@dataclass(frozen=True)
class Unsettled:
    """Waits as in `PromptQueue`, of a piece of time or, without what follows `shape`, stationary."""

    waits: FloatArray
    wait_s: FloatArray
    shape: FloatArray
    left_s: FloatArray | None = None
    points: FloatArray | None = None
    dispersion: FloatArray | None = None


def _phased(phases: Phases, sigma: FloatArray, left: FloatArray, alone: FloatArray, rest: FloatArray) -> Unsettled:
    """Waits of arrivals in phases: the mixture of the queues that each phase meets.

    Args:
        phases: of the arrivals.
        sigma: probability to wait by phase, (n, j, 2).
        left: load of what makes one wait for more than an iteration, (n, j, 2).
        alone: mean wait without a queue, (n, j).
        rest: mean square of it, (n, j).
    """
    each = alone[..., None] / (1.0 - left)
    square = 2.0 * left * each**2 + rest[..., None] / (1.0 - left)
    waits = sigma @ phases.met
    wait = (sigma * each) @ phases.met / np.maximum(waits, 1e-300)
    m2 = (sigma * square) @ phases.met / np.maximum(waits, 1e-300)
    return Unsettled(waits, wait, np.clip(wait**2 / np.maximum(m2 - wait**2, 1e-300), 0.05, 50.0))


def _followed(
    transient: Transient,
    light: FloatArray,
    times: PrefillTimes,
    lengths: LengthMoments,
    beside: FloatArray,
    life_s: FloatArray,
    gain: FloatArray,
) -> Unsettled:
    """Waits along the recorded path, with service times averaged over the columns."""
    mean_light = (light * beside[..., None]).sum(axis=1)
    token_s, full_s = (times.token_s * beside).sum(axis=1), (times.full_s * beside).sum(axis=1)
    found = follow(transient, mean_light, token_s, full_s, lengths.prompt_bins, life_s, WAIT_EDGES)
    waits = np.repeat(found.waits[:, None], beside.shape[1], axis=1)
    wait = found.wait_s[:, None] * gain
    points = found.points[:, None] * gain[..., None]
    return Unsettled(waits, wait, np.ones_like(wait), found.left_s, points, found.dispersion)


def _drained(transient: Transient, settled: Unsettled, service_s: FloatArray) -> Unsettled:
    """The queue of a start from empty, on top of a fluid."""
    found = ramp(transient.left_s, transient.offered * service_s - 1.0, transient.duration_s)
    extra, share = found.mean[:, None], found.share[:, None]
    waits = settled.waits + (1.0 - settled.waits) * share
    wait = (settled.waits * settled.wait_s + extra) / np.maximum(waits, 1e-300)
    # A ramp is uniform: E[x²] = 4/3·E[x]² while it lasts.
    each = extra / np.maximum(share, 1e-300)
    square = settled.waits * settled.wait_s**2 * (1.0 + 1.0 / settled.shape)
    square = square + share * each * (4.0 / 3.0 * each + 2.0 * settled.waits * settled.wait_s)
    square = square / np.maximum(waits, 1e-300)
    shape = bounded(wait**2 / np.maximum(square - wait**2, 1e-300), 0.05, 50.0)
    return Unsettled(waits, wait, shape, found.left)


def shortest_first_gain(load: FloatArray, service: FloatArray, weight: FloatArray) -> FloatArray:
    """Mean wait of shortest-first over first come, first served: `(1 − ρ)·E[1/((1 − ρ₋)(1 − ρ₊))]`.

    ρ₋ and ρ₊ are the loads of all smaller sizes without and with a size's own slice (Cobham's formula).
    """
    work = service * weight
    upto = load[..., None] * np.cumsum(work, axis=-1) / work.sum(axis=-1, keepdims=True)
    below = upto - load[..., None] * work / work.sum(axis=-1, keepdims=True)
    return np.asarray((1.0 - load) * ((1.0 / ((1.0 - below) * (1.0 - upto))) @ weight))
