"""A queue whose server changes speed as its surroundings change, faster or slower than the queue settles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

# Least drift to empty that the surroundings leave on average: near it a queue is as long as what ends it allows.
LEAST_DRIFT = 0.002
STEPS = 12
"""Of Newton's method, at most."""
CONVERGED = 1e-14


def modulated_load(load: FloatArray, diffusion: FloatArray, per_s: FloatArray, weight: FloatArray) -> FloatArray:
    """Loads of stationary queues that are as long as the queue in each state of its surroundings.

    The queue is a reflected Brownian motion of drift `−(1 − ρ_b)`; its surroundings b are drawn anew at rate q.  From
    `x` it is on average at `x − δ/q + e^{−θx}/θ` after an exponential time of that rate, with `θ` the positive root of
    `σ²θ²/2 + δθ = q`.  It starts from where it was, taken as exponential with mean w: averaged over b,
    `Σ π_b (1/(θ_b (1 + θ_b w)) − δ_b/q) = 0` determines w.  One state: `w = σ²/2δ` whatever q.  Slow surroundings: the
    stationary queue of each state.  Fast ones: that of the mean drift.

    Args:
        load: in each state, may exceed 1, shape (n, j).
        diffusion: variance of the net work per second, in s, shape (n, j).
        per_s: rate at which the surroundings change, shape (n, 1).
        weight: probability of each state, shape (n, j).
    """
    share = weight / np.maximum(weight.sum(axis=1, keepdims=True), 1e-300)
    drift = 1.0 - load
    drift = drift + np.maximum(LEAST_DRIFT - (share * drift).sum(axis=1, keepdims=True), 0.0)
    noise = np.maximum(diffusion, 1e-300)
    reach = (drift + np.sqrt(drift**2 + 2.0 * per_s * noise)) / (2.0 * per_s)  # 1/θ
    lost = drift / per_s
    mean = ((share * noise).sum(axis=1) / (2.0 * (share * drift).sum(axis=1)))[:, None]
    for _ in range(STEPS):
        near = reach + mean
        value = (share * (reach**2 / near - lost)).sum(axis=1, keepdims=True)
        slope = -(share * (reach / near) ** 2).sum(axis=1, keepdims=True)
        before, mean = mean, np.maximum(mean - value / slope, 0.0)
        if not (np.abs(mean - before) > CONVERGED * mean).any():
            break
    each = np.maximum(mean - lost + reach**2 / (reach + mean), 1e-300)
    return np.asarray(np.minimum(1.0 - noise / (2.0 * each), 1.0 - 1e-9))
