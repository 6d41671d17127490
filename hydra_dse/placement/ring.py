"""Slots from the outside of the package to the inside, the order in which HYDRA places memory."""

from __future__ import annotations

from collections.abc import Sequence

from hydra_dse.hardware.components import Slot, Topology


def ring_order(topology: Topology) -> list[int]:
    """Slots from the outside in: left and right columns middle-out, top and bottom middle-out, corners, the rest."""
    left, right, top, bottom = _sides(topology.slots)
    middle_x, middle_y = (left + right) / 2, (top + bottom) / 2

    def rank(slot: int) -> tuple[int, float, int]:
        place = topology.slots[slot]
        off_x, off_y = abs(place.x_mm - middle_x), abs(place.y_mm - middle_y)
        at_side = min(place.x_mm - left, right - place.x_mm) < place.width_mm
        at_end = min(place.y_mm - top, bottom - place.y_mm) < place.height_mm
        if at_side and at_end:
            return 2, off_x + off_y, slot
        if at_side:
            return 0, off_y, slot
        if at_end:
            return 1, off_x, slot
        return 3, -off_x - off_y, slot

    return sorted(range(len(topology.slots)), key=rank)


def _sides(slots: Sequence[Slot]) -> tuple[float, float, float, float]:
    """Extent of the package: left, right, top, bottom, in mm."""
    return (
        min(slot.x_mm - slot.width_mm / 2 for slot in slots),
        max(slot.x_mm + slot.width_mm / 2 for slot in slots),
        min(slot.y_mm - slot.height_mm / 2 for slot in slots),
        max(slot.y_mm + slot.height_mm / 2 for slot in slots),
    )
