"""Waits for prompts ahead, and how they differ in phases of the arrivals, along a path and after a start from empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.transient import Transient, follow, ramp

FloatArray = NDArray[np.float64]

WAIT_EDGES = (0.0, 0.08, 0.18, 0.3, 0.42, 0.54, 0.66, 0.78, 0.88, 0.95, 0.98, 0.99, 0.995, 1.0)
WAIT_WEIGHTS = np.diff(WAIT_EDGES)


def gamma_shape(mean: FloatArray, square: FloatArray) -> FloatArray:
    """Shape of a gamma variable of a mean and a mean square, within what the tables of it cover."""
    return bounded(mean**2 / np.maximum(square - mean**2, 1e-300), 0.05, 50.0)


@dataclass(frozen=True)
class PromptWaits:
    """Waits as in `PromptQueue`: stationary or, with what follows `shape`, of a piece of time."""

    waits: FloatArray
    wait_s: FloatArray
    shape: FloatArray
    left_s: FloatArray | None = None
    points: FloatArray | None = None
    dispersion: FloatArray | None = None


def phased_waits(
    phases: Phases, sigma: FloatArray, left: FloatArray, alone: FloatArray, rest: FloatArray
) -> PromptWaits:
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
    return PromptWaits(waits, wait, gamma_shape(wait, m2))


def followed_waits(
    transient: Transient,
    light: FloatArray,
    times: PrefillTimes,
    lengths: LengthMoments,
    beside: FloatArray,
    life_s: FloatArray,
    gain: FloatArray,
) -> PromptWaits:
    """Waits along the recorded path, with service times averaged over the columns.

    Args:
        transient: with the path.
        light: service of a prompt of each size outside full iterations, shape (n, j, bins).
        times: of prompts alone and packed.
        lengths: of the requests.
        beside: weights of the columns, shape (n, j).
        life_s: of a request after its prompt, shape (n,).
        gain: of the order of the prompts, on the mean wait, shape (n, j).
    """
    mean_light = (light * beside[..., None]).sum(axis=1)
    token_s, full_s = (times.token_s * beside).sum(axis=1), (times.full_s * beside).sum(axis=1)
    found = follow(transient, mean_light, token_s, full_s, lengths.prompt_bins, life_s, WAIT_EDGES)
    waits = np.repeat(found.waits[:, None], beside.shape[1], axis=1)
    wait = found.wait_s[:, None] * gain
    points = found.points[:, None] * gain[..., None]
    return PromptWaits(waits, wait, np.ones_like(wait), found.left_s, points, found.dispersion)


def drained_waits(transient: Transient, settled: PromptWaits, service_s: FloatArray) -> PromptWaits:
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
    return PromptWaits(waits, wait, gamma_shape(wait, square), found.left)
