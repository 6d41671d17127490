"""The parts of a template, each read on its own once its parameters have values: packages, dies, policy and so on.

A part is read with the files that it names, e.g. a die of the library; `hydra_dse.config.pieces` turns its section,
checked, into a noun.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from hydra_dse.config import design_schema as schema
from hydra_dse.config.dies import Die
from hydra_dse.config.document import Document, KeyPath
from hydra_dse.config.fields import Section
from hydra_dse.config.hardware import load_die, load_from, load_link, load_memory
from hydra_dse.config.loader import validate
from hydra_dse.config.pieces import limits_of, mapping_of, placement_of, policy_of, precision_of, topology_of
from hydra_dse.config.policy_schema import PolicySection
from hydra_dse.design.nouns import MappingChoice, Placement
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import Chiplet, MemoryStack, PackageLimits, Topology
from hydra_dse.hardware.formats import with_fast_format
from hydra_dse.hardware.links import Fabric, LinkClass
from hydra_dse.model.precision import Precision
from hydra_dse.policy import Policy

if TYPE_CHECKING:
    from hydra_dse.hardware.technology import Technology

_S = TypeVar("_S", bound=Section)


@dataclass(frozen=True)
class Frame:
    """A package without its dies and stacks."""

    topology: Callable[[int], Topology]
    link: LinkClass
    link_bandwidth_bytes_per_s: float
    memory_is_leaf: bool
    limits: PackageLimits
    technology: Technology | None


@dataclass(frozen=True)
class Dies:
    """A die group before the link bandwidth is known."""

    die: Die
    count: int
    families: tuple[str, ...]
    phase: str
    frequency: float
    package: str | None


def _part(document: Document, path: KeyPath, model: type[_S]) -> _S:
    return validate(document.part(path), model) if document.get(path) is not None else validate(_EMPTY, model)


_EMPTY = Document("<defaults>", {})


def read_frame(document: Document, path: KeyPath) -> Frame:
    """A package without its dies and stacks."""
    section = _part(document, path, schema.PackageSection)
    topology = partial(topology_of, document, section.topology, path)
    if section.topology.kind == "floorplan" or section.topology.columns != "fit":
        fixed = topology(0)
        topology = partial(_same, fixed)
    return Frame(
        topology=topology,
        link=load_from(document, (*path, "link", "class"), load_link),
        link_bandwidth_bytes_per_s=section.link.bandwidth,
        memory_is_leaf=section.memory_tiles == "leaf",
        limits=limits_of(section.limits),
        technology=_technology(document, path, section),
    )


def _same(topology: Topology, _: int) -> Topology:
    return topology


def _technology(document: Document, path: KeyPath, section: schema.PackageSection) -> Technology | None:
    if section.technology is None:
        return None
    from hydra_dse.config.technology import load_technology

    return load_from(document, (*path, "technology"), load_technology)


def read_fabric(document: Document, path: KeyPath) -> tuple[Fabric | None]:
    """The links between packages, None where there is one package."""
    if document.get(path) is None:
        return (None,)
    section = _part(document, path, schema.FabricSection)
    link = load_from(document, (*path, "class"), load_link)
    if section.latency is not None:
        link = replace(link, latency_s=section.latency)
    return (Fabric(link, section.bandwidth, section.links, section.topology == "switch"),)


def read_dies(document: Document, path: KeyPath) -> Dies:
    """A die group, its die from the library or a file."""
    section = _part(document, path, schema.DieGroupSection)
    die = load_from(document, (*path, "chiplet"), load_die)
    if section.links is not None:
        if isinstance(die, Chiplet):
            message = f"{die.name} has a fixed size and {die.ports} links; only composed dies take `links`"
            raise InputError(document.fault((*path, "links"), message))
        die = replace(die, ports=section.links)
    if section.fast_format != "none":
        if isinstance(die, Chiplet):
            message = f"{die.name} has a fixed size and its own formats; only composed dies take `fast_format`"
            raise InputError(document.fault((*path, "fast_format"), message))
        die = with_fast_format(die, section.fast_format)
    return Dies(die, section.count, tuple(section.families), section.phase, section.frequency, section.package)


def read_stacks(document: Document, path: KeyPath) -> tuple[MemoryStack, int, str | None]:
    """The stack of a memory group, how many, and its package."""
    section = _part(document, path, schema.MemoryGroupSection)
    return load_from(document, (*path, "stack"), load_memory), section.count, section.package


def read_mapping(document: Document, path: KeyPath) -> MappingChoice:
    """How operators are mapped."""
    return mapping_of(_part(document, path, schema.MappingSection))


def read_policy(document: Document, path: KeyPath) -> Policy:
    """The runtime policy."""
    return policy_of(_part(document, path, PolicySection))


def read_placement(document: Document, path: KeyPath) -> tuple[str, Placement | None]:
    """The placement algorithm and, where they are given, the slots."""
    return placement_of(_part(document, path, schema.PlacementSection))


def read_precision(document: Document, path: KeyPath) -> tuple[Precision | None]:
    """Formats of the operands, None where they are those of the model."""
    if document.get(path) is None:
        return (None,)
    return (precision_of(_part(document, path, schema.PrecisionSection)),)
