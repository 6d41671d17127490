"""Advice computed from a profile: what binds and what its relief gives, and a better cut of a pipeline.

Limits that act side by side (units, links, memory levels, the peak) are rates, and the lowest binds; parts that act
in turn (host, device) are times, and the longest binds.  Relief is computed, not guessed: the rate when the binding
limit is gone is the next limit, and the time when a part is gone is the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hydra_dse.bench.flops import Counting, block_flops
from hydra_dse.bench.layouts import best_partition, pipeline_rate
from hydra_dse.bench.metrics import sections_of
from hydra_dse.bench.record import Profile
from hydra_dse.bench.roofline import COMPUTE, Roofline

UNEXPLAINED = 0.95
"""A chip below this share of its slowest unit is limited by something outside the units."""


@dataclass(frozen=True)
class Limit:
    """The highest rate that one resource allows, samples per second."""

    resource: str
    samples_per_s: float


@dataclass(frozen=True)
class Relief:
    """What binds a run and what it costs.

    Attributes:
        binding: resource.
        reached: achieved rate over the binding limit (1 where the parts act in turn).
        gain_doubled: relative gain in rate with twice the binding resource.
        gain_free: relative gain with so much of it that the next limit binds.
        next_binding: that limit.
        limits: all limits, lowest first; of parts in turn, the rate of each part alone.
    """

    binding: str
    reached: float
    gain_doubled: float
    gain_free: float
    next_binding: str
    limits: tuple[Limit, ...]


@dataclass(frozen=True)
class LayoutAdvice:
    """The cut of a pipeline's layers whose most loaded chip is loaded least.

    Attributes:
        current, best: layers on each chip.
        current_load, best_load: of the most loaded chip, in `unit`.
        gain: relative gain in rate, by the pipeline's formula.
        unit: what loads are counted in.
    """

    current: tuple[int, ...]
    best: tuple[int, ...]
    current_load: float
    best_load: float
    gain: float
    unit: str


def relief_of(profile: Profile, roofline: Roofline | None) -> Relief | None:
    """Return what binds a run; None where nothing is known of its limits."""
    if profile.failure:
        return None
    return _in_turn(profile) or _side_by_side(profile, roofline)


def _in_turn(profile: Profile) -> Relief | None:
    """Host and device one after the other."""
    parts = [(name, time) for name, time in (("host", profile.host_s), ("device", profile.device_s)) if time]
    if len(parts) < 2:
        return None
    total = math.fsum(time for _, time in parts)
    parts.sort(key=lambda part: -part[1])
    (longest, time), (other, rest) = parts[0], parts[1]
    batch = profile.batch or 1.0
    limits = tuple(Limit(name, batch / each) for name, each in parts)
    return Relief(longest, 1.0, total / (total - time / 2) - 1, total / rest - 1, other, limits)


def _side_by_side(profile: Profile, roofline: Roofline | None) -> Relief | None:
    limits = sorted(_limits(profile, roofline), key=lambda limit: limit.samples_per_s)
    if not limits:
        return None
    lowest = limits[0]
    rate = profile.samples_per_s
    if rate is not None and _outside(profile, limits, rate):
        gain = lowest.samples_per_s / rate
        name = "fill, drain and host" if profile.kind == "modelled" else "data movement outside the units"
        return Relief(name, 1.0, min(2.0, gain) - 1, gain - 1, lowest.resource, tuple(limits))
    following = next((limit for limit in limits[1:] if limit.samples_per_s > lowest.samples_per_s), None)
    free = following.samples_per_s / lowest.samples_per_s if following else math.inf
    reached = rate / lowest.samples_per_s if rate is not None else 1.0
    next_name = following.resource if following else "nothing known"
    return Relief(lowest.resource, reached, min(2.0, free) - 1, free - 1, next_name, tuple(limits))


def _outside(profile: Profile, limits: Sequence[Limit], rate: float) -> bool:
    units = [unit.rate_per_s for unit in profile.units if unit.rate_per_s]
    return (
        len(units) > 1
        and len(sections_of(profile.units)) == 1
        and rate < UNEXPLAINED * min(limit.samples_per_s for limit in limits)
    )


def _limits(profile: Profile, roofline: Roofline | None) -> list[Limit]:
    found = []
    for name in ("compute_rate_per_s", "transmission_rate_per_s"):
        cause = name.partition("_")[0]
        rates = [(getattr(unit, name), unit.name) for unit in profile.units if getattr(unit, name)]
        if rates:
            slowest = min(rates)
            found.append(Limit(f"{cause} of unit {slowest[1]}", slowest[0]))
        stated = getattr(profile, name)
        if stated is not None:
            found.append(Limit(f"{cause} of the chip", stated))
    if not found:
        rates = [(unit.rate_per_s, unit.name) for unit in profile.units if unit.rate_per_s and not unit.section]
        found += [Limit(f"unit {min(rates)[1]}", min(rates)[0])] if len(rates) > 1 else []
    return found + _roofs(profile, roofline)


def _roofs(profile: Profile, roofline: Roofline | None) -> list[Limit]:
    """Limits of the roofline as rates: FLOPs of a sample follow from what its rate achieves, or from the levels."""
    if roofline is None or roofline.binding is None:
        return []
    level = next((roof for roof in roofline.levels if roof.intensity and roof.bytes_per_step), None)
    if level is None or level.intensity is None or level.bytes_per_step is None:
        return []
    flops = level.intensity * level.bytes_per_step / (profile.batch or 1.0)
    found = [Limit(COMPUTE, roofline.peak_flops_per_s / flops)]
    found += [
        Limit(f"bandwidth of {roof.name}", roof.bandwidth_bytes_per_s * roof.intensity / flops)
        for roof in roofline.levels
        if roof.intensity
    ]
    return found


def layout_advice(profile: Profile, counting: Counting | None = None) -> LayoutAdvice | None:
    """Return the best cut of a pipeline, None where its layout is not known or does not hold together.

    A layer is the unit of load.  The first chip bears the LM head besides (it shares the embedding's weights) where
    the shape tells what that is in layers; where it does not and the first chip holds no layer, it stays so.
    """
    layout, layers = profile.layout, sum(profile.layout)
    if len(layout) < 2 or (profile.model.layers is not None and layers != profile.model.layers) or not layers:
        return None
    head = _head_in_layers(profile, counting or Counting())
    reserved = head is None and layout[0] == 0
    chips = len(layout) - 1 if reserved else len(layout)
    found = best_partition([1.0] * layers, chips, first=head or 0.0)
    if found is None:
        return None
    best = (0, *found.counts) if reserved else found.counts
    now = [layout[0] + (head or 0.0), *map(float, layout[1:])]
    steps = profile.micro_batches or 1
    gain = pipeline_rate(steps, 1, [max(found.loads)] * len(layout)) / pipeline_rate(steps, 1, [max(now)] * len(layout))
    return LayoutAdvice(layout, best, max(now), max(found.loads), gain - 1, "layers")


def _head_in_layers(profile: Profile, counting: Counting) -> float | None:
    shape = profile.model
    if shape.hidden is None or shape.vocabulary is None or not profile.sequence:
        return None
    head = 2.0 * profile.sequence * shape.hidden * shape.vocabulary
    return head / block_flops(shape, 1.0, profile.sequence, counting.causal)
