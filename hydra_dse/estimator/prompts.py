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
from hydra_dse.estimator.prompt_waits import (
    WAIT_EDGES,
    WAIT_WEIGHTS,
    PromptWaits,
    drained_waits,
    followed_waits,
    gamma_shape,
    phased_waits,
)
from hydra_dse.estimator.surroundings import modulated_load
from hydra_dse.estimator.transient import Transient, critical, settled_load

FloatArray = NDArray[np.float64]

ROUNDING = 2.0**-52
"""Of a double: a root that moves by less is found."""


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
    mean, second, third = service @ weight, service**2 @ weight, service**3 @ weight
    effective = _load_met(rate, mean, second, arrival_scv, transient, change_per_s, beside)
    gain = shortest_first_gain(effective, service, weight) if shortest_first else np.ones_like(mean)
    own = _own_engine(effective, mean, packing, times, lengths) if own_engine else None
    of_phases = phases if transient is None else None
    found = _settled(rate, effective, (mean, second, third), arrival_scv, gain, own, of_phases)
    if transient is not None:
        columns = np.ones_like(mean) / mean.shape[1] if beside is None else beside
        if transient.path is not None:
            light = light_service(times, packing, lengths)
            life = np.full(len(mean), np.inf) if life_s is None else life_s
            found = followed_waits(transient, light, times, lengths, columns, life, gain)
        else:
            found = drained_waits(transient, found, (mean * columns).sum(axis=1))
    return PromptQueue(
        rate * mean,
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


def _load_met(
    rate: FloatArray,
    mean: FloatArray,
    second: FloatArray,
    arrival_scv: float,
    transient: Transient | None,
    change_per_s: FloatArray | None,
    beside: FloatArray | None,
) -> FloatArray:
    """Load that the queue sees: that of a piece of time, of surroundings that change, and as far as it settles."""
    scv = second / mean**2 - 1.0
    load, diffusion = rate * mean, rate * mean**2 * (arrival_scv + scv)
    if transient is not None:
        load = critical(transient.offered[:, None] * mean)
    if change_per_s is not None and beside is not None:
        load = modulated_load(load, diffusion, change_per_s[:, None], beside)
    return load if transient is None else settled_load(load, diffusion, transient.horizon_per_s)


@dataclass(frozen=True)
class _OwnEngine:
    """An engine that starts as soon as a prompt comes, each of shape (n, j).

    What waits goes into the next iteration: so far as iterations cost the same whatever they hold, one waits for the
    rest of one, and for more only of what full iterations leave.

    Attributes:
        together: prompts that an iteration serves for the time of one.
        packed: load of full iterations.
    """

    together: FloatArray
    packed: FloatArray


def _own_engine(
    load: FloatArray, mean: FloatArray, packing: FloatArray, times: PrefillTimes, lengths: LengthMoments
) -> _OwnEngine:
    fixed = np.clip(times.shared_s / (times.alone_s @ lengths.prompt_bins.weight), 0.0, 1.0)
    packed = np.clip(load * lengths.prompt * times.token_s / mean, 0.0, 1.0)
    return _OwnEngine(1.0 + (packing - 1.0) * fixed, packed)


def _settled(
    rate: FloatArray,
    load: FloatArray,
    service: tuple[FloatArray, FloatArray, FloatArray],
    arrival_scv: float,
    gain: FloatArray,
    own: _OwnEngine | None,
    phases: Phases | None,
) -> PromptWaits:
    """Waits of a queue that settles, or of one that settles within each phase.

    Args:
        rate: arrivals per second, (n, j).
        load: that the queue sees, (n, j).
        service: first three moments of the time per prompt, (n, j) each.
        arrival_scv: squared coefficient of variation of the gaps.
        gain: of the order of the prompts, on the mean wait, (n, j).
        own: of an engine for prompts alone; None = they share one.
        phases: of the arrivals; None = they come alike at all times.
    """
    mean, second, third = service
    whole, each = mean, second / mean**2 - 1.0
    if own is not None:
        whole, each = mean * own.together, each / own.together
    if phases is not None:
        sigma = phases.loads(rate, load, rate * second)
        left = sigma if own is None else phases.loads(rate, own.packed, rate * second * (own.packed / load) ** 2)
        return phased_waits(phases, sigma, left, gain * whole * (1.0 + each) / 2.0, whole**2 * third / (3.0 * mean**3))
    sigma = arrival_root(load, arrival_scv)
    left = sigma if own is None else arrival_root(own.packed, arrival_scv)
    wait = gain * whole / (1.0 - left) * (arrival_scv + each) / (arrival_scv + 1.0)
    square = 2.0 * left * wait**2 + whole**2 * third / mean**3 / (3.0 * (1.0 - left))
    return PromptWaits(sigma, wait, gamma_shape(wait, square))


def shortest_first_gain(load: FloatArray, service: FloatArray, weight: FloatArray) -> FloatArray:
    """Mean wait of shortest-first over first come, first served: `(1 − ρ)·E[1/((1 − ρ₋)(1 − ρ₊))]`.

    ρ₋ and ρ₊ are the loads of all smaller sizes without and with a size's own slice (Cobham's formula).
    """
    work = service * weight
    upto = load[..., None] * np.cumsum(work, axis=-1) / work.sum(axis=-1, keepdims=True)
    below = upto - load[..., None] * work / work.sum(axis=-1, keepdims=True)
    return np.asarray((1.0 - load) * ((1.0 / ((1.0 - below) * (1.0 - upto))) @ weight))
