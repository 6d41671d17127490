"""Silicon and interposer area of a package, by what is on it."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_dse.hardware.components import MemoryStack, Package, Topology

# Keep-out between the outermost slots and the edge of the interposer, on each side (assumption).
EDGE_MM = 0.1
# One exposure field of a lithography scanner (CATCH, wafer_process_definitions.xml).
RETICLE_WIDTH_MM, RETICLE_HEIGHT_MM = 26.0, 33.0
RETICLE_MM2 = RETICLE_WIDTH_MM * RETICLE_HEIGHT_MM


@dataclass(frozen=True)
class AreaShare:
    """Silicon of one group of a package."""

    group: str
    what: str
    count: int
    area_mm2: float


def silicon(package: Package) -> tuple[AreaShare, ...]:
    """Return the silicon of a package by group: dies, memory PHYs with controllers, routing base dies, fabric ports.

    DRAM is bought as a part and counts by its footprint on the interposer, not as silicon.
    """
    if package.parts:
        return tuple(share for part in package.parts for share in silicon(part))
    shares = [
        AreaShare(group.name, "dies", group.count, group.count * group.chiplet.area_mm2) for group in package.dies
    ]
    for memory in package.memories:
        shares.append(AreaShare(memory.name, "memory PHYs", memory.count, memory.count * memory.stack.phy_area_mm2))
        if not package.memory_is_leaf:
            area = memory.count * memory.stack.base_die_area_mm2
            shares.append(AreaShare(memory.name, "routing base dies", memory.count, area))
    if package.fabric is not None:
        shares.append(AreaShare(f"{package.name} ports", "fabric ports", package.fabric_ports, ports_mm2(package)))
    return tuple(shares)


def ports_mm2(package: Package) -> float:
    """Return the silicon of the ends of fabric links in one package: one port die for all of them."""
    return package.fabric_ports * package.fabric.port_mm2 if package.fabric is not None else 0.0


def area_mm2(package: Package) -> float:
    """Return the silicon area of a package: the sum of `silicon`."""
    if package.parts:
        return sum(area_mm2(part) for part in package.parts)
    dies = sum([group.count * group.chiplet.area_mm2 for group in package.dies]) + ports_mm2(package)
    return dies + sum([group.count * _memory_silicon(package, group.stack) for group in package.memories])


def _memory_silicon(package: Package, stack: MemoryStack) -> float:
    return stack.phy_area_mm2 + (0.0 if package.memory_is_leaf else stack.base_die_area_mm2)


def interposer_mm2(package: Package) -> float:
    """Return the interposer area: the rectangle around all slots and a keep-out of `EDGE_MM` on each side.

    Ports of a fabric stand on it too.  Of several packages the sum.
    """
    if package.parts:
        return sum(interposer_mm2(part) for part in package.parts)
    width, height = interposer_size_mm(package.topology)
    return width * height + ports_mm2(package)


# By identity, as packages share their topology and ask for its size again and again.
_SIZES: dict[int, tuple[Topology, tuple[float, float]]] = {}
_KEPT = 256


def interposer_size_mm(topology: Topology) -> tuple[float, float]:
    """Return width and height of the interposer."""
    known = _SIZES.get(id(topology))
    if known is None or known[0] is not topology:
        if len(_SIZES) >= _KEPT:
            _SIZES.clear()
        known = _SIZES[id(topology)] = topology, _size_mm(topology)
    return known[1]


def _size_mm(topology: Topology) -> tuple[float, float]:
    left = min([slot.x_mm - slot.width_mm / 2 for slot in topology.slots])
    right = max([slot.x_mm + slot.width_mm / 2 for slot in topology.slots])
    low = min([slot.y_mm - slot.height_mm / 2 for slot in topology.slots])
    high = max([slot.y_mm + slot.height_mm / 2 for slot in topology.slots])
    return right - left + 2 * EDGE_MM, high - low + 2 * EDGE_MM
