"""Designs with one resource scaled, all else as it was: placement, mapping and policy are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.hardware.components import Chiplet, Package
from hydra_dse.hardware.fabric import joined

MOST = 1e6
"""A factor so large makes a resource free; beyond it, numbers mean nothing."""
RESOURCES = ("noi", "hbm", "sram", "compute", "compute:matmul", "compute:vector")


@dataclass(frozen=True)
class Scale:
    """A resource and the factor on its rate.

    `noi`: bandwidth of every link, those between packages included; `hbm`: bandwidth of every stack and of the memory
    of dies; `sram`: on-die bandwidth; `compute:matmul`, `compute:vector`: peaks of all dies; `compute`: both;
    `compute:<group>`: both of one die group.
    """

    resource: str
    factor: float

    def __str__(self) -> str:
        return f"{self.resource} × {self.factor:g}"


def parse_scale(text: str, groups: Sequence[str]) -> Scale:
    """Read `noi=2`.

    Args:
        text: as given.
        groups: names of the die groups of the design.

    Raises:
        InputError: no factor above 0, or an unknown resource.
    """
    resource, equals, value = text.partition("=")
    known = (*RESOURCES, *(f"compute:{group}" for group in groups))
    if resource not in known:
        message = f"no resource {resource!r}{did_you_mean(resource, known)}; accepted: {one_of(known)}"
        raise InputError(Fault(message, file="--scale"))
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not equals or not 0.0 < factor < MOST:
        message = f"{text!r}: give a factor above 0 and below {MOST:,.0f}, e.g. {resource}=2"
        raise InputError(Fault(message, file="--scale"))
    return Scale(resource, factor)


def scaled(design: Design, scales: Sequence[Scale]) -> Design:
    """The design with these resources scaled; area, power and limits are those of the original."""
    package = design.package
    for scale in scales:
        package = _scaled(package, scale)
    return replace(design, package=package)


def _scaled(package: Package, scale: Scale) -> Package:
    if package.parts and package.fabric is not None:
        faster = scale.factor if scale.resource == "noi" else 1.0
        fabric = replace(package.fabric, bandwidth_bytes_per_s=package.fabric.bandwidth_bytes_per_s * faster)
        return joined(package.name, [_scaled(part, scale) for part in package.parts], fabric, package.source)
    if scale.resource == "noi":
        package = replace(package, link_bandwidth_bytes_per_s=package.link_bandwidth_bytes_per_s * scale.factor)
    if scale.resource == "hbm":
        memories = tuple(
            replace(
                group,
                stack=replace(
                    group.stack,
                    bandwidth_bytes_per_s=group.stack.bandwidth_bytes_per_s * scale.factor,
                    peak_bandwidth_bytes_per_s=group.stack.peak_bandwidth_bytes_per_s * scale.factor,
                ),
            )
            for group in package.memories
        )
        package = replace(package, memories=memories)
    dies = tuple(
        replace(group, chiplet=_chiplet(group.chiplet, group.name, scale)) if group.count else group
        for group in package.dies
    )
    return replace(package, dies=dies)


def _chiplet(chiplet: Chiplet, group: str, scale: Scale) -> Chiplet:
    resource, factor = scale.resource, scale.factor
    if resource == "noi":
        return replace(chiplet, link_bandwidth_bytes_per_s=chiplet.link_bandwidth_bytes_per_s * factor)
    if resource == "hbm":
        return replace(chiplet, memory_bandwidth_bytes_per_s=chiplet.memory_bandwidth_bytes_per_s * factor)
    if resource == "sram":
        return replace(chiplet, sram_bandwidth_bytes_per_s=chiplet.sram_bandwidth_bytes_per_s * factor)
    whole = resource in ("compute", f"compute:{group}")
    if whole or resource == "compute:matmul":
        chiplet = replace(chiplet, matmul_flops_per_s=chiplet.matmul_flops_per_s * factor)
    if whole or resource == "compute:vector":
        chiplet = replace(chiplet, vector_flops_per_s=chiplet.vector_flops_per_s * factor)
    return chiplet
