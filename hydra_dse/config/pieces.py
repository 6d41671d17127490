"""Sections of a design file as nouns."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from hydra_dse.design.nouns import MappingChoice, Placement
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import PackageLimits, Slot, Topology
from hydra_dse.hardware.topology import build_topology, floorplan
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy

if TYPE_CHECKING:
    from hydra_dse.config import design_schema as schema
    from hydra_dse.config.document import Document
    from hydra_dse.config.policy_schema import PolicySection

DEFAULT_PLACEMENT = "communication_aware"
_grid = lru_cache(maxsize=256)(build_topology)


def topology_of(
    document: Document,
    section: schema.GridSection | schema.FloorplanSection,
    package: tuple[str | int, ...],
    components: int,
) -> Topology:
    """Return the slots and links of a package at a key path, of so many components where its columns follow them.

    Raises:
        InputError: slots that overlap.
    """
    if section.kind != "floorplan":
        width, height = section.tile
        columns = max(1, -(-components // section.rows)) if section.columns == "fit" else section.columns
        return _grid(section.kind, columns, section.rows, width, height)
    slots = [Slot(slot.x, slot.y, slot.width, slot.height) for slot in section.slots]
    try:
        return floorplan(slots, section.reach)
    except InputError as error:
        path = (*package, "topology", "slots")
        raise InputError([document.fault(path, fault.message) for fault in error.faults]) from None


def limits_of(section: schema.LimitsSection) -> PackageLimits:
    """Return what a package may not exceed."""
    return PackageLimits(section.silicon, section.interposer, section.power)


def mapping_of(section: schema.MappingSection) -> MappingChoice:
    """Return the mapping choice."""
    groups = {kind: tuple(names) for kind, names in section.groups.items()}
    models = {name: tuple(groups) for name, groups in section.models.items()}
    return MappingChoice(
        groups,
        section.parallelism,
        section.homes,
        section.sram_weight_share,
        section.expert_placement,
        section.replicated_experts,
        section.pipeline,
        models,
        section.cache,
        memories={pool: tuple(names) for pool, names in section.memories.items()},
        scan_split=section.scan_split,
    )


def policy_of(section: PolicySection) -> Policy:
    """Return the runtime policy."""
    renamed = {"host_cache", "host_bandwidth", "ageing"}
    return Policy(
        **section.model_dump(exclude=renamed),
        host_cache_bytes=section.host_cache,
        host_bytes_per_s=section.host_bandwidth or 0.0,
        ageing_s=section.ageing,
    )


def placement_of(section: schema.PlacementSection) -> tuple[str, Placement | None]:
    """Return the placement algorithm, and the placement where its slots are given."""
    if section.slots is not None:
        return "explicit", Placement(tuple(section.slots))
    return section.algorithm or DEFAULT_PLACEMENT, None


def precision_of(section: schema.PrecisionSection) -> Precision:
    """Return the operand formats."""
    return Precision(**section.model_dump())
