"""Tier 1 of one profile: allocation, imbalance, efficiency, memory levels, what binds, and what relieving it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.bench.advice import LayoutAdvice, Relief, layout_advice, relief_of
from hydra_dse.bench.flops import Counting
from hydra_dse.bench.metrics import (
    Allocation,
    allocation_ratios,
    chip_to_slowest_kernel,
    effective_use,
    load_imbalance,
    unweighted_imbalance,
)
from hydra_dse.bench.record import Profile
from hydra_dse.bench.roofline import Roofline, roofline_of
from hydra_dse.config.finder import looks_like_path
from hydra_dse.config.hardware import load_chiplet, load_memory
from hydra_dse.config.library import library_names

DEFAULT_STACK = "hydra-hbm3"
"""Memory of a die that has none of its own."""


@dataclass(frozen=True)
class Settings:
    """How metrics are counted.

    Attributes:
        totals: denominators of allocation ratios by resource class, in place of the profile's.
        counting: of FLOPs and bytes.
        stack: memory stack of dies without memory, by library name.
    """

    totals: Mapping[str, float] = field(default_factory=dict)
    counting: Counting = field(default_factory=Counting)
    stack: str = DEFAULT_STACK


@dataclass(frozen=True)
class Tier1:
    """Metrics of one profile; what cannot be computed is None, and `notes` say why.

    Attributes:
        chip_to_slowest_kernel: below 1 something outside the units limits the chip.
        effective_use: units in use × share of them that compute.
        roofline: None where the chip or the model is not known.
        relief: what binds, and what relieving it would give.
        layout: a better cut of a pipeline.
    """

    profile: Profile
    allocation: dict[str, Allocation]
    load_imbalance: float | None
    unweighted_imbalance: float | None
    chip_to_slowest_kernel: float | None
    effective_use: float | None
    roofline: Roofline | None
    relief: Relief | None
    layout: LayoutAdvice | None
    notes: tuple[str, ...]


def tier1_of(profile: Profile, settings: Settings | None = None) -> Tier1:
    """Return the tier-1 metrics of a profile; its platform is looked up in the hardware library."""
    settings = settings or Settings()
    notes = [f"failed: {profile.failure}"] if profile.failure else []
    roofline = _roofline(profile, settings, notes)
    allocation = allocation_ratios(profile, settings.totals)
    if not allocation:
        notes.append("the source states no resources: no allocation ratio")
    imbalance = load_imbalance(profile)
    if imbalance is None:
        notes.append("no two units side by side with known rates: no load imbalance")
    return Tier1(
        profile,
        allocation,
        imbalance,
        unweighted_imbalance(profile),
        chip_to_slowest_kernel(profile),
        effective_use(profile),
        roofline,
        relief_of(profile, roofline),
        layout_advice(profile, settings.counting),
        tuple(notes),
    )


def _roofline(profile: Profile, settings: Settings, notes: list[str]) -> Roofline | None:
    known = profile.platform in library_names("chiplets") or looks_like_path(profile.platform)
    if not known:
        notes.append(f"{profile.platform} is not in the hardware library: no roofline (name a chip with --platform)")
        return None
    chiplet = load_chiplet(profile.platform)
    stack = load_memory(settings.stack) if chiplet.memory_bytes <= 0 else None
    roofline = roofline_of(profile, chiplet, stack, settings.counting)
    if roofline.achieved_flops_per_s is None and not profile.failure:
        notes.append("layers, width and sequence are needed for FLOPs, a rate for an efficiency")
    elif roofline.binding is None:
        notes.append("the batch is needed for the bytes of a step")
    return roofline
