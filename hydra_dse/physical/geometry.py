"""What the physical checks need of a topology, computed once: slot sizes, links by side, links over every cut."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from hydra_dse.hardware.components import Slot, Topology
from hydra_dse.physical.area import RETICLE_HEIGHT_MM, RETICLE_WIDTH_MM, interposer_size_mm

SIDES = ("left", "right", "lower", "upper")
# Slots whose centres differ by less stand in one column or row.
SAME_MM = 1e-6


@dataclass(frozen=True)
class Side:
    """The side of a slot that its links fill most: number of links and length."""

    slot: int
    name: str
    links: int
    length_mm: float


@dataclass(frozen=True)
class Cut:
    """A straight line across the interposer: where, how many links cross it, and how long it is."""

    axis: str
    at_mm: float
    links: int
    length_mm: float


@dataclass(frozen=True)
class Geometry:
    """Of a topology.

    Attributes:
        slot_areas: falling.
        degrees: links of each slot, rising.
        longest_wire_mm: of any link.
        side: the fullest one; None without links.
        cut: the one with most links per length; None where nothing crosses.
        field_mm2: the largest die that fits a slot and an exposure field.
    """

    slot_areas: tuple[float, ...]
    degrees: tuple[int, ...]
    longest_wire_mm: float
    side: Side | None
    cut: Cut | None
    field_mm2: float


# By identity, as the packages of a space share their topology and hashing it costs more than the checks.
_KNOWN: dict[int, tuple[Topology, Geometry]] = {}
_KEPT = 256


def geometry_of(topology: Topology) -> Geometry:
    """Return the geometry of a topology."""
    known = _KNOWN.get(id(topology))
    if known is not None and known[0] is topology:
        return known[1]
    degrees = [0] * len(topology.slots)
    for edge in topology.edges:
        for slot in edge:
            degrees[slot] += 1
    geometry = Geometry(
        slot_areas=tuple(sorted((slot.width_mm * slot.height_mm for slot in topology.slots), reverse=True)),
        degrees=tuple(sorted(degrees)),
        longest_wire_mm=max((_wire_mm(topology, *edge) for edge in topology.edges), default=0.0),
        side=max(sides_of(topology), key=lambda side: side.links / side.length_mm, default=None),
        cut=max(cuts_of(topology), key=lambda cut: cut.links / cut.length_mm, default=None),
        field_mm2=max(_largest_die_mm2(slot) for slot in topology.slots),
    )
    if len(_KNOWN) >= _KEPT:
        _KNOWN.clear()
    _KNOWN[id(topology)] = (topology, geometry)
    return geometry


def sides_of(topology: Topology) -> Iterator[Side]:
    """Yield every side of a slot that links leave by, with their number."""
    counts: dict[tuple[int, str], int] = {}
    for first, second in topology.edges:
        for here, there in ((first, second), (second, first)):
            key = (here, _side(topology, here, there))
            counts[key] = counts.get(key, 0) + 1
    for (slot, name), count in sorted(counts.items()):
        shape = topology.slots[slot]
        yield Side(slot, name, count, shape.height_mm if name in SIDES[:2] else shape.width_mm)


def _side(topology: Topology, here: int, there: int) -> str:
    """The side that faces the neighbour; links that close a ring leave on the far side."""
    a, b = topology.slots[here], topology.slots[there]
    x, y = b.x_mm - a.x_mm, b.y_mm - a.y_mm
    across = abs(x) - (a.width_mm + b.width_mm) / 2
    along = abs(y) - (a.height_mm + b.height_mm) / 2
    if topology.kind == "torus":
        x = -x if _closes(topology.columns, abs(x), a.width_mm) else x
        y = -y if _closes(topology.rows, abs(y), a.height_mm) else y
    if across > along:
        return SIDES[1] if x > 0 else SIDES[0]
    return SIDES[3] if y > 0 else SIDES[2]


def _closes(count: int, distance_mm: float, pitch_mm: float) -> bool:
    return count > 2 and distance_mm > 1.5 * pitch_mm


def cuts_of(topology: Topology) -> Iterator[Cut]:
    """Yield the lines between neighbouring columns and rows of slots that links cross."""
    width, height = interposer_size_mm(topology)
    for axis, length in (("x", height), ("y", width)):
        centres = [slot.x_mm if axis == "x" else slot.y_mm for slot in topology.slots]
        spans = [sorted((centres[first], centres[second])) for first, second in topology.edges]
        places = sorted(centres)
        for low, high in pairwise(places):
            if high - low > SAME_MM:
                at = (low + high) / 2
                links = sum(start < at < end for start, end in spans)
                if links:
                    yield Cut(axis, at, links, length)


def _largest_die_mm2(slot: Slot) -> float:
    """A die fills no more than its slot and, in one of two orientations, an exposure field."""
    return max(
        min(slot.width_mm, RETICLE_WIDTH_MM) * min(slot.height_mm, RETICLE_HEIGHT_MM),
        min(slot.width_mm, RETICLE_HEIGHT_MM) * min(slot.height_mm, RETICLE_WIDTH_MM),
    )


def _wire_mm(topology: Topology, first: int, second: int) -> float:
    """Manhattan length between facing edges; the links of a torus are folded, so none spans more than two pitches."""
    a, b = topology.slots[first], topology.slots[second]
    x, y = abs(a.x_mm - b.x_mm), abs(a.y_mm - b.y_mm)
    if topology.kind == "torus":
        x = min(x, 2 * a.width_mm) if topology.columns > 2 else x
        y = min(y, 2 * a.height_mm) if topology.rows > 2 else y
    across = max(0.0, x - (a.width_mm + b.width_mm) / 2)
    along = max(0.0, y - (a.height_mm + b.height_mm) / 2)
    return math.fsum((across, along))
