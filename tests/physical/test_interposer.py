"""Shoreline, cuts and exposure fields: counts by hand, and every shipped space inside what it declares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from shipped_points import points_of

from hydra_dse.config import bundled, load_design, load_space, load_technology
from hydra_dse.hardware.components import DieGroup, Package, PackageLimits, Slot
from hydra_dse.hardware.technology import Technology
from hydra_dse.hardware.topology import build_topology, floorplan
from hydra_dse.physical import package_violations
from hydra_dse.physical.geometry import cuts_of, geometry_of, sides_of
from hydra_dse.physical.interposer import link_wires, wires_per_mm
from tests.physical.packages import DIE, package

PLAIN = replace(package(), limits=PackageLimits())


def made_with(**changes: float) -> Technology:
    base = load_technology()
    return replace(base, interposer=replace(base.interposer, **changes))


def constraints(broken: Package) -> list[str]:
    return [violation.constraint for violation in package_violations(broken)]


def test_a_side_of_a_grid_tile_holds_one_link_and_of_a_brick_wall_two() -> None:
    for kind in ("mesh", "torus"):
        assert {side.links for side in sides_of(build_topology(kind, 4, 4, 10.0, 10.0))} == {1}
    bricks = geometry_of(build_topology("hex", 4, 4, 10.0, 10.0)).side
    assert bricks is not None
    assert (bricks.links, bricks.length_mm) == (2, 10.0)


def test_small_neighbours_of_a_large_die_share_its_side() -> None:
    slots = [Slot(10, 20, 20, 20), Slot(25, 7, 10, 12), Slot(25, 20, 10, 12), Slot(25, 33, 10, 12)]
    fullest = geometry_of(floorplan(slots)).side
    assert fullest is not None
    assert (fullest.slot, fullest.name, fullest.links, fullest.length_mm) == (0, "right", 3, 20)


def test_links_over_the_cuts_of_a_mesh_and_a_torus() -> None:
    mesh = {(cut.axis, cut.links) for cut in cuts_of(build_topology("mesh", 6, 4, 10.0, 10.0))}
    assert mesh == {("x", 4), ("y", 6)}
    # Rings cross every cut once on their way and once to close.
    torus = {(cut.axis, cut.links) for cut in cuts_of(build_topology("torus", 6, 4, 10.0, 10.0))}
    assert torus == {("x", 8), ("y", 12)}


def test_a_cut_with_too_few_wires_is_named_with_demand_and_capacity() -> None:
    coarse = replace(PLAIN, technology=made_with(pitch_um=1000.0, layers=2, wire_bits_per_s=16e9))
    [violation] = package_violations(coarse)
    # Three links of 256 GB/s cross the 33.2 mm between rows: 3 x 256 wires against 2 a millimetre.
    assert violation.demand == pytest.approx(3 * 2 * 256e9 * 8 / 16e9)
    assert violation.bound == pytest.approx(2 * (3 * 11 + 0.2))
    assert violation.constraint == "wires over the cut at y = 12 mm (3 links)"


def test_an_interposer_of_too_many_fields_is_refused() -> None:
    assert constraints(replace(PLAIN, technology=made_with(max_reticles=0.9))) == ["exposure fields of the interposer"]
    assert constraints(replace(PLAIN, technology=made_with(max_reticles=0.95))) == []


def test_a_long_die_does_not_fit_a_field_that_its_area_fits() -> None:
    slot = build_topology("mesh", 1, 1, 60.0, 14.0)
    long = replace(PLAIN, topology=slot, dies=(DieGroup("A", replace(DIE, area_mm2=800.0), 1),), memories=())
    [violation] = package_violations(long)
    assert (violation.constraint, violation.bound) == ("reticle for A", pytest.approx(33.0 * 14.0))


def test_hydras_links_use_a_tenth_of_the_wires_at_most() -> None:
    carrier = load_technology().interposer
    assert 4 * link_wires(carrier, 640e9) < 0.1 * wires_per_mm(carrier) * 44.4


@pytest.mark.slow
@pytest.mark.parametrize("name", bundled("spaces"))
def test_every_shipped_space_stays_inside_what_it_declares(name: str) -> None:
    space = load_space(name)
    packages: dict[int, Package] = {}
    batch = next(parameter.choices for parameter in space.parameters if parameter.name == "max_batch")
    for point in (point for point in points_of(space) if point["max_batch"] == batch[0]):
        design = space.build(point)
        packages[id(design.package)] = design.package
    assert [broken for one in packages.values() for broken in package_violations(one)] == []


@pytest.mark.parametrize("name", bundled("designs"))
def test_every_shipped_design_can_be_built(name: str) -> None:
    assert package_violations(load_design(name).package) == ()
