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
COLOCATED = 1.3


@dataclass(frozen=True)
class ErrorModel:
    """90th percentile of the relative error at `LOADS`, and how much of it is added per unit of |c_a² − 1|."""

    at_loads: tuple[float, ...]
    per_burstiness: float = 0.0
    queueing: bool = False


MEAN_WAIT = ErrorModel((0.04, 0.06, 0.12, 0.25, 0.40), 0.06, queueing=True)
MEDIAN_WAIT = ErrorModel((0.10, 0.12, 0.15, 0.22, 0.30), 0.06, queueing=True)
TAIL_WAIT = ErrorModel((0.12, 0.18, 0.25, 0.35, 0.50), 0.08, queueing=True)
STEP = ErrorModel((0.03, 0.04, 0.05, 0.07, 0.10), 0.01)
STEP_TAIL = ErrorModel((0.06, 0.09, 0.14, 0.18, 0.25), 0.03)
END = ErrorModel((0.03, 0.04, 0.06, 0.10, 0.15), 0.02)
END_MEDIAN = ErrorModel((0.06, 0.07, 0.09, 0.13, 0.18), 0.02)
END_TAIL = ErrorModel((0.05, 0.08, 0.14, 0.22, 0.35), 0.04)
RATE = ErrorModel((0.035,) * 5)
USE = ErrorModel((0.05,) * 5)

ERRORS: dict[str, ErrorModel] = {
    "ttft_mean_s": MEAN_WAIT,
    "ttft_p50_s": MEDIAN_WAIT,
    "ttft_p90_s": TAIL_WAIT,
    "ttft_p99_s": TAIL_WAIT,
    "tpot_mean_s": STEP,
    "tpot_p50_s": STEP,
    "tpot_p90_s": STEP_TAIL,
    "tpot_p99_s": STEP_TAIL,
    "tbt_mean_s": STEP,
    "tbt_p50_s": STEP,
    "tbt_p90_s": STEP_TAIL,
    "tbt_p99_s": STEP_TAIL,
    "e2e_mean_s": END,
    "e2e_p50_s": END_MEDIAN,
    "e2e_p90_s": END_TAIL,
    "e2e_p99_s": END_TAIL,
    "saturation_requests_per_s": RATE,
    "saturation_tokens_per_s": RATE,
    "batch_mean": STEP,
    "power_w": USE,
    "energy_j_per_token": USE,
    "hbm_utilization": USE,
    "noi_utilization_max": USE,
}


def intervals_of(
    metrics: dict[str, FloatArray], arrival_scv: float, calibration_error: float, colocated: bool = False
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Lower and upper bounds of the metrics that have an error model.

    Colocated pools, whose prompts and decoders share iterations, were measured to err more by `COLOCATED`.
    """
    wider = COLOCATED if colocated else 1.0
    low: dict[str, FloatArray] = {}
    high: dict[str, FloatArray] = {}
    load = np.clip(metrics["load"], 0.0, 1.0)
    for name, model in ERRORS.items():
        if name not in metrics:
            continue
        surrogate = np.interp(load, LOADS, model.at_loads) + model.per_burstiness * abs(arrival_scv - 1.0)
        surrogate = surrogate * wider
        gain = 1.0 / np.maximum(1.0 - load, 0.05) if model.queueing else np.ones_like(load)
        width = np.hypot(surrogate, NORMAL_90 * calibration_error * np.minimum(gain, 5.0))
        low[name] = metrics[name] / (1.0 + width)
        high[name] = metrics[name] * (1.0 + width)
    return low, high
