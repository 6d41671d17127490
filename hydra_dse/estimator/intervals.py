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
TTFT_MEAN = ErrorModel((0.010, 0.043, 0.066, 0.185, 0.185), 0.012, 0.012, 2.12, queueing=True)
TTFT_P50 = ErrorModel((0.048, 0.066, 0.066, 0.357, 0.357), 0.059, 0.020, 4.18, queueing=True)
TTFT_P90 = ErrorModel((0.010, 0.053, 0.185, 0.207, 0.271), 0.036, 0.002, 1.89, queueing=True)
TTFT_P99 = ErrorModel((0.010, 0.148, 0.148, 0.148, 0.148), 0.006, 0.007, 1.52, queueing=True)
TPOT_MEAN = ErrorModel((0.015, 0.015, 0.015, 0.063, 0.063), 0.001, 0.006, 0.08)
TPOT_P90 = ErrorModel((0.010, 0.025, 0.045, 0.051, 0.076), 0.019, 0.003, 0.21)
TPOT_P99 = ErrorModel((0.010, 0.056, 0.056, 0.132, 0.132), 0.089, 0.034, 1.29)
E2E_MEAN = ErrorModel((0.011, 0.011, 0.019, 0.068, 0.272), 0.004, 0.000, 0.28)
E2E_P90 = ErrorModel((0.045, 0.045, 0.050, 0.071, 0.701), 0.008, 0.000, 0.21)
E2E_P99 = ErrorModel((0.010, 0.069, 0.069, 0.137, 0.929), 0.000, 0.000, 0.11)
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
