"""Metrics of a simulated package that do not come from events: areas, cost, and temperatures at its mean power."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import Package
from hydra_dse.physical import area_mm2, interposer_mm2, package_cost, technology_of, usd_per_million_tokens
from hydra_dse.physical.thermal import Heat, modelled, solve_package
from hydra_dse.results import Components, Violation
from simulators.serving.metrics import Summary

FloatArray = NDArray[np.float64]

LEVERS = ("better cooling (technology)", "a lower rate", "fewer or colder dies")


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


def add_heat(summary: Summary, design: Design, components: Components | None) -> tuple[Violation, ...]:
    """Add temperatures by the full solution at the mean power of every component; return the limits that break."""
    if components is None or design.placement is None or not modelled(design.package):
        return ()
    slots = design.placement.slots
    heat = solve_package(design.package, slots, dynamic_w(design.package, slots, components))
    for name, values in (
        ("peak_temperature_c", heat.peak_c),
        ("hot_power_w", heat.power_w),
        ("leakage_w", heat.leakage_w),
    ):
        if np.isfinite(values[0]):
            summary.put(name, float(values[0]))
    return tuple(_broken(design.package, heat))


def dynamic_w(package: Package, slots: tuple[int, ...], components: Components) -> FloatArray:
    """Return the mean dynamic power of each component; a link's is shared by what stands at its ends."""
    found = np.zeros(package.die_count + package.stack_count)
    at = {f"slot {slot}": number for number, slot in enumerate(slots)}
    for part in components.parts:
        if part.kind != "link":
            found[at[part.place]] += part.dynamic_w
            continue
        ends = [at.get(f"slot {end}") for end in part.place.removeprefix("slots ").split("→")]
        there = [end for end in ends if end is not None]
        for end in there:
            found[end] += part.dynamic_w / len(there)
    return found


def _broken(package: Package, heat: Heat) -> Iterator[Violation]:
    cooling, limit_w = technology_of(package).cooling, package.limits.power_w
    if not np.isfinite(heat.power_w[0]):
        yield Violation("leakage that settles", 2.0, 1.0, "1", LEVERS)
    if heat.die_c[0] > cooling.die_limit_c:
        yield Violation("temperature of the hottest die", float(heat.die_c[0]), cooling.die_limit_c, "°C", LEVERS)
    if heat.dram_c[0] > cooling.dram_limit_c:
        yield Violation("temperature of the hottest stack", float(heat.dram_c[0]), cooling.dram_limit_c, "°C", LEVERS)
    if limit_w is not None and heat.power_w[0] > limit_w:
        yield Violation("power", float(heat.power_w[0]), limit_w, "W", ("a higher power limit", *LEVERS[1:]))
