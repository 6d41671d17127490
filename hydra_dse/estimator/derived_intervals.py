"""Bounds of metrics that follow from others: rates from the saturation, shares from the batch, ratios from their parts.

Where a metric is a quotient or a minimum of bounded ones, its bounds are those of the worst and the best case, which is
wider than the 90 % of independent errors.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from hydra_dse.results.metrics import UTILIZATION

FloatArray = NDArray[np.float64]
Bounds = dict[str, FloatArray]

SHARES = ("hbm_utilization", "noi_utilization_max", "kv_occupancy", "state_occupancy")
"""Metrics that cannot exceed 1."""


def derive_bounds(metrics: Mapping[str, FloatArray], low: Bounds, high: Bounds, use_error: float) -> None:
    """Add bounds of derived metrics, in place.

    Args:
        metrics: of the estimate.
        low: bounds that have an error model of their own.
        high: the same, above.
        use_error: relative error of how busy dies are.
    """
    with np.errstate(all="ignore"):  # infeasible designs have NaN, idle ones zeros
        _derive(metrics, low, high, use_error)


def _derive(metrics: Mapping[str, FloatArray], low: Bounds, high: Bounds, use_error: float) -> None:
    _served(metrics, low, high)
    _like(metrics, low, high, "batch_mean", ("kv_occupancy", "state_occupancy"))
    _like(metrics, low, high, "ttft_mean_s", ("ttft_scheduled_mean_s",))
    _like(metrics, low, high, "saturation_requests_per_s", ("max_rate_requests_per_s",))
    busy = [name for name in metrics if name.startswith(UTILIZATION) or name in SHARES]
    for name in busy:
        low.setdefault(name, metrics[name] / (1.0 + use_error))
        high[name] = np.minimum(high.get(name, metrics[name] * (1.0 + use_error)), np.maximum(metrics[name], 1.0))
    _ratio(metrics, low, high, "throughput_tokens_per_s_per_w", "throughput_tokens_per_s", "power_w")
    _ratio(metrics, low, high, "throughput_per_ttft_tokens_per_s2", "throughput_tokens_per_s", "ttft_mean_s")
    if "tpot_mean_s" in low and "output_tokens_per_s_per_user" in metrics:
        low["output_tokens_per_s_per_user"] = 1.0 / high["tpot_mean_s"]
        high["output_tokens_per_s_per_user"] = 1.0 / low["tpot_mean_s"]


def _served(metrics: Mapping[str, FloatArray], low: Bounds, high: Bounds) -> None:
    """What is served is what is offered, or the saturation rate where that is less."""
    saturation, offered = metrics.get("saturation_requests_per_s"), metrics.get("offered_requests_per_s")
    if saturation is None or offered is None or "saturation_requests_per_s" not in low:
        return
    below, above = low["saturation_requests_per_s"], high["saturation_requests_per_s"]
    low["load"], high["load"] = offered / above, offered / below
    for name in ("throughput_requests_per_s", "throughput_tokens_per_s"):
        if name in metrics:
            value, limit = metrics[name], np.minimum(offered, saturation)
            low[name] = np.minimum(value, value * np.minimum(offered, below) / limit)
            high[name] = np.maximum(value, value * np.minimum(offered, above) / limit)


def _like(metrics: Mapping[str, FloatArray], low: Bounds, high: Bounds, known: str, names: tuple[str, ...]) -> None:
    """Metrics with the relative bounds of another one."""
    if known not in low:
        return
    for name in names:
        if name in metrics:
            low[name] = metrics[name] * _relative(low[known], metrics[known])
            high[name] = metrics[name] * _relative(high[known], metrics[known])


def _relative(bound: FloatArray, value: FloatArray) -> FloatArray:
    """Bound over value; 1 where the value is 0 and so tells nothing."""
    return np.divide(bound, value, out=np.ones_like(value), where=value != 0.0)


def _ratio(metrics: Mapping[str, FloatArray], low: Bounds, high: Bounds, name: str, upper: str, lower: str) -> None:
    if name in metrics and upper in low and lower in low:
        low[name], high[name] = low[upper] / high[lower], high[upper] / low[lower]
