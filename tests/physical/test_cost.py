"""Cost of packages: against Chiplet Actuary where its formula is followed, and against hand sums."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hydra_dse.config import load_technology
from hydra_dse.hardware.components import DieGroup, Package
from hydra_dse.hardware.technology import Technology
from hydra_dse.hardware.topology import build_topology
from hydra_dse.physical import interposer_mm2, package_cost, usd_per_million_tokens
from hydra_dse.physical.area import EDGE_MM
from hydra_dse.physical.cost import die_cost, interposer_cost
from tests.physical.packages import DIE, LINK, package

ACTUARY = load_technology("actuary")
CHIPS, AREA = 18, 121.0
# Recurring cost of 18 dies of 121 mm2 by Chiplet Actuary, with micro-bumps on every die (see below).
PUBLISHED = {28: (262.0, 728.0, 1776.0), 7: (596.0, 1133.0, 2486.0), 5: (1009.0, 1634.0, 3362.0)}
KNOWN_GOOD = {28: 6.71, 7: 22.21, 5: 41.34}


def chips(node: float, technology: Technology, carrier: float) -> Package:
    """Eighteen dies on an interposer of `carrier` times their area."""
    width, height = math.sqrt(2.0 * AREA * CHIPS * carrier), math.sqrt(AREA * CHIPS * carrier / 2.0)
    tile = (width - 2 * EDGE_MM) / 6, (height - 2 * EDGE_MM) / 3
    die = replace(DIE, technology_nm=node, area_mm2=AREA)
    topology = build_topology("mesh", 6, 3, *tile)
    return Package("chips", topology, LINK, 256e9, (DieGroup("A", die, CHIPS),), (), technology=technology)


def organic() -> Technology:
    """No interposer: dies with C4 bumps on a substrate of four times their area and twice the price (many layers)."""
    board = 4 * 2 * ACTUARY.substrate.usd_per_mm2
    carrier = replace(
        ACTUARY.interposer,
        wafer_usd=0.0,
        defects_per_cm2=0.0,
        bond_yield=0.99,
        bump_usd_per_mm2=0.005,
        c4_usd_per_mm2=board,
    )
    return replace(ACTUARY, interposer=carrier, substrate=replace(ACTUARY.substrate, usd_per_mm2=0, attach_yield=1.0))


def fan_out() -> Technology:
    carrier = replace(ACTUARY.interposer, wafer_usd=1200.0, defects_per_cm2=0.05, clustering=3.0, bond_yield=0.98)
    return replace(ACTUARY, interposer=carrier)


@pytest.mark.parametrize("node", PUBLISHED)
def test_recurring_cost_is_chiplet_actuarys(node: int) -> None:
    cases = ((organic(), 1.0), (fan_out(), 1.2), (ACTUARY, 1.1))
    found = [package_cost(chips(node, technology, carrier)).recurring for technology, carrier in cases]
    assert found == pytest.approx(PUBLISHED[node], rel=2e-3)


@pytest.mark.parametrize("node", KNOWN_GOOD)
def test_known_good_dies_cost_what_chiplet_actuary_says(node: int) -> None:
    bumps = ACTUARY.interposer.bump_usd_per_mm2 * AREA
    assert die_cost(ACTUARY, node, AREA).usd - bumps == pytest.approx(KNOWN_GOOD[node], abs=5e-3)


def test_bumps_once_a_kind_of_die_would_make_packages_up_to_three_percent_cheaper() -> None:
    whole = package_cost(chips(28, ACTUARY, 1.1))
    forgotten = (CHIPS - 1) * ACTUARY.interposer.bump_usd_per_mm2 * AREA / whole.assembly_yield
    assert 0.028 < forgotten / whole.recurring < 0.03


def test_cost_of_a_package_is_its_parts_and_what_assembly_loses() -> None:
    mixed = replace(package(), technology=load_technology())
    technology, cost = load_technology(), package_cost(mixed)
    parts = dict((*cost.dies, *cost.memories))
    assert parts["A"] == pytest.approx(2 * die_cost(technology, 22, 100.0).usd)
    assert parts["HBM"] == pytest.approx(3 * 16 * 7.0)
    raw, made = interposer_cost(technology, interposer_mm2(mixed))
    tested = die_cost(technology, 22, 100.0).good ** 2 * die_cost(technology, 22, 80.0).good
    assert cost.assembly_yield == pytest.approx(0.99**6 * 0.99 * tested)
    # What a working package costs is everything that was started over the share that works.
    started = sum(parts.values()) / cost.assembly_yield + raw / (made * cost.assembly_yield) + cost.substrate / 0.99
    assert cost.recurring == pytest.approx(started)


def test_non_recurring_cost_shrinks_with_volume_and_counts_each_kind_of_die_once() -> None:
    base = load_technology()
    large = replace(base, economics=replace(base.economics, volume=10 * base.economics.volume))
    assert package_cost(replace(package(), technology=large)).nre == pytest.approx(package_cost(package()).nre / 10)
    more = replace(package(), dies=(replace(package().dies[0], count=1), package().dies[1]))
    assert package_cost(more).nre == pytest.approx(package_cost(package()).nre)


def test_seams_of_an_interposer_cost_yield_and_exposure() -> None:
    technology = load_technology()
    carrier = technology.interposer
    plain = replace(technology, interposer=replace(carrier, stitch_yield=1.0, stitch_cost=0.0))
    assert interposer_cost(technology, 858.0) == interposer_cost(plain, 858.0)
    raw, made = interposer_cost(technology, 3000.0)
    assert made == pytest.approx(interposer_cost(plain, 3000.0)[1] * carrier.stitch_yield**3)
    assert raw > interposer_cost(plain, 3000.0)[0]


def test_tokens_cost_depreciation_and_electricity() -> None:
    economics = load_technology().economics
    served = economics.years * 365.25 * 86_400 * economics.utilisation
    kwh_per_s = 0.5 / 3600
    by_hand = (4000 / served + kwh_per_s * economics.pue * economics.usd_per_kwh) / 1000 * 1e6
    assert usd_per_million_tokens(package(), 4000.0, 500.0, 1000.0) == pytest.approx(by_hand)
    assert usd_per_million_tokens(package(), 4000.0, 500.0, 0.5) == pytest.approx(by_hand * 2000)
    assert usd_per_million_tokens(package(), 4000.0, 500.0, 0.0) == math.inf


def test_dies_beyond_an_exposure_field_are_priced_as_several() -> None:
    one = replace(DIE, area_mm2=1600.0)
    two = replace(DIE, area_mm2=800.0)
    tile = build_topology("mesh", 1, 1, 40.0, 40.0)
    whole = Package("one", tile, LINK, 256e9, (DieGroup("A", one, 1),), ())
    split = Package("two", tile, LINK, 256e9, (DieGroup("A", two, 2),), ())
    assert package_cost(whole).recurring == pytest.approx(package_cost(split).recurring)
