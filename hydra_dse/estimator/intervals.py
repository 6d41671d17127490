"""90 % intervals of an estimate: surrogate error by load and burstiness, and calibration error.

The surrogate part is a relative error measured against an independent iteration-level engine on configurations that
were not used for tuning (docs/concepts/estimator.md): its 90th percentile by band of load, interpolated.
The calibration part is the error of operator times, 1.645 standard deviations; a latency near saturation amplifies
an error of the service time by the elasticity `1/(1 − load)` of its queueing part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

LOADS = (0.0, 0.5, 0.7, 0.85, 0.95)
NORMAL_90 = 1.645


@dataclass(frozen=True)
class ErrorModel:
    """90th percentile of the relative error at `LOADS`, and how much of it is added per unit of |c_a² − 1|."""

    at_loads: tuple[float, ...]
    per_burstiness: float = 0.0
    queueing: bool = False


ERRORS: dict[str, ErrorModel] = {}


def intervals_of(
    metrics: dict[str, FloatArray], arrival_scv: float, calibration_error: float
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Lower and upper bounds of the metrics that have an error model."""
    low: dict[str, FloatArray] = {}
    high: dict[str, FloatArray] = {}
    load = np.clip(metrics["load"], 0.0, 1.0)
    for name, model in ERRORS.items():
        if name not in metrics:
            continue
        surrogate = np.interp(load, LOADS, model.at_loads) + model.per_burstiness * abs(arrival_scv - 1.0)
        gain = 1.0 / np.maximum(1.0 - load, 0.05) if model.queueing else np.ones_like(load)
        width = np.hypot(surrogate, NORMAL_90 * calibration_error * np.minimum(gain, 5.0))
        low[name] = metrics[name] / (1.0 + width)
        high[name] = metrics[name] * (1.0 + width)
    return low, high
