"""Metrics of estimated designs that follow from their packages: what they cost to make, and what a token costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.physical import life_factors, package_cost
from hydra_dse.physical.cost import TOKENS

FloatArray = NDArray[np.float64]


def with_cost(table: EstimateTable, designs: Sequence[Design]) -> EstimateTable:
    """Add `unit_cost_usd` of every design, and `cost_usd_per_million_tokens` of those that serve."""
    known: dict[int, tuple[float, float, float]] = {}
    for design in designs:
        package = design.package
        if id(package) not in known:
            known[id(package)] = (package_cost(package).unit, *life_factors(package))
    unit, capital, per_j = np.array([known[id(design.package)] for design in designs], dtype=np.float64).T
    unit = np.where(np.isfinite(unit), unit, np.nan)
    metrics = {**table.metrics, "unit_cost_usd": unit}
    if "power_w" not in metrics:
        return replace(table, metrics=metrics)

    def of_tokens(power_w: FloatArray, tokens_per_s: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray((unit * capital + power_w * per_j) * TOKENS / tokens_per_s)

    power, tokens = metrics["power_w"], metrics["throughput_tokens_per_s"]
    metrics["cost_usd_per_million_tokens"] = of_tokens(power, tokens)
    low, high = dict(table.low), dict(table.high)
    name = "cost_usd_per_million_tokens"
    low[name] = of_tokens(_bound(table.low, "power_w", power), _bound(table.high, "throughput_tokens_per_s", tokens))
    high[name] = of_tokens(_bound(table.high, "power_w", power), _bound(table.low, "throughput_tokens_per_s", tokens))
    return replace(table, metrics=metrics, low=low, high=high)


def _bound(bounds: Mapping[str, FloatArray], name: str, value: FloatArray) -> FloatArray:
    return np.where(np.isfinite(bounds[name]), bounds[name], value) if name in bounds else value
