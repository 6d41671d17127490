"""Tier 1 inside a chip: how much of it is allocated, and how evenly (DABench-LLM, arXiv 2601.19904).

Allocation of a resource class: units used over units there are; where sections run in turn each counts by its time,
`A = Σ t·N / (N_total·Σ t)`.  Load imbalance: `LI = Σ R·(T_min/T) / Σ R` over units that run side by side, with R the
resources and T the rate of each alone; 1 is even.  In a pipeline with equal R it is the mean over the largest load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hydra_dse.bench.record import Profile, Unit


@dataclass(frozen=True)
class Allocation:
    """Share of a resource class in use.

    Attributes:
        mean, maximum: over time; equal where everything runs side by side.
        total: units there are (the denominator), None where only a share is stated.
        stated: share that the source prints itself.
    """

    mean: float
    maximum: float
    total: float | None
    stated: float | None = None


def allocation_ratios(profile: Profile, totals: Mapping[str, float] | None = None) -> dict[str, Allocation]:
    """Return the allocation of each resource class.

    Args:
        profile: what ran.
        totals: denominators in place of the profile's.
    """
    counts = {**profile.totals, **(totals or {})}
    found: dict[str, Allocation] = {}
    for resource in dict.fromkeys(name for unit in profile.units for name in unit.resources):
        total = counts.get(resource)
        if total:
            mean, most = _over_sections(profile.units, resource)
            found[resource] = Allocation(mean / total, most / total, total, profile.allocation.get(resource))
    for resource, share in profile.allocation.items():
        found.setdefault(resource, Allocation(share, share, None, share))
    return found


def _over_sections(units: Sequence[Unit], resource: str) -> tuple[float, float]:
    """Units in use: mean over time and maximum.  Without times every section counts alike."""
    used, times = [], []
    for members in sections_of(units).values():
        used.append(math.fsum(unit.resources.get(resource, 0.0) for unit in members))
        times.append(max((unit.time or 0.0 for unit in members), default=0.0))
    weights = times if all(time > 0 for time in times) else [1.0] * len(used)
    return math.fsum(a * b for a, b in zip(used, weights, strict=True)) / math.fsum(weights), max(used)


def sections_of(units: Iterable[Unit]) -> dict[str, list[Unit]]:
    """Units by section, in order."""
    found: dict[str, list[Unit]] = {}
    for unit in units:
        found.setdefault(unit.section, []).append(unit)
    return found


def load_imbalance(profile: Profile) -> float | None:
    """Return LI, weighted by the first resource class that the units state (by nothing where they state none).

    None where no two units run side by side with known rates: one unit is even with itself, which says nothing.
    """
    values, times = [], []
    for members in sections_of(profile.units).values():
        running = [unit for unit in members if unit.speed]
        if len(running) < 2:
            continue
        values.append(_imbalance(running))
        times.append(max(unit.time or 0.0 for unit in running))
    if not values:
        return layout_imbalance(profile.layout)
    weights = times if all(time > 0 for time in times) else [1.0] * len(values)
    return math.fsum(a * b for a, b in zip(values, weights, strict=True)) / math.fsum(weights)


def _imbalance(units: Sequence[Unit]) -> float:
    """`Σ R·(T_min/T) / Σ R`; every unit must have a rate."""
    resource = next((name for unit in units for name in unit.resources), "")
    slowest = min(unit.speed or math.inf for unit in units)
    weights = [unit.resources.get(resource, 0.0) if resource else 1.0 for unit in units]
    if math.fsum(weights) <= 0:
        weights = [1.0] * len(units)
    return math.fsum(w * slowest / (u.speed or 1.0) for w, u in zip(weights, units, strict=True)) / math.fsum(weights)


def layout_imbalance(layout: Sequence[int]) -> float | None:
    """Mean over maximum of the layers on the chips of a pipeline that hold any."""
    held = [count for count in layout if count > 0]
    return math.fsum(held) / len(held) / max(held) if len(held) > 1 else None


def unweighted_imbalance(profile: Profile) -> float | None:
    """Mean of `T_min/T` over the units of a chip whose units all run side by side."""
    running = [unit.speed for unit in profile.units if unit.speed]
    if len(running) < 2 or len(sections_of(profile.units)) > 1:
        return None
    return math.fsum(min(running) / speed for speed in running) / len(running)


def chip_to_slowest_kernel(profile: Profile) -> float | None:
    """Rate of the whole chip over that of its slowest unit; below 1 something outside the units limits it."""
    speeds = [unit.rate_per_s for unit in profile.units if unit.rate_per_s]
    if len(speeds) < 2 or profile.samples_per_s is None or len(sections_of(profile.units)) > 1:
        return None
    return profile.samples_per_s / min(speeds)


def effective_use(profile: Profile) -> float | None:
    """Units in use × share of them that compute: what part of the chip works."""
    allocated = next(iter(allocation_ratios(profile).values()), None)
    if allocated is None or profile.utilization is None:
        return None
    return allocated.mean * profile.utilization
