"""Metrics of a simulated package that do not come from events: areas and cost."""

from __future__ import annotations

import math

from hydra_dse.hardware.components import Package
from hydra_dse.physical import area_mm2, interposer_mm2, package_cost, usd_per_million_tokens
from simulators.serving.metrics import Summary


def add_package(summary: Summary, package: Package) -> None:
    """Add areas, unit cost, and the cost of tokens at the measured power and throughput."""
    summary.put("area_mm2", area_mm2(package))
    summary.put("interposer_mm2", interposer_mm2(package))
    unit = package_cost(package).unit
    if not math.isfinite(unit):
        return
    summary.put("unit_cost_usd", unit)
    power, tokens = summary.metrics.get("power_w"), summary.metrics.get("throughput_tokens_per_s")
    if power and tokens:
        summary.put("cost_usd_per_million_tokens", usd_per_million_tokens(package, unit, power, tokens))
