"""What a package breaks: its declared limits, its slots, its links and interposer.  Placement is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hydra_dse.hardware.components import Package
from hydra_dse.physical.area import area_mm2, interposer_mm2, interposer_size_mm
from hydra_dse.physical.geometry import geometry_of
from hydra_dse.physical.interposer import above, interposer_violations
from hydra_dse.physical.power import static_power_w
from hydra_dse.results.nouns import Violation
from hydra_dse.routing.fabric import at_edge


def package_violations(package: Package) -> tuple[Violation, ...]:
    """Return every physical constraint that the package breaks, empty where it can be built."""
    if package.parts:
        return tuple(
            replace(broken, constraint=f"{part.name}: {broken.constraint}")
            for part in package.parts
            for broken in (*package_violations(part), *_ports(part))
        )
    return (*_limits(package), *_fits(package), *interposer_violations(package), *_links(package))


def _ports(package: Package) -> Iterator[Violation]:
    """Whether the ports of a fabric find dies to hang on, with a side free, and fit beside the package."""
    if package.fabric is None:
        return
    if not package.die_count:
        yield Violation("dies", 0.0, 1.0, "dies", ("at least one die in each package", "fewer packages"))
        return
    ports, topology = package.fabric_ports, package.topology
    degrees = [sum(slot in edge for edge in topology.edges) for slot in range(len(topology.slots))]
    most = max(group.chiplet.ports for group in package.dies)
    free = sum(max(0, most - degrees[slot]) for slot in at_edge(topology))
    if ports > free:
        yield Violation(
            "fabric ports",
            float(ports),
            float(free),
            "free links of dies at the edge",
            ("fewer links of the fabric", "a mesh instead of a torus", "dies with more links"),
        )
    width, height = interposer_size_mm(topology)
    demand = ports * package.fabric.bandwidth_bytes_per_s / package.fabric.link.density_bytes_per_s_per_mm
    if above(demand, 2 * (width + height)):
        yield Violation(
            "edge of the package for fabric ports",
            demand,
            2 * (width + height),
            "mm",
            ("fewer links or less bandwidth of the fabric", "a denser link class"),
        )


def _limits(package: Package) -> Iterator[Violation]:
    limits = package.limits
    silicon, interposer, power = area_mm2(package), interposer_mm2(package), static_power_w(package)
    if limits.silicon_mm2 is not None and above(silicon, limits.silicon_mm2):
        yield Violation(
            "silicon area",
            silicon,
            limits.silicon_mm2,
            "mm2",
            ("fewer or smaller dies", "a lower link bandwidth", "a finer process", "leaf memory tiles"),
        )
    if limits.interposer_mm2 is not None and above(interposer, limits.interposer_mm2):
        yield Violation(
            "interposer area",
            interposer,
            limits.interposer_mm2,
            "mm2",
            ("fewer slots", "smaller tiles (dies of a finer process)", "a larger interposer"),
        )
    if limits.power_w is not None and above(power, limits.power_w):
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


def _worst_fit(package: Package) -> tuple[str, float, float] | None:
    """The component that exceeds its slot most, when the largest components take the largest slots."""
    wanted = [(group.chiplet.area_mm2, group.name, group.count) for group in package.dies]
    wanted += [(group.stack.footprint_mm2, group.name, group.count) for group in package.memories]
    sizes, at = geometry_of(package.topology).slot_areas, 0
    worst = None
    for area, name, count in sorted(wanted, reverse=True):
        at += count
        slot = sizes[at - 1]  # of this group's dies the last one meets the smallest slot
        if above(area, slot) and (worst is None or area / slot > worst[1] / worst[2]):
            worst = name, area, slot
    return worst


def _links(package: Package) -> Iterator[Violation]:
    geometry, link, bandwidth = geometry_of(package.topology), package.link, package.link_bandwidth_bytes_per_s
    if not package.topology.edges:
        return
    if above(geometry.longest_wire_mm, link.reach_mm):
        yield Violation(
            "link reach",
            geometry.longest_wire_mm,
            link.reach_mm,
            "mm",
            ("slots closer together", "a link class with more reach (ucie-standard)", "a mesh instead of a torus"),
        )
    for group in package.dies:
        own = group.chiplet.link_bandwidth_bytes_per_s
        if above(bandwidth, own):
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
    degrees, at = geometry_of(package.topology).degrees, 0
    for ports, name, count in sorted([(group.chiplet.ports, group.name, group.count) for group in package.dies]):
        at += count
        if at <= len(degrees) and degrees[at - 1] > ports:
            return name, degrees[at - 1], ports
    return None
