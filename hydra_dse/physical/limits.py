"""What a package breaks: its declared limits, its slots, the die edge, the reticle.  Placement is not needed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from hydra_dse.hardware.components import Package, Topology
from hydra_dse.physical.area import RETICLE_MM2, area_mm2, interposer_mm2
from hydra_dse.physical.power import static_power_w
from hydra_dse.results.nouns import Violation

# Relative slack of comparisons, so that a die that fills its slot exactly fits.
SLACK = 1e-9


def package_violations(package: Package) -> tuple[Violation, ...]:
    """Return every physical constraint that the package breaks, empty where it can be built."""
    return (*_limits(package), *_fits(package), *_links(package))


def _above(demand: float, bound: float | None) -> bool:
    return bound is not None and demand > bound * (1 + SLACK)


def _limits(package: Package) -> Iterator[Violation]:
    limits = package.limits
    silicon, interposer, power = area_mm2(package), interposer_mm2(package), static_power_w(package)
    if limits.silicon_mm2 is not None and _above(silicon, limits.silicon_mm2):
        yield Violation(
            "silicon area",
            silicon,
            limits.silicon_mm2,
            "mm2",
            ("fewer or smaller dies", "a lower link bandwidth", "a finer process", "leaf memory tiles"),
        )
    if limits.interposer_mm2 is not None and _above(interposer, limits.interposer_mm2):
        yield Violation(
            "interposer area",
            interposer,
            limits.interposer_mm2,
            "mm2",
            ("fewer slots", "smaller tiles (dies of a finer process)", "a larger interposer"),
        )
    if limits.power_w is not None and _above(power, limits.power_w):
        yield Violation(
            "static power",
            power,
            limits.power_w,
            "W",
            ("fewer dies or stacks", "a finer process", "leaf memory tiles", "a higher power limit"),
        )


def _fits(package: Package) -> Iterator[Violation]:
    slots = package.topology.slots
    components = package.die_count + package.stack_count
    if components > len(slots):
        yield Violation(
            "slots",
            float(components),
            float(len(slots)),
            "slots",
            ("fewer dies or stacks", "more slots"),
        )
        return
    worst = _worst_fit(package)
    if worst is not None:
        name, demand, bound = worst
        yield Violation(
            f"slot area of {name}",
            demand,
            bound,
            "mm2",
            ("larger tiles", "a finer process", "a smaller die or stack"),
        )
    for group in package.dies:
        if not group.chiplet.memory_bytes and _above(group.chiplet.area_mm2, RETICLE_MM2):
            yield Violation(
                f"reticle for {group.name}",
                group.chiplet.area_mm2,
                RETICLE_MM2,
                "mm2",
                ("fewer cores or SRAM banks", "a lower link bandwidth", "a finer process", "two dies for one"),
            )


def _worst_fit(package: Package) -> tuple[str, float, float] | None:
    """The component that exceeds its slot most, when the largest components take the largest slots."""
    wanted = [(group.chiplet.area_mm2, group.name, group.count) for group in package.dies]
    wanted += [(group.stack.footprint_mm2, group.name, group.count) for group in package.memories]
    sizes, at = _geometry(package.topology).slot_areas, 0
    worst = None
    for area, name, count in sorted(wanted, reverse=True):
        at += count
        slot = sizes[at - 1]  # of this group's dies the last one meets the smallest slot
        if _above(area, slot) and (worst is None or area / slot > worst[1] / worst[2]):
            worst = name, area, slot
    return worst


def _links(package: Package) -> Iterator[Violation]:
    geometry, link, bandwidth = _geometry(package.topology), package.link, package.link_bandwidth_bytes_per_s
    if not package.topology.edges:
        return
    edge = bandwidth / link.density_bytes_per_s_per_mm
    if _above(edge, geometry.shortest_edge_mm):
        yield Violation(
            "die edge per link",
            edge,
            geometry.shortest_edge_mm,
            "mm",
            ("a lower link bandwidth", "a denser link class (ucie-advanced)", "larger dies"),
        )
    if _above(geometry.longest_wire_mm, link.reach_mm):
        yield Violation(
            "link reach",
            geometry.longest_wire_mm,
            link.reach_mm,
            "mm",
            ("slots closer together", "a link class with more reach (ucie-standard)", "a mesh instead of a torus"),
        )
    for group in package.dies:
        own = group.chiplet.link_bandwidth_bytes_per_s
        if _above(bandwidth, own):
            yield Violation(
                f"link bandwidth of {group.name}",
                bandwidth / 1e9,
                own / 1e9,
                "GB/s",
                ("a lower link bandwidth", "a die with faster links"),
            )
    missing = _missing_ports(package)
    if missing is not None:
        name, degree, ports = missing
        yield Violation(
            f"links of {name}",
            float(degree),
            float(ports),
            "links",
            ("a topology with fewer neighbours (mesh)", "a die with more links (`links` of its group)"),
        )


def _missing_ports(package: Package) -> tuple[str, int, int] | None:
    """A die with fewer links than its slot has neighbours, when those with the fewest take the emptiest slots.

    Stacks may leave links of their slot unused, so they take the slots with the most neighbours.
    """
    degrees, at = _geometry(package.topology).degrees, 0
    for ports, name, count in sorted([(group.chiplet.ports, group.name, group.count) for group in package.dies]):
        at += count
        if at <= len(degrees) and degrees[at - 1] > ports:
            return name, degrees[at - 1], ports
    return None


@dataclass(frozen=True)
class _Geometry:
    """What the checks need of a topology: slot areas (falling), links a slot (rising), wires and edges."""

    slot_areas: tuple[float, ...]
    degrees: tuple[int, ...]
    longest_wire_mm: float
    shortest_edge_mm: float


# By identity, as the packages of a space share their topology and hashing it costs more than the checks.
_KNOWN: dict[int, tuple[Topology, _Geometry]] = {}
_KEPT = 256


def _geometry(topology: Topology) -> _Geometry:
    known = _KNOWN.get(id(topology))
    if known is not None and known[0] is topology:
        return known[1]
    degrees = [0] * len(topology.slots)
    for edge in topology.edges:
        for slot in edge:
            degrees[slot] += 1
    geometry = _Geometry(
        slot_areas=tuple(sorted((slot.width_mm * slot.height_mm for slot in topology.slots), reverse=True)),
        degrees=tuple(sorted(degrees)),
        longest_wire_mm=max((_wire_mm(topology, *edge) for edge in topology.edges), default=0.0),
        shortest_edge_mm=min(min(slot.width_mm, slot.height_mm) for slot in topology.slots),
    )
    if len(_KNOWN) >= _KEPT:
        _KNOWN.clear()
    _KNOWN[id(topology)] = (topology, geometry)
    return geometry


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
