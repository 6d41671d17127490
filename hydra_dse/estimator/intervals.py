"""90 % intervals of an estimate: surrogate error by load and burstiness, and calibration error.

The surrogate part is a relative error measured against simulation, with the same iteration times and of placed
designs, on the tuning sets of `benchmarks/validation` (docs/validation.md): its 90th percentile at a few loads,
interpolated; burstiness and nearly full memory add to it.  The coverage on the test sets is stated there.
The calibration part is the error of operator times, 1.645 standard deviations; a latency near saturation amplifies
an error of the service time by the elasticity `1/(1 − load)` of its queueing part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, known
from hydra_dse.estimator.derived_intervals import derive_bounds

FloatArray = NDArray[np.float64]

LOADS = (0.0, 0.5, 0.7, 0.85, 0.95)
_AT = np.array(LOADS)
NORMAL_90 = 1.645
"""Standard deviations of a normal variable to either side that hold 90 %."""
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


SATURATION = ErrorModel((0.010, 0.010, 0.010, 0.010, 0.010), 0.000, 0.000, 0.12)
TTFT_MEAN = ErrorModel((0.010, 0.046, 0.066, 0.185, 0.185), 0.011, 0.012, 2.12, queueing=True)
TTFT_P50 = ErrorModel((0.010, 0.085, 0.085, 0.190, 0.190), 0.047, 0.019, 4.35, queueing=True)
TTFT_P90 = ErrorModel((0.010, 0.077, 0.184, 0.234, 0.295), 0.028, 0.000, 1.86, queueing=True)
TTFT_P99 = ErrorModel((0.010, 0.149, 0.149, 0.149, 0.149), 0.006, 0.007, 1.51, queueing=True)
TPOT_MEAN = ErrorModel((0.015, 0.015, 0.017, 0.047, 0.079), 0.000, 0.005, 0.09)
TPOT_P90 = ErrorModel((0.010, 0.026, 0.039, 0.051, 0.077), 0.017, 0.002, 0.20)
TPOT_P99 = ErrorModel((0.010, 0.061, 0.061, 0.122, 0.122), 0.081, 0.026, 1.30)
E2E_MEAN = ErrorModel((0.010, 0.010, 0.019, 0.034, 0.236), 0.004, 0.001, 0.31)
E2E_P90 = ErrorModel((0.066, 0.066, 0.067, 0.067, 0.675), 0.008, 0.000, 0.22)
E2E_P99 = ErrorModel((0.010, 0.104, 0.104, 0.104, 0.838), 0.005, 0.000, 0.10)
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
    used = sum((known(metrics.get(name, none)) for name in ("kv_occupancy", "state_occupancy")), none)
    return bounded((used - MEMORY[0]) / (MEMORY[1] - MEMORY[0]), 0.0, 1.0)


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
    load, memory = bounded(metrics["load"], 0.0, 1.0), pressure(metrics)
    gain = np.minimum(1.0 / np.maximum(1.0 - load, 0.05), 5.0)
    names = [name for name in ERRORS if name in metrics]
    models = _stacked(tuple(dict.fromkeys(ERRORS[name] for name in names)))
    left = np.minimum(np.searchsorted(_AT[1:-1], load, side="right"), len(_AT) - 2)
    share = np.minimum((load - _AT[left]) / (_AT[left + 1] - _AT[left]), 1.0)
    surrogate = models.at_loads[:, left] + share * models.rise[:, left]
    burst = models.per_dispersion if phased else models.per_burstiness
    surrogate += burst * abs(arrival_scv - 1.0) + models.full_memory * memory
    widths = 1.0 + np.hypot(surrogate, NORMAL_90 * calibration_error * np.where(models.queueing, gain, 1.0))
    values, each = np.array([metrics[name] for name in names]), widths[[models.place[ERRORS[name]] for name in names]]
    low, high = dict(zip(names, values / each, strict=True)), dict(zip(names, values * each, strict=True))
    derive_bounds(metrics, low, high, USE.at_loads[0])
    return low, high


@dataclass(frozen=True, eq=False)
class _Models:
    """Error models as arrays: of shape (models, loads) and (models, loads − 1), the others (models, 1)."""

    place: dict[ErrorModel, int]
    at_loads: FloatArray
    rise: FloatArray
    per_burstiness: FloatArray
    per_dispersion: FloatArray
    full_memory: FloatArray
    queueing: FloatArray


@lru_cache(maxsize=16)
def _stacked(models: tuple[ErrorModel, ...]) -> _Models:
    at_loads = np.array([model.at_loads for model in models])
    rest = [(m.per_burstiness, m.per_dispersion, m.full_memory, float(m.queueing)) for m in models]
    columns = np.array(rest).T[:, :, None]
    return _Models({model: at for at, model in enumerate(models)}, at_loads, np.diff(at_loads, axis=1), *columns)
