"""90 % intervals of an estimate: surrogate error by load and burstiness, and calibration error.

The surrogate part is a relative error measured against simulation with the same iteration times, on the tuning set of
`benchmarks/validation` (docs/validation.md): its 90th percentile at a few loads, interpolated; burstiness and nearly
full memory add to it.  The coverage on the test set is stated there.
The calibration part is the error of operator times, 1.645 standard deviations; a latency near saturation amplifies
an error of the service time by the elasticity `1/(1 − load)` of its queueing part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.derived_intervals import derive_bounds

FloatArray = NDArray[np.float64]

LOADS = (0.0, 0.5, 0.7, 0.85, 0.95)
NORMAL_90 = 1.645
# Shares of the cache memory in use between which it begins to decide who is served.
MEMORY = (0.3, 0.7)


@dataclass(frozen=True)
class ErrorModel:
    """90th percentile of the relative error.

    Attributes:
        at_loads: at `LOADS`.
        per_burstiness: how much is added per unit of |c_a² − 1|.
        per_dispersion: the same of arrivals in phases, per unit of the index of dispersion beyond 1.
        full_memory: how much is added where the cache memory is full (`pressure` 1).
        queueing: whether an error of operator times grows with the load.
    """

    at_loads: tuple[float, ...]
    per_burstiness: float = 0.0
    per_dispersion: float = 0.0
    full_memory: float = 0.0
    queueing: bool = False


SATURATION = ErrorModel((0.01, 0.01, 0.01, 0.0111, 0.0111), 0.00129, 0.00592, 0.12)
TTFT_MEAN = ErrorModel((0.0246, 0.0438, 0.0768, 0.172, 0.172), 0.000661, 0.502, 2.4, queueing=True)
TTFT_P50 = ErrorModel((0.065, 0.065, 0.065, 0.231, 0.357), 0.00251, 0.9, 6.6, queueing=True)
TTFT_P90 = ErrorModel((0.01, 0.125, 0.125, 0.133, 0.2), 0.000173, 0.63, 2, queueing=True)
TTFT_P99 = ErrorModel((0.01, 0.214, 0.335, 0.335, 0.335), 0, 0.0696, 1.3, queueing=True)
TPOT_MEAN = ErrorModel((0.01, 0.01, 0.0256, 0.0689, 0.256), 0.000591, 0.0107, 0.011)
TPOT_P90 = ErrorModel((0.0138, 0.0138, 0.0714, 0.0929, 0.526), 0.00791, 0.0188, 0.11)
TPOT_P99 = ErrorModel((0.01, 0.0526, 0.162, 0.162, 1.39), 0.0513, 0.0296, 1)
E2E_MEAN = ErrorModel((0.01, 0.01, 0.0119, 0.0531, 1.08), 0, 0.0233, 0.12)
E2E_P90 = ErrorModel((0.01, 0.0542, 0.0542, 0.105, 0.522), 0.00307, 0.0089, 0.35)
E2E_P99 = ErrorModel((0.0832, 0.0832, 0.118, 0.159, 0.313), 0.000172, 0, 0.38)
# Not in the comparison: the least that was measured of energies and shares of placed designs.
USE = ErrorModel((0.05,) * 5)

ERRORS: dict[str, ErrorModel] = {
    "ttft_mean_s": TTFT_MEAN,
    "ttft_p50_s": TTFT_P50,
    "ttft_p90_s": TTFT_P90,
    "ttft_p99_s": TTFT_P99,
    "tpot_mean_s": TPOT_MEAN,
    "tpot_p50_s": TPOT_MEAN,
    "tpot_p90_s": TPOT_P90,
    "tpot_p99_s": TPOT_P99,
    "tbt_mean_s": TPOT_MEAN,
    "tbt_p50_s": TPOT_MEAN,
    "tbt_p90_s": TPOT_P90,
    "tbt_p99_s": TPOT_P99,
    "e2e_mean_s": E2E_MEAN,
    "e2e_p50_s": E2E_P90,
    "e2e_p90_s": E2E_P90,
    "e2e_p99_s": E2E_P99,
    "saturation_requests_per_s": SATURATION,
    "saturation_tokens_per_s": SATURATION,
    "batch_mean": TPOT_MEAN,
    "power_w": USE,
    "energy_j_per_token": USE,
    "hbm_utilization": USE,
    "noi_utilization_max": USE,
}


def pressure(metrics: dict[str, FloatArray]) -> FloatArray:
    """How near the cache memory is to full, 0 to 1, shape (n,)."""
    none = np.zeros_like(metrics["load"])
    used = sum((np.nan_to_num(metrics.get(name, none)) for name in ("kv_occupancy", "state_occupancy")), none)
    return np.clip((used - MEMORY[0]) / (MEMORY[1] - MEMORY[0]), 0.0, 1.0)


def intervals_of(
    metrics: dict[str, FloatArray], arrival_scv: float, calibration_error: float, phased: bool = False
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Lower and upper bounds of the metrics that have an error model, or follow from such.

    Args:
        metrics: of the estimate.
        arrival_scv: squared coefficient of variation of the gaps; of arrivals in phases their index of dispersion.
        calibration_error: one standard deviation of operator times, as a share.
        phased: whether arrivals come in phases.
    """
    low: dict[str, FloatArray] = {}
    high: dict[str, FloatArray] = {}
    load, memory = np.clip(metrics["load"], 0.0, 1.0), pressure(metrics)
    gain = np.minimum(1.0 / np.maximum(1.0 - load, 0.05), 5.0)
    widths: dict[ErrorModel, FloatArray] = {}
    for name, model in ERRORS.items():
        if name not in metrics:
            continue
        if model not in widths:
            burst = model.per_dispersion if phased else model.per_burstiness
            surrogate = np.interp(load, LOADS, model.at_loads) + burst * abs(arrival_scv - 1.0)
            surrogate = surrogate + model.full_memory * memory
            widths[model] = 1.0 + np.hypot(surrogate, NORMAL_90 * calibration_error * (gain if model.queueing else 1.0))
        low[name], high[name] = metrics[name] / widths[model], metrics[name] * widths[model]
    derive_bounds(metrics, low, high, USE.at_loads[0])
    return low, high
