"""Slots and links of a package: grids of equal tiles and floorplans of rectangles.

Stands on the hardware floor, so that files can be read into packages; `hydra_dse.routing` exports the same names.

A grid numbers its slots row by row.  `mesh` joins neighbours, `torus` closes rows and columns, `hex` shifts every
odd row by half a tile (a brick wall), which gives each inner tile six neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.hardware.components import Slot, Topology

GRIDS = ("mesh", "torus", "hex")
Edge = tuple[int, int]


def build_topology(kind: str, columns: int, rows: int, width_mm: float, height_mm: float) -> Topology:
    """Return a grid of `columns` × `rows` tiles, each `width_mm` × `height_mm`, in row-major order.

    Raises:
        InputError: unknown kind, no tiles, or a size that is not positive.
    """
    if kind not in GRIDS:
        hint = "; a floorplan is built from its slots" if kind == "floorplan" else did_you_mean(kind, GRIDS)
        raise InputError(Fault(f"unknown topology {kind!r}, expected {one_of(GRIDS)}{hint}"))
    if columns < 1 or rows < 1:
        raise InputError(Fault(f"a grid needs at least one column and one row, got {columns} × {rows}"))
    if not (width_mm > 0 and height_mm > 0):
        raise InputError(Fault(f"tiles need a positive size, got {width_mm} mm × {height_mm} mm"))
    shift = 0.5 if kind == "hex" else 0.0
    slots = tuple(
        Slot((column + 0.5 + shift * (row % 2)) * width_mm, (row + 0.5) * height_mm, width_mm, height_mm)
        for row in range(rows)
        for column in range(columns)
    )
    return Topology(kind, columns, rows, slots, tuple(sorted(set(_grid_edges(kind, columns, rows)))))


def _grid_edges(kind: str, columns: int, rows: int) -> Iterator[Edge]:
    for row in range(rows):
        for column in range(columns):
            here = row * columns + column
            for next_column, next_row in _forward_neighbours(kind, column, row):
                if kind == "torus":
                    next_column, next_row = next_column % columns, next_row % rows
                if 0 <= next_column < columns and next_row < rows:
                    there = next_row * columns + next_column
                    if there != here:
                        yield min(here, there), max(here, there)


def _forward_neighbours(kind: str, column: int, row: int) -> tuple[tuple[int, int], ...]:
    if kind == "hex":
        left = column - 1 + row % 2
        return (column + 1, row), (left, row + 1), (left + 1, row + 1)
    return (column + 1, row), (column, row + 1)


def floorplan(slots: Sequence[Slot], reach_mm: float = 2.0, min_shared_mm: float = 1.0) -> Topology:
    """Return the topology of rectangles that are linked where they face each other.

    Two slots are linked where the gap between their edges is at most `reach_mm`, the stretch over which the edges
    face each other is at least `min_shared_mm`, and no third slot lies in that corridor.

    Raises:
        InputError: no slots, a size that is not positive, slots that overlap, or a negative reach.
    """
    places = tuple(slots)
    faults = [
        Fault(f"slot {index} needs a positive size, got {slot.width_mm} mm × {slot.height_mm} mm")
        for index, slot in enumerate(places)
        if not (slot.width_mm > 0 and slot.height_mm > 0)
    ]
    if not places:
        faults.append(Fault("a floorplan needs at least one slot"))
    if not (reach_mm >= 0 and min_shared_mm > 0):
        faults.append(Fault(f"reach {reach_mm} mm must be ≥ 0 and shared edge {min_shared_mm} mm > 0"))
    pairs = [(i, j) for i in range(len(places)) for j in range(i + 1, len(places))]
    faults += [Fault(f"slots {i} and {j} overlap") for i, j in pairs if _overlap(places[i], places[j])]
    if faults:
        raise InputError(faults)
    edges = tuple(pair for pair in pairs if _facing(places, *pair, reach_mm, min_shared_mm))
    return Topology("floorplan", 0, 0, places, edges)


Box = tuple[float, float, float, float]
_TOUCH_MM = 1e-6


def _box(slot: Slot) -> Box:
    half_width, half_height = slot.width_mm / 2, slot.height_mm / 2
    return slot.x_mm - half_width, slot.x_mm + half_width, slot.y_mm - half_height, slot.y_mm + half_height


def _boxes_meet(a: Box, b: Box) -> bool:
    return min(a[1], b[1]) - max(a[0], b[0]) > _TOUCH_MM and min(a[3], b[3]) - max(a[2], b[2]) > _TOUCH_MM


def _overlap(first: Slot, second: Slot) -> bool:
    return _boxes_meet(_box(first), _box(second))


def _facing(slots: tuple[Slot, ...], i: int, j: int, reach_mm: float, min_shared_mm: float) -> bool:
    a, b = _box(slots[i]), _box(slots[j])
    across = min(a[1], b[1]) - max(a[0], b[0])  # overlap of the x intervals; negative: the gap between them
    along = min(a[3], b[3]) - max(a[2], b[2])
    gap, shared = (-across, along) if across < along else (-along, across)
    if gap > reach_mm + _TOUCH_MM or shared < min_shared_mm - _TOUCH_MM:
        return False
    corridor = (
        (min(a[1], b[1]), max(a[0], b[0]), max(a[2], b[2]), min(a[3], b[3]))
        if across < along
        else (max(a[0], b[0]), min(a[1], b[1]), min(a[3], b[3]), max(a[2], b[2]))
    )
    return not any(_boxes_meet(corridor, _box(slot)) for k, slot in enumerate(slots) if k not in (i, j))
