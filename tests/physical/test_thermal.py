"""Heat: against the analytic stack, energy in and out, superposition, fixed points, throttling."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from hydra_dse.config import load_technology
from hydra_dse.hardware.components import MemoryGroup, Topology
from hydra_dse.hardware.fabric import joined
from hydra_dse.hardware.links import Fabric
from hydra_dse.hardware.technology import Technology
from hydra_dse.hardware.topology import build_topology
from hydra_dse.physical.area import interposer_size_mm
from hydra_dse.physical.thermal import (
    Influence,
    SlotPower,
    influence_of,
    influence_on,
    settle,
    slot_power,
    solve_package,
    sustained_share,
)
from hydra_dse.physical.thermal_grid import DIES, SINK, Rectangle, ThermalGrid
from tests.physical.packages import LINK, STACK, package

BASE = load_technology()
MESH = build_topology("mesh", 4, 3, 11.0, 11.0)
REFRESH, LEAKAGE = BASE.cooling.refresh_share, BASE.leakage.share


def one_node(rise_per_w: float) -> Influence:
    return Influence(np.array([[rise_per_w]]), np.array([0]), np.array([[rise_per_w]]))


def of_die(dynamic: float, leakage: float, steady: float = 0.0) -> SlotPower:
    return SlotPower(*(np.array([[value]]) for value in (dynamic, steady, leakage, 0.0, False, 0.0)))


def cooled(**changes: float) -> Technology:
    return replace(BASE, cooling=replace(BASE.cooling, **changes))


def test_a_uniform_stack_is_the_sum_of_its_resistances() -> None:
    cooling = replace(BASE.cooling, overhang_mm=0.0)
    width, height = interposer_size_mm(MESH)
    grid = ThermalGrid(MESH, cooling, [Rectangle(-0.1, -0.1, width, height)], cells=12)
    power = 250.0
    rise = grid.rise(np.full(grid.shape, power / (grid.shape[0] * grid.shape[1])))
    area = width * height * 1e-6
    die, tim, spreader, sink = (getattr(cooling, name) for name in ("die", "tim", "spreader", "sink"))
    through = sum(solid.thickness_mm * 1e-3 / solid.w_per_mk for solid in (tim, spreader, sink))
    resistance = (die.thickness_mm * 1e-3 / 2 / die.w_per_mk + through) / area + cooling.sink_k_per_w
    assert rise[DIES] == pytest.approx(np.full(grid.shape, power * resistance), rel=1e-9)


def test_all_heat_that_enters_leaves_through_the_sink() -> None:
    grid = ThermalGrid(MESH, BASE.cooling)
    power = np.zeros(grid.shape)
    for number, slot in enumerate(MESH.slots):
        cover = grid.cover(Rectangle.of(slot))
        power += cover / cover.sum() * (3.0 + number)
    out = (np.nan_to_num(grid.rise(power)[SINK]) * grid.to_ambient).sum()
    assert out == pytest.approx(power.sum(), rel=1e-9)


def test_superposition_is_the_full_solution() -> None:
    grid = ThermalGrid(MESH, BASE.cooling)
    watts = np.linspace(2.0, 30.0, len(MESH.slots))
    covers = [grid.cover(Rectangle.of(slot)) for slot in MESH.slots]
    whole = grid.rise(sum(cover / cover.sum() * w for cover, w in zip(covers, watts, strict=True)))[DIES]
    influence = influence_of(MESH, BASE.cooling)
    assert influence.peaks(watts[None]).max() == pytest.approx(np.nanmax(whole), rel=1e-6)
    means = [(np.nan_to_num(whole) * cover).sum() / cover.sum() for cover in covers]
    assert influence.mean @ watts == pytest.approx(means, rel=1e-9)


def test_what_one_slot_does_to_another_is_what_that_does_to_it() -> None:
    mean = influence_of(MESH, BASE.cooling).mean
    assert mean == pytest.approx(mean.T, rel=1e-8)
    assert (mean.argmax(axis=1) == np.arange(len(mean))).all()


def test_a_package_turned_by_a_right_angle_is_as_warm() -> None:
    def mean(topology: Topology) -> np.ndarray:
        return influence_on(ThermalGrid(topology, BASE.cooling, cells=24)).mean

    lying, standing = build_topology("mesh", 3, 2, 11.0, 7.0), build_topology("mesh", 2, 3, 7.0, 11.0)
    turned = [column * 2 + row for row in range(2) for column in range(3)]
    assert mean(lying) == pytest.approx(mean(standing)[np.ix_(turned, turned)], rel=1e-9)


def test_packages_side_by_side_do_not_warm_each_other() -> None:
    first, second = package(), replace(package(), name="q", topology=build_topology("mesh", 3, 2, 9.0, 13.0))
    both = joined("pair", (first, second), Fabric(LINK, 64e9, 1))
    whole = influence_of(both.topology, BASE.cooling).mean
    alone = [influence_of(part.topology, BASE.cooling).mean for part in (first, second)]
    assert whole[:6, :6] == pytest.approx(alone[0]) and whole[6:12, 6:12] == pytest.approx(alone[1])
    assert whole.sum() == pytest.approx(alone[0].sum() + alone[1].sum())


def test_each_of_two_packages_is_as_warm_as_alone() -> None:
    first, second = package(), replace(package(), name="q")
    both = joined("pair", (first, second), Fabric(LINK, 64e9, 1))
    own = np.array([20.0, 10.0, 15.0, 8.0, 6.0, 4.0])
    # Dies of the first, dies of the second, stacks of the first, stacks of the second; slots of the second start at 6.
    slots = (5, 0, 2, 10, 6, 11, 1, 3, 4, 7, 8, 9)
    dynamic = np.concatenate((own[:3], 2.0 * own[:3], own[3:], 2.0 * own[3:]))
    heat = solve_package(both, slots, dynamic)
    cool = solve_package(first, (5, 0, 2, 1, 3, 4), own)
    hot = solve_package(second, (4, 0, 5, 1, 2, 3), 2.0 * own)
    assert heat.slots_c is not None and cool.slots_c is not None and hot.slots_c is not None
    assert heat.slots_c[0, :6] == pytest.approx(cool.slots_c[0], abs=1e-6)
    assert heat.slots_c[0, 6:12] == pytest.approx(hot.slots_c[0], abs=1e-6)
    assert heat.power_w[0] == pytest.approx(cool.power_w[0] + hot.power_w[0])


@pytest.mark.slow
def test_a_grid_twice_as_fine_changes_peak_rises_by_less_than_a_percent() -> None:
    watts = np.zeros((1, 12))
    watts[0, [0, 5]] = 30.0, 60.0
    coarse, fine = (influence_on(ThermalGrid(MESH, BASE.cooling, cells=cells)).peaks(watts).max() for cells in (40, 80))
    assert coarse == pytest.approx(fine, rel=0.01)


def test_leakage_settles_at_the_lower_of_its_two_balances() -> None:
    leakage, rise, dynamic = 30.0, 1.0, 20.0

    def gap(celsius: float) -> float:
        leaking = leakage * np.exp(BASE.leakage.per_k * (celsius - BASE.leakage.nominal_c))
        return float(BASE.cooling.ambient_c + rise * (dynamic + leaking) - celsius)

    lower = optimize.brentq(gap, 35.0, 150.0)
    assert gap(300.0) > 0  # above the upper balance it runs away
    heat = settle(of_die(dynamic, leakage), one_node(rise), BASE)
    assert heat.die_c[0] == pytest.approx(lower, abs=0.02)
    assert heat.power_w[0] == pytest.approx((lower - BASE.cooling.ambient_c) / rise, abs=0.02)


def test_leakage_without_a_balance_runs_away() -> None:
    heat = settle(of_die(100.0, 60.0), one_node(1.0), BASE)
    assert np.isnan(heat.die_c[0])
    assert sustained_share(of_die(100.0, 60.0), one_node(1.0), BASE, np.array([np.inf]))[0] < 1.0


def test_a_package_above_its_temperature_is_slowed_to_its_limit() -> None:
    power, influence = of_die(120.0, 5.0), one_node(0.8)
    share = sustained_share(power, influence, BASE, np.array([np.inf]))
    assert 0 < share[0] < 1
    slowed = replace(power, dynamic_w=power.dynamic_w * share)
    assert settle(slowed, influence, BASE).die_c[0] == pytest.approx(BASE.cooling.die_limit_c, abs=0.01)


def test_a_package_above_its_power_is_slowed_to_its_limit() -> None:
    power, influence = of_die(120.0, 5.0, 10.0), one_node(0.1)
    share = sustained_share(power, influence, BASE, np.array([90.0]))
    slowed = replace(power, dynamic_w=power.dynamic_w * share)
    assert settle(slowed, influence, BASE).power_w[0] == pytest.approx(90.0, abs=0.01)
    assert sustained_share(power, influence, BASE, np.array([5.0]))[0] == 0.0


def test_dram_refreshes_twice_as_often_where_it_is_hot() -> None:
    stack = SlotPower(*(np.array([[value]]) for value in (20.0, 2.0, 0.0, 2.0, True, 0.4)))
    cool, hot = (settle(stack, one_node(rise), BASE) for rise in (0.5, 1.7))
    assert (cool.hot_refresh[0], hot.hot_refresh[0]) == (False, True)
    assert (cool.power_w[0], hot.power_w[0]) == (pytest.approx(24.0), pytest.approx(26.0))
    assert hot.dram_c[0] == pytest.approx(35.0 + 26.0 * (1.7 + 0.4))


def test_slots_carry_the_power_of_what_stands_on_them() -> None:
    placed, dynamic = package(), np.array([5.0, 6.0, 7.0, 1.0, 2.0, 3.0])
    power = slot_power(placed, (5, 0, 2, 1, 3, 4), dynamic)
    assert power.dynamic_w[0].tolist() == [6.0, 1.0, 7.0, 2.0, 3.0, 5.0]
    nominal = power.steady_w + power.leakage_w + power.refresh_w
    assert power.refresh_w[0].tolist() == pytest.approx([0.0, 4.0 * REFRESH, 0.0, 4.0 * REFRESH, 4.0 * REFRESH, 0.0])
    assert power.leakage_w[0].tolist() == pytest.approx([3.0 * LEAKAGE, 0.0, 2.0 * LEAKAGE, 0.0, 0.0, 3.0 * LEAKAGE])
    assert nominal[0].tolist() == pytest.approx([3.0, 4.0, 2.0, 4.0, 4.0, 3.0])
    assert power.is_memory[0].tolist() == [False, True, False, True, True, False]


def test_silicon_in_every_slot_is_close_to_silicon_where_it_is() -> None:
    placed = replace(package(), memories=(MemoryGroup("HBM", STACK, 2),))
    dynamic, slots = np.array([20.0, 10.0, 15.0, 8.0, 8.0]), (5, 0, 2, 1, 3)
    full = solve_package(placed, slots, dynamic)
    quick = settle(slot_power(placed, slots, dynamic), influence_of(placed.topology, BASE.cooling), BASE)
    assert quick.power_w == pytest.approx(full.power_w, rel=2e-3)
    rise = full.peak_c - BASE.cooling.ambient_c
    assert quick.peak_c - BASE.cooling.ambient_c == pytest.approx(rise, rel=0.05)


def test_a_better_sink_is_cooler() -> None:
    placed, dynamic, slots = package(), np.full(6, 20.0), (0, 1, 2, 3, 4, 5)
    found = [
        float(solve_package(replace(placed, technology=cooled(sink_k_per_w=k)), slots, dynamic).peak_c[0])
        for k in (0.02, 0.1, 0.2)
    ]
    assert found == sorted(found)
    assert found[1] - found[0] == pytest.approx(0.08 * (120.0 + 20.0), rel=0.1)
