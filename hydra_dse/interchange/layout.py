"""What other tools ask of a placed design: rectangles with powers, routers with links, traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import Package
from hydra_dse.mapping import reference_traffic
from hydra_dse.model.blocks import Model
from hydra_dse.network_load import LinkLoad, link_capacity
from hydra_dse.placement import place_design
from hydra_dse.routing import RouteTable

FloatArray = NDArray[np.float64]

CLOCK_HZ = 1.0e9
"""Cycles of the network tools: HYDRA's dies run at 1 GHz (HYDRA artifact, `component_28nm.yml`)."""


@dataclass(frozen=True)
class Part:
    """A die or a memory stack at its place.

    Attributes:
        name: unique, of letters, digits and `_`.
        x_mm, y_mm: centre.
        slot: of the topology.
        relays: whether routes may pass through it.
        power_w: mean power, static and dynamic.
    """

    name: str
    memory: bool
    slot: int
    x_mm: float
    y_mm: float
    width_mm: float
    height_mm: float
    relays: bool
    power_w: float


@dataclass(frozen=True, eq=False)
class Layout:
    """A placed design without anything that is ours alone.

    Attributes:
        traffic: bytes from part to part for one served request, shape (parts, parts).
        edges: pairs of parts that a link joins.
        hop_cycles: latency of a hop, both PHYs and the wire, in cycles of `CLOCK_HZ`.
        link_bytes_per_cycle: payload of a link and direction.
        conditions: what the powers hold for, in words.
    """

    name: str
    package: Package
    parts: tuple[Part, ...]
    edges: tuple[tuple[int, int], ...]
    routes: RouteTable
    traffic: FloatArray
    conditions: str

    @property
    def hop_cycles(self) -> int:
        """Latency of a hop in cycles, at least 1."""
        return max(1, round(self.package.link.latency_s * CLOCK_HZ))

    @property
    def link_bytes_per_cycle(self) -> float:
        """Payload bytes that a link moves per cycle and direction."""
        return link_capacity(self.package) / CLOCK_HZ

    @cached_property
    def part_at(self) -> dict[int, int]:
        """Part in each slot that has one."""
        return {part.slot: index for index, part in enumerate(self.parts)}

    def next_part(self, here: int, target: int) -> int:
        """The part after `here` on the way to `target`; -1 where there is no route."""
        slot = int(self.routes.next_slot[self.parts[here].slot, self.parts[target].slot])
        return self.part_at.get(slot, -1)

    def neighbours(self, index: int) -> list[int]:
        """Parts that a link joins to one, ascending."""
        return sorted(b if a == index else a for a, b in self.edges if index in (a, b))


def layout_of(design: Design, models: Sequence[Model], seed: int, part_w: Sequence[float], conditions: str) -> Layout:
    """Place a design, if it is not, and describe it.

    Args:
        design: the design.
        models: what it serves, one request of each; give the traffic, and the placement where the design states none.
        seed: of the placement.
        part_w: power of each part, dies first, then stacks.
        conditions: what these powers hold for.

    Raises:
        InputError: the design has no legal placement.
    """
    if design.package.parts:
        names = ", ".join(part.name for part in design.package.parts)
        message = f"has the packages {names}; other tools know one package: write each as a design of its own"
        raise InputError(Fault(message, design.name or None))
    placed, violations = place_design(design, models, seed)
    if placed.placement is None:
        raise InputError(Fault("cannot be placed: " + "; ".join(str(one) for one in violations), design.name or None))
    package, slots = placed.package, placed.placement.slots
    load = LinkLoad(package, placed.placement)
    parts = []
    for index, (name, slot) in enumerate(zip(package.component_groups, slots, strict=True)):
        at = package.topology.slots[slot]
        memory = index >= package.die_count
        parts.append(
            Part(
                name=f"{_plain(name)}_{index}",
                memory=memory,
                slot=slot,
                x_mm=at.x_mm,
                y_mm=at.y_mm,
                width_mm=at.width_mm,
                height_mm=at.height_mm,
                relays=not memory or not package.memory_is_leaf,
                power_w=float(part_w[index]),
            )
        )
    part_at = {part.slot: index for index, part in enumerate(parts)}
    edges = tuple((part_at[a], part_at[b]) for a, b in package.topology.edges if a in part_at and b in part_at)
    traffic = np.sum([reference_traffic(placed, model) for model in models], axis=0)
    return Layout(design.name or placed.identity, package, tuple(parts), edges, load.routes, traffic, conditions)


def _plain(name: str) -> str:
    return "".join(character if character.isascii() and character.isalnum() else "_" for character in name)
