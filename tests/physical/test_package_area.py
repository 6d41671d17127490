"""Area and power of packages against sums by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.hardware.components import DieGroup
from hydra_dse.hardware.topology import build_topology
from hydra_dse.physical import area_mm2, interposer_mm2, peak_power_w, silicon, static_power_w
from tests.physical.packages import DIE, package


def test_silicon_is_dies_and_memory_phys() -> None:
    assert area_mm2(package()) == 2 * 100 + 80 + 3 * 10


def test_memory_tiles_that_route_add_their_base_dies() -> None:
    assert area_mm2(package(leaf=False)) == area_mm2(package()) + 3 * 50


@pytest.mark.parametrize("leaf", [True, False])
def test_silicon_by_group_sums_to_the_area(leaf: bool) -> None:
    shares = silicon(package(leaf))
    assert sum(share.area_mm2 for share in shares) == area_mm2(package(leaf))
    assert ("routing base dies" in {share.what for share in shares}) != leaf


def test_the_interposer_holds_all_slots_and_a_keep_out() -> None:
    assert interposer_mm2(package()) == pytest.approx((3 * 11 + 0.2) * (2 * 12 + 0.2))


def test_a_hexagonal_grid_is_half_a_tile_wider() -> None:
    hexagonal = replace(package(), topology=build_topology("hex", 3, 2, 11.0, 12.0))
    assert interposer_mm2(hexagonal) == pytest.approx((3.5 * 11 + 0.2) * (2 * 12 + 0.2))


def test_static_power_is_that_of_dies_stacks_and_base_dies() -> None:
    assert static_power_w(package()) == pytest.approx(2 * 3 + 2 + 3 * 4)
    assert static_power_w(package(leaf=False)) == pytest.approx(2 * 3 + 2 + 3 * (4 + 50 * 0.03))


def test_peak_power_is_every_resource_at_its_peak() -> None:
    dies = 3 * (20 + 2 + 20)  # matrix, vector and SRAM watts of each die
    stacks = 3 * 600e9 * 5e-11
    links = 2 * 7 * 256e9 * 4e-12  # a 3 x 2 mesh has seven links, each in two directions
    assert peak_power_w(package()) == pytest.approx(20 + dies + stacks + links)


def test_memory_fixed_to_a_die_counts_in_peak_power() -> None:
    gpu = replace(DIE, memory_bytes=80e9, memory_bandwidth_bytes_per_s=3e12, joules_per_memory_byte=1e-10)
    alone = replace(
        package(), dies=(DieGroup("G", gpu, 1),), memories=(), topology=build_topology("mesh", 1, 1, 30.0, 30.0)
    )
    assert peak_power_w(alone) == pytest.approx(3 + 42 + 300)
