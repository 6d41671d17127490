"""What simulation taught about the estimator, carried over to designs that were not simulated.

Per objective the log of simulated over estimated value is fitted by ridge regression on the log of the estimates, the
load and the numeric parameters of the design; the strength of the ridge is chosen by leave-one-out error, an infinite
one included (one common factor for all designs).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

RIDGES = (0.1, 1.0, 10.0, 100.0, np.inf)
"""Penalties on standardised features, tried in this order."""


@dataclass(frozen=True, eq=False)
class Residual:
    """A fitted correction: `value = estimate · exp(offset + features · weights)`.

    Attributes:
        error: leave-one-out root mean square of what is left, in the log (a relative error).
        before: the same without a correction.
    """

    offset: float
    weights: FloatArray
    centre: FloatArray
    scale: FloatArray
    error: float
    before: float

    def corrected(self, estimates: FloatArray, features: FloatArray) -> FloatArray:
        """Estimates, shape (designs,), as simulation would find them."""
        normal = np.clip((features - self.centre) / self.scale, -3.0, 3.0)
        return np.asarray(estimates * np.exp(self.offset + normal @ self.weights))


def fit_residual(estimates: FloatArray, simulated: FloatArray, features: FloatArray) -> Residual:
    """Fit on simulated designs.

    Args:
        estimates: positive values, shape (designs,).
        simulated: the same from simulation.
        features: shape (designs, features), finite.
    """
    target = np.log(simulated / estimates)
    centre, scale = features.mean(axis=0), features.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    normal = (features - centre) / scale
    errors = [_left_out(normal, target, ridge) for ridge in RIDGES]
    # Of equal errors the strongest ridge: the simplest correction that does as well.
    best = max(range(len(RIDGES)), key=lambda index: (-errors[index], RIDGES[index]))
    weights = _weights(normal, target, RIDGES[best])
    before = float(np.sqrt(np.mean(target**2)))
    return Residual(float(target.mean()), weights, centre, scale, errors[best], before)


def _weights(normal: FloatArray, target: FloatArray, ridge: float) -> FloatArray:
    if not np.isfinite(ridge):
        return np.zeros(normal.shape[1])
    gram = normal.T @ normal + ridge * np.eye(normal.shape[1])
    return np.linalg.solve(gram, normal.T @ (target - target.mean()))


def _left_out(normal: FloatArray, target: FloatArray, ridge: float) -> float:
    """Leave-one-out error by the hat matrix (exact for a linear smoother with a free mean)."""
    count = len(target)
    if count < 2:
        return float(np.sqrt(np.mean(target**2))) if np.isfinite(ridge) else 0.0
    hat = np.full((count, count), 1.0 / count)
    if np.isfinite(ridge):
        gram = normal.T @ normal + ridge * np.eye(normal.shape[1])
        hat = hat + normal @ np.linalg.solve(gram, normal.T)
    left = (target - hat @ target) / np.maximum(1.0 - np.diag(hat), 1e-9)
    return float(np.sqrt(np.mean(left**2)))
