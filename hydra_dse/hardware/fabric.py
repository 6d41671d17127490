"""Several packages joined by a fabric, as one package to place, map and evaluate.

Each package keeps its own slots and NoI links.  A link of the fabric ends in a port at the edge of either package; a
port hangs on one die at that edge (which one follows from the placement, see `hydra_dse.routing`).  Between two
packages a byte passes NoI links to the die with the port, the port, the fabric, the other port, and NoI links again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import Package, PackageLimits, Slot, Topology
from hydra_dse.hardware.links import Fabric, LinkClass

APART_MM = 10.0
"""Gap between packages side by side, for drawings only."""


def parts_of(package: Package) -> tuple[Package, ...]:
    """The packages that a package stands for: itself, or those that a fabric joins."""
    return package.parts or (package,)


def joined(name: str, parts: Sequence[Package], fabric: Fabric, source: str = "") -> Package:
    """Return several packages as one.

    Raises:
        InputError: fewer than two packages, or packages of different technologies or kinds of memory tiles.
    """
    if len(parts) < 2:
        raise InputError(Fault(f"a fabric joins at least two packages, got {len(parts)}"))
    first = parts[0]
    for part in parts[1:]:
        if part.memory_is_leaf != first.memory_is_leaf:
            raise InputError(
                Fault(f"packages {first.name!r} and {part.name!r} have different memory_tiles; use one kind")
            )
        if part.technology != first.technology:
            raise InputError(Fault(f"packages {first.name!r} and {part.name!r} have different technologies; use one"))
    topology = _topology(tuple(part.topology for part in parts), fabric.links, fabric.switched)
    whole = tuple(
        replace(part, fabric=fabric, fabric_ports=len(ports)) for part, ports in zip(parts, topology.ports, strict=True)
    )
    return Package(
        name=name,
        topology=topology,
        link=first.link,
        link_bandwidth_bytes_per_s=min(part.link_bandwidth_bytes_per_s for part in parts),
        dies=tuple(group for part in parts for group in part.dies),
        memories=tuple(group for part in parts for group in part.memories),
        memory_is_leaf=first.memory_is_leaf,
        limits=PackageLimits(power_w=_together([part.limits.power_w for part in parts])),
        source=source,
        technology=first.technology,
        parts=whole,
        fabric=fabric,
    )


def _together(limits: Sequence[float | None]) -> float | None:
    """The sum of limits; none where a package states none."""
    stated = [limit for limit in limits if limit is not None]
    return sum(stated) if len(stated) == len(limits) else None


@lru_cache(maxsize=256)
def _topology(islands: tuple[Topology, ...], links: int, switched: bool) -> Topology:
    """Slots of all packages side by side, then the ports package by package, then the switch where there is one."""
    slots: list[Slot] = []
    edges: list[tuple[int, int]] = []
    starts, sides_mm = [], []
    right = 0.0
    for island in islands:
        left, shift = right, right - min(slot.x_mm - slot.width_mm / 2 for slot in island.slots)
        starts.append(len(slots))
        edges += [(a + len(slots), b + len(slots)) for a, b in island.edges]
        slots += [replace(slot, x_mm=slot.x_mm + shift) for slot in island.slots]
        right = max(slot.x_mm + slot.width_mm / 2 for slot in slots[starts[-1] :])
        # Ports are drawn in the gap beside the next package, those of the last one beside the one before.
        last = len(starts) == len(islands)
        sides_mm.append(left - APART_MM / 4 if last else right + APART_MM / 4)
        right += APART_MM
    height_mm = max(slot.y_mm + slot.height_mm / 2 for slot in slots)
    each = links if switched else links * (len(islands) - 1)
    ports = []
    for side_mm in sides_mm:
        ports.append(tuple(range(len(slots), len(slots) + each)))
        slots += [Slot(side_mm, height_mm * (number + 1) / (each + 1), 0.0, 0.0) for number in range(each)]
    if switched:
        slots.append(Slot(right, height_mm / 2, 0.0, 0.0))
    return Topology(
        "fabric", 0, 0, tuple(slots), (*edges, *_fabric_edges(ports, links, switched)), islands, tuple(ports)
    )


def _fabric_edges(ports: Sequence[tuple[int, ...]], links: int, switched: bool) -> Iterator[tuple[int, int]]:
    if switched:
        switch = ports[-1][-1] + 1
        yield from ((port, switch) for mine in ports for port in mine)
        return
    for first, second in combinations(range(len(ports)), 2):
        for number in range(links):
            yield port_between(ports, links, first, second, number), port_between(ports, links, second, first, number)


def port_between(ports: Sequence[tuple[int, ...]], links: int, here: int, there: int, number: int) -> int:
    """Slot of the port in package `here` of direct link `number` to package `there`."""
    return ports[here][(there - (there > here)) * links + number]


def link_runs(package: Package) -> tuple[tuple[LinkClass, float, int], ...]:
    """Class, bandwidth and number of the directed links of a package, in the order of its route tables.

    NoI links of each package, links of the fabric, then the links between ports and the dies they hang on, which are
    NoI links too.
    """
    if package.fabric is None or not package.parts:
        return ((package.link, package.link_bandwidth_bytes_per_s, 2 * len(package.topology.edges)),)
    inside = [(part.link, part.link_bandwidth_bytes_per_s, 2 * len(part.topology.edges)) for part in package.parts]
    between = 2 * len(package.topology.edges) - sum(count for *_, count in inside)
    hung = [(part.link, part.link_bandwidth_bytes_per_s, 2 * part.fabric_ports) for part in package.parts]
    return (*inside, (package.fabric.link, package.fabric.bandwidth_bytes_per_s, between), *hung)


def fabric_links(package: Package) -> range:
    """Numbers of the directed links of the fabric; none of a single package."""
    if not package.parts:
        return range(0)
    start = sum(2 * len(part.topology.edges) for part in package.parts)
    return range(start, 2 * len(package.topology.edges))


def part_components(package: Package) -> tuple[tuple[int, ...], ...]:
    """Components of each part, its dies first, then its stacks, as numbered by the whole."""
    parts = parts_of(package)
    found = []
    dies, stacks = 0, package.die_count
    for part in parts:
        found.append((*range(dies, dies + part.die_count), *range(stacks, stacks + part.stack_count)))
        dies, stacks = dies + part.die_count, stacks + part.stack_count
    return tuple(found)


def part_slots(package: Package) -> tuple[range, ...]:
    """Slots of each part, as numbered by the whole."""
    found, start = [], 0
    for part in parts_of(package):
        found.append(range(start, start + len(part.topology.slots)))
        start = found[-1].stop
    return tuple(found)


def part_of_component(package: Package) -> tuple[int, ...]:
    """Number of the part that each component belongs to."""
    parts = parts_of(package)
    dies = [number for number, part in enumerate(parts) for _ in range(part.die_count)]
    return (*dies, *(number for number, part in enumerate(parts) for _ in range(part.stack_count)))


def port_names(package: Package) -> dict[int, str]:
    """Name of what stands in each slot that is no place for a component: ports, and the switch."""
    names: dict[int, str] = {}
    for part, ports in zip(package.parts, package.topology.ports, strict=True):
        names |= {slot: f"{part.name} port {number}" for number, slot in enumerate(ports)}
    if package.fabric is not None and package.fabric.switched and package.parts:
        names[len(package.topology.slots) - 1] = "switch"
    return names
