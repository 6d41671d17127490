"""A roofline with every memory level: `attainable = min(peak, BW·F/Q)` of each, and the level that binds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra_dse.bench.flops import Behind, Counting, complete, level_bytes, optimizer_bytes, step_flops
from hydra_dse.bench.record import MemoryLevel, Profile
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import Chiplet, MemoryStack
from hydra_dse.mapping import speed_of
from hydra_dse.model.precision import BYTES_PER_ELEMENT

COMPUTE = "compute"
_MIXED_WORDS = ("mix", "cb16", "16-bit", "bf16", "fp16", "half")


@dataclass(frozen=True)
class Roof:
    """A memory level as a limit of a run.

    Attributes:
        bandwidth_bytes_per_s: of all chips of the run.
        bytes_per_step: that pass it; None where shape, batch or sequence are unknown.
        intensity: FLOPs per byte.
        attainable_flops_per_s: under this level alone.
        ridge: intensity from which the peak is reached.
        bandwidth_used: share of the bandwidth, where rate and bytes are known.
        capacity_used: share of the capacity.
    """

    name: str
    on_chip: bool
    bandwidth_bytes_per_s: float
    bytes_per_step: float | None
    intensity: float | None
    attainable_flops_per_s: float | None
    ridge: float
    bandwidth_used: float | None
    capacity_used: float | None


@dataclass(frozen=True)
class Roofline:
    """Peak, levels, what was achieved and what binds (`"compute"` or a level); rates are of the whole machine."""

    peak_flops_per_s: float
    achieved_flops_per_s: float | None
    efficiency: float | None
    attainable_flops_per_s: float | None
    binding: str | None
    levels: tuple[Roof, ...]
    precision: str


def levels_of(chiplet: Chiplet, stack: MemoryStack | None = None) -> tuple[MemoryLevel, ...]:
    """Memory levels of one chip, nearest first; a die without memory of its own reaches one stack over its links."""
    levels = []
    if chiplet.sram_bytes > 0:
        bandwidth = chiplet.sram_bandwidth_bytes_per_s or None
        levels.append(MemoryLevel("sram", True, chiplet.sram_bytes, bandwidth_bytes_per_s=bandwidth))
    if chiplet.memory_bytes > 0:
        name, inside = ("memory", False) if levels else ("sram", True)
        bandwidth = chiplet.memory_bandwidth_bytes_per_s
        levels.append(MemoryLevel(name, inside, chiplet.memory_bytes, bandwidth_bytes_per_s=bandwidth))
    elif stack is not None:
        links = chiplet.ports * chiplet.link_bandwidth_bytes_per_s
        reach = min(links, stack.bandwidth_bytes_per_s)
        levels.append(MemoryLevel(stack.name, False, stack.capacity_bytes, bandwidth_bytes_per_s=reach))
    if chiplet.far_memory_bytes > 0:
        bandwidth = chiplet.far_memory_bandwidth_bytes_per_s
        levels.append(MemoryLevel("far memory", False, chiplet.far_memory_bytes, bandwidth_bytes_per_s=bandwidth))
    return tuple(levels)


def behind_levels(levels: Sequence[MemoryLevel], mode: str, optimizer: bool = True) -> tuple[Behind, ...]:
    """What lives behind each level in an execution mode.

    All that computes passes what is on the chip.  Where parts of the model run in turn, weights, activations and the
    optimizer live in the nearest memory off the chip; streamed weights in the farthest; resident models nowhere else.
    """
    outside = [index for index, level in enumerate(levels) if not level.on_chip]
    found = [Behind(True, True, mode in ("resident", "pipelined") and optimizer) if level.on_chip else Behind()
             for level in levels]  # fmt: skip
    if outside and mode in ("kernels", "sections", ""):
        found[outside[0]] = Behind(True, True, optimizer)
    if outside and mode == "streaming":
        found[outside[-1]] = Behind(weights=True)
    return tuple(found)


def format_of(precision: str) -> str:
    """The number format that a configuration multiplies in; mixed precision multiplies in 16 bits."""
    text = precision.lower()
    if text in BYTES_PER_ELEMENT:
        return text
    return "fp32" if "fp32" in text and not any(word in text for word in _MIXED_WORDS) else "bf16"


def roofline_of(
    profile: Profile, chiplet: Chiplet, stack: MemoryStack | None = None, counting: Counting | None = None
) -> Roofline:
    """Return the roofline of a run on a chip.

    Raises:
        InputError: the chip does not multiply in the run's format.
    """
    counting = counting or Counting()
    number_format = format_of(profile.precision)
    speed = speed_of(chiplet, number_format)
    if speed is None:
        raise InputError(f"{chiplet.name} does not multiply in {number_format} ({profile.name})")
    chips = profile.chips
    peak = (profile.peak_flops_per_s or chiplet.matmul_flops_per_s * speed) * chips
    flops = _flops_per_step(profile, counting)
    rate = _steps_per_s(profile)
    achieved = flops * rate if flops is not None and rate is not None else None
    levels = _levels(profile, levels_of(chiplet, stack))
    behind = behind_levels(levels, profile.mode or chiplet.execution)
    weight = BYTES_PER_ELEMENT[number_format]
    roofs = tuple(
        _roof(profile, level, lives, peak, flops, rate, weight, counting)
        for level, lives in zip(levels, behind, strict=True)
        if level.bandwidth_bytes_per_s
    )
    binding, attainable = _binding(peak, roofs) if flops is not None and _sized(profile) else (None, None)
    efficiency = achieved / peak if achieved is not None else None
    return Roofline(peak, achieved, efficiency, attainable, binding, roofs, number_format)


def _binding(peak: float, roofs: Sequence[Roof]) -> tuple[str, float]:
    limits = [(roof.attainable_flops_per_s, roof.name) for roof in roofs if roof.attainable_flops_per_s is not None]
    lowest = min([*limits, (peak, COMPUTE)], key=lambda pair: pair[0])
    return (lowest[1], lowest[0]) if lowest[0] < peak else (COMPUTE, peak)


def _levels(profile: Profile, own: Sequence[MemoryLevel]) -> tuple[MemoryLevel, ...]:
    """Levels of the chip for all chips of a run, with what the run says of them."""
    stated = {level.name: level for level in profile.memory}
    found = []
    for level in own:
        said = stated.pop(level.name, None)
        # A report may call the first memory off the chip by its technology.
        if said is None and not level.on_chip:
            said = next((stated.pop(name) for name, each in list(stated.items()) if not each.on_chip), None)
        bandwidth = (level.bandwidth_bytes_per_s or 0.0) * profile.chips or None
        found.append(
            replace(
                level,
                bandwidth_bytes_per_s=bandwidth,
                capacity_bytes=(said.capacity_bytes if said else None) or level.capacity_bytes,
                used_bytes=said.used_bytes if said else None,
                traffic_bytes_per_s=said.traffic_bytes_per_s if said else None,
            )
        )
    return tuple(found)


def _sized(profile: Profile) -> bool:
    return complete(profile.model) and bool(profile.batch) and bool(profile.sequence)


def _flops_per_step(profile: Profile, counting: Counting) -> float | None:
    if profile.flops_per_sample is not None and profile.batch:
        return profile.flops_per_sample * profile.batch
    if not complete(profile.model) or not profile.sequence:
        return None
    if profile.phase == "serving":
        return None  # prompt and output have FLOPs of their own; a mean of both says nothing about a level
    return step_flops(profile.model, profile.batch or 1.0, profile.sequence, profile.phase, counting)


def _steps_per_s(profile: Profile) -> float | None:
    if profile.samples_per_s is not None:
        return profile.samples_per_s / (profile.batch or 1.0)
    return 1.0 / profile.step_s if profile.step_s else None


def _roof(
    profile: Profile,
    level: MemoryLevel,
    lives: Behind,
    peak: float,
    flops: float | None,
    rate: float | None,
    weight: float,
    counting: Counting,
) -> Roof:
    bandwidth = level.bandwidth_bytes_per_s or 0.0
    passed = None
    if flops is not None and _sized(profile):
        size = profile.batch or 1.0, float(profile.sequence or 1)
        state = optimizer_bytes(profile.precision)
        passed = level_bytes(profile.model, *size, profile.phase, lives, weight, counting.recompute, state)
    intensity = flops / passed if flops is not None and passed else None
    traffic = level.traffic_bytes_per_s
    if traffic is None and passed is not None and rate is not None:
        traffic = passed * rate
    used = level.used_bytes / level.capacity_bytes if level.used_bytes and level.capacity_bytes else None
    return Roof(
        level.name,
        level.on_chip,
        bandwidth,
        passed,
        intensity,
        min(peak, bandwidth * intensity) if intensity is not None else None,
        peak / bandwidth,
        None if traffic is None else traffic / bandwidth,
        used,
    )
