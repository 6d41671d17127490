"""What a package may not exceed: each violation with its demand, bound and levers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.hardware.components import DieGroup, MemoryGroup, Package, PackageLimits, Slot, Topology
from hydra_dse.hardware.fabric import joined
from hydra_dse.hardware.links import Fabric
from hydra_dse.hardware.topology import build_topology, floorplan
from hydra_dse.physical import package_violations
from tests.physical.packages import DIE, LINK, STACK, package

FITS = replace(package(), limits=PackageLimits(silicon_mm2=310, interposer_mm2=810, power_w=20))


def only(broken: Package) -> tuple[str, float, float, str]:
    violations = package_violations(broken)
    assert len(violations) == 1
    assert len(violations[0].levers) >= 2
    return violations[0].constraint, violations[0].demand, violations[0].bound, violations[0].unit


def test_a_package_inside_its_limits_breaks_nothing() -> None:
    assert package_violations(FITS) == ()


def test_a_limit_that_is_met_exactly_is_not_broken() -> None:
    assert package_violations(replace(FITS, limits=PackageLimits(silicon_mm2=310, power_w=20))) == ()


def test_limits_that_are_not_stated_are_not_checked() -> None:
    assert package_violations(replace(FITS, limits=PackageLimits())) == ()


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (PackageLimits(silicon_mm2=300), ("silicon area", 310, 300, "mm2")),
        (PackageLimits(interposer_mm2=800), ("interposer area", pytest.approx(33.2 * 24.2), 800, "mm2")),
        (PackageLimits(power_w=19), ("static power", 20, 19, "W")),
    ],
)
def test_a_broken_limit_is_named_with_demand_and_bound(limits: PackageLimits, expected: tuple[object, ...]) -> None:
    assert only(replace(FITS, limits=limits)) == expected


def test_more_components_than_slots() -> None:
    assert only(replace(FITS, memories=(MemoryGroup("HBM", STACK, 4),), limits=PackageLimits())) == (
        "slots",
        7,
        6,
        "slots",
    )


def test_a_die_larger_than_its_slot() -> None:
    big = replace(FITS, dies=(DieGroup("A", replace(DIE, area_mm2=140.0), 1),), limits=PackageLimits())
    assert only(big) == ("slot area of A", 140, 132, "mm2")


def test_a_stack_larger_than_its_slot() -> None:
    wide = replace(FITS, memories=(MemoryGroup("HBM", replace(STACK, footprint_mm2=150.0), 1),))
    assert only(wide) == ("slot area of HBM", 150, 132, "mm2")


def test_large_dies_take_the_large_slots_of_a_floorplan() -> None:
    slots = [Slot(5, 5, 10, 10), Slot(20, 5, 19, 10), Slot(35, 5, 10, 10)]
    dies = (DieGroup("small", replace(DIE, area_mm2=95.0), 2), DieGroup("large", replace(DIE, area_mm2=185.0), 1))
    plan = replace(FITS, topology=floorplan(slots), dies=dies, memories=(), limits=PackageLimits())
    assert package_violations(plan) == ()
    two = replace(plan, dies=(dies[1], replace(dies[1], name="other")))
    assert only(two)[1:] == (185, 100, "mm2")


def test_a_chiplet_beyond_the_reticle() -> None:
    wide = replace(FITS, topology=build_topology("mesh", 2, 2, 31.0, 30.0), memories=(), limits=PackageLimits())
    assert package_violations(wide) == ()
    assert only(replace(wide, dies=(DieGroup("A", replace(DIE, area_mm2=900.0), 1),))) == (
        "reticle for A",
        900,
        31 * 26,  # what of the field fits the slot
        "mm2",
    )


def test_a_product_with_its_own_memory_may_exceed_the_reticle() -> None:
    wafer = replace(DIE, area_mm2=46225.0, memory_bytes=40e9)
    alone = replace(
        FITS,
        topology=build_topology("mesh", 1, 1, 215.0, 215.0),
        dies=(DieGroup("W", wafer, 1),),
        memories=(),
        limits=PackageLimits(),
    )
    assert package_violations(alone) == ()


def test_a_link_wider_than_the_die_edge() -> None:
    thin = replace(LINK, density_bytes_per_s_per_mm=20e9)
    assert only(replace(FITS, link=thin)) == ("upper side of slot 0 (1 link)", 256 / 20, 11, "mm")


def test_a_wire_longer_than_its_reach() -> None:
    slots = (Slot(5, 5, 10, 10), Slot(19, 5, 10, 10))
    apart = Topology("floorplan", 0, 0, slots, ((0, 1),))
    alone = replace(FITS, topology=apart, dies=(DieGroup("A", DIE, 2),), memories=(), limits=PackageLimits())
    assert package_violations(alone) == ()
    assert only(replace(alone, link=replace(LINK, reach_mm=2.0))) == ("link reach", 4, 2, "mm")


def test_the_folded_links_of_a_torus_span_two_pitches() -> None:
    torus = replace(FITS, topology=build_topology("torus", 6, 4, 11.0, 12.0), limits=PackageLimits())
    assert package_violations(torus) == ()
    assert only(replace(torus, link=replace(LINK, reach_mm=2.0))) == ("link reach", 12, 2, "mm")


def test_links_faster_than_a_die_can_drive() -> None:
    assert only(replace(FITS, dies=(DieGroup("A", replace(DIE, link_bandwidth_bytes_per_s=200e9), 2),))) == (
        "link bandwidth of A",
        256,
        200,
        "GB/s",
    )


def test_a_slot_with_more_neighbours_than_the_die_has_links() -> None:
    # Neighbours of the nine slots of a 3 x 3 brick wall, counted by hand: 2 2 3 3 3 4 4 5 6.
    hexagonal = replace(FITS, topology=build_topology("hex", 3, 3, 11.0, 12.0), memories=(), limits=PackageLimits())
    assert package_violations(replace(hexagonal, dies=(DieGroup("A", DIE, 7),))) == ()
    assert only(replace(hexagonal, dies=(DieGroup("A", DIE, 8),))) == ("links of A", 5, 4, "links")
    assert only(replace(hexagonal, dies=(DieGroup("A", DIE, 9),))) == ("links of A", 6, 4, "links")
    assert package_violations(replace(hexagonal, dies=(DieGroup("A", replace(DIE, ports=6), 9),))) == ()


def test_dies_with_few_links_may_take_the_corners() -> None:
    corners = replace(FITS, dies=(DieGroup("A", replace(DIE, ports=2), 3),), limits=PackageLimits())
    assert package_violations(corners) == ()
    everywhere = replace(corners, dies=(DieGroup("A", replace(DIE, ports=2), 5),), memories=())
    assert only(everywhere) == ("links of A", 3, 2, "links")


def test_packages_of_equal_topology_get_equal_answers() -> None:
    first = replace(FITS, topology=build_topology("mesh", 2, 2, 11.0, 12.0))
    second = replace(FITS, topology=build_topology("mesh", 2, 2, 11.0, 12.0))
    assert first.topology is not second.topology
    assert package_violations(first) == package_violations(second)


def of_a_pair(plan: Package, fabric: Fabric) -> list[tuple[str, float, float, str]]:
    """What the first of two equal packages breaks when a fabric joins them."""
    both = joined("pair", (plan, replace(plan, name="q")), fabric)
    found = [(broken.constraint, broken.demand, broken.bound, broken.unit) for broken in package_violations(both)]
    assert len(found) % 2 == 0
    return found[: len(found) // 2]


def test_ports_of_a_fabric_hang_on_free_sides_of_dies_at_the_edge() -> None:
    # Of 3 × 3 slots the corners have 2 links and the sides 3; with 5 a die 4·3 + 4·2 are free, the middle has no edge.
    square = build_topology("mesh", 3, 3, 11.0, 12.0)
    plan = replace(FITS, topology=square, dies=(DieGroup("A", replace(DIE, ports=5), 2),), limits=PackageLimits())
    assert of_a_pair(plan, Fabric(LINK, 1e9, 20)) == []
    assert of_a_pair(plan, Fabric(LINK, 1e9, 21)) == [("p: fabric ports", 21, 20, "free links of dies at the edge")]


def test_a_torus_of_dies_with_four_links_has_no_side_free_for_a_fabric() -> None:
    plan = replace(FITS, topology=build_topology("torus", 3, 3, 11.0, 12.0), limits=PackageLimits())
    assert of_a_pair(plan, Fabric(LINK, 1e9)) == [("p: fabric ports", 1, 0, "free links of dies at the edge")]


def test_ports_of_a_fabric_are_no_longer_than_the_edge_of_the_package() -> None:
    plan = replace(FITS, limits=PackageLimits())
    wide, long = (Fabric(replace(LINK, density_bytes_per_s_per_mm=density), 64e9, 10) for density in (6e9, 5e9))
    assert of_a_pair(plan, wide) == []
    # Ten ports of 64 GB/s at 5 GB/s a millimetre, around 33.2 mm × 24.2 mm.
    assert of_a_pair(plan, long) == [
        ("p: edge of the package for fabric ports", 128, pytest.approx(2 * (33.2 + 24.2)), "mm")
    ]


def test_a_package_without_dies_has_nothing_to_hang_ports_on() -> None:
    found = of_a_pair(replace(FITS, dies=(), limits=PackageLimits()), Fabric(LINK, 1e9))
    assert found == [("p: dies", 0, 1, "dies")]
