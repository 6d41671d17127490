"""Link loads of small placed packages against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.design.nouns import Placement
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup, MemoryStack, Package
from hydra_dse.hardware.links import LinkClass
from hydra_dse.network_load import LinkLoad, link_capacity, link_wait_s, transit_slots
from hydra_dse.routing import build_topology

DIE = Chiplet("die", "systolic", 22, 100, 1e12, 1e11, 1e6, 1e12, 4, 100e9)
STACK = MemoryStack("stack", "HBM3", 16e9, 600e9, 56e-12, 100)
LINK = LinkClass(
    "link", latency_s=5e-9, joules_per_byte=4e-12, efficiency=0.8, density_bytes_per_s_per_mm=1e11, reach_mm=2
)


def package(columns: int, rows: int, dies: int, stacks: int, leaf: bool = True) -> Package:
    return Package(
        name="test",
        topology=build_topology("mesh", columns, rows, 10, 10),
        link=LINK,
        link_bandwidth_bytes_per_s=100e9,
        dies=(DieGroup("D", DIE, dies),),
        memories=(MemoryGroup("H", STACK, stacks),) if stacks else (),
        memory_is_leaf=leaf,
    )


def by_link(load: LinkLoad, traffic: np.ndarray) -> dict[tuple[int, int], float]:
    values = load.loads(traffic)
    return {link: float(value) for link, value in zip(load.routes.links, values, strict=True) if value}


def flows(components: int, *entries: tuple[int, int, float]) -> np.ndarray:
    traffic = np.zeros((components, components))
    for source, target, amount in entries:
        traffic[source, target] = amount
    return traffic


def test_a_2x2_mesh_of_dies_loads_the_links_of_xy_routes() -> None:
    # Slots 0 1 / 2 3; components sit on their own slot.  0→3 takes 0→1→3, 3→0 takes 3→2→0, 0→1 takes its link.
    load = LinkLoad(package(2, 2, 4, 0), Placement((0, 1, 2, 3)))
    traffic = flows(4, (0, 3, 8.0), (3, 0, 2.0), (0, 1, 1.0))
    assert by_link(load, traffic) == {(0, 1): 9.0, (1, 3): 8.0, (3, 2): 2.0, (2, 0): 2.0}


def test_a_placement_moves_the_flows() -> None:
    # Components 0 and 3 swap slots: 0→3 is now 3→2→0.
    load = LinkLoad(package(2, 2, 4, 0), Placement((3, 1, 2, 0)))
    assert by_link(load, flows(4, (0, 3, 8.0))) == {(3, 2): 8.0, (2, 0): 8.0}


def test_a_3x3_mesh_with_a_memory_in_the_middle_that_does_not_route() -> None:
    # Dies on all slots but 4.  The stack (component 8) reaches slot 5 over one link and slot 2 over 4→1→2 or 4→5→2;
    # 3→5 cannot cross the middle and takes four links.
    slots = (0, 1, 2, 3, 5, 6, 7, 8, 4)
    load = LinkLoad(package(3, 3, 8, 1), Placement(slots))
    assert by_link(load, flows(9, (8, 4, 6.0))) == {(4, 5): 6.0}
    around = by_link(load, flows(9, (3, 4, 1.0)))
    assert len(around) == 4
    assert all(4 not in link for link in around)


def test_a_memory_with_a_routing_base_die_is_crossed() -> None:
    slots = (0, 1, 2, 3, 5, 6, 7, 8, 4)
    load = LinkLoad(package(3, 3, 8, 1, leaf=False), Placement(slots))
    assert by_link(load, flows(9, (3, 4, 1.0))) == {(3, 4): 1.0, (4, 5): 1.0}


def test_loads_of_all_to_all_traffic_on_a_3x3_mesh_follow_the_cut_formula() -> None:
    # XY: a horizontal link from column c carries, per row, (c + 1) sources × (3 - c - 1) columns × 3 rows of targets;
    # a vertical link from row r carries (r + 1)·3 sources × (3 - r - 1) targets of its column.
    load = LinkLoad(package(3, 3, 9, 0), Placement(tuple(range(9))))
    loads = by_link(load, np.ones((9, 9)))
    assert loads[(0, 1)] == loads[(1, 0)] == 1 * 2 * 3
    assert loads[(4, 5)] == 2 * 1 * 3
    assert loads[(1, 4)] == 1 * 3 * 2
    assert sum(loads.values()) == float(load.routes.hops.sum())


def test_stacked_matrices_are_evaluated_together() -> None:
    load = LinkLoad(package(3, 3, 6, 3), Placement((4, 1, 3, 5, 7, 0, 2, 6, 8)))
    stacked = np.random.default_rng(1).uniform(size=(2, 5, 9, 9))
    together = load.loads(stacked)
    assert together.shape == (2, 5, len(load.routes.links))
    for index in np.ndindex(2, 5):
        assert together[index] == pytest.approx(load.loads(stacked[index]))


def test_an_empty_slot_passes_nothing_on() -> None:
    # Two dies at the ends of a row of three: the empty middle has no router.
    load = LinkLoad(package(3, 1, 2, 0), Placement((0, 2)))
    assert transit_slots(load.package, (0, 2)) == (True, False, True)
    assert load.disconnected_bytes(flows(2, (0, 1, 7.0))) == 7.0
    assert not load.loads(flows(2, (0, 1, 7.0))).any()


def test_only_what_has_no_route_is_disconnected() -> None:
    # Dies on slots 0, 1 and 3 of a row of four: the empty slot 2 parts the last from the others.
    load = LinkLoad(package(4, 1, 3, 0), Placement((0, 1, 3)))
    assert load.disconnected_bytes(flows(3, (0, 1, 5.0), (1, 0, 3.0), (0, 2, 7.0), (2, 1, 2.0))) == 9.0


def test_saturation_is_where_the_worst_link_is_full() -> None:
    # Capacity 100 GB/s × 0.8.  20 GB/s on the worst link may grow fourfold.
    load = LinkLoad(package(2, 2, 4, 0), Placement((0, 1, 2, 3)))
    traffic = flows(4, (0, 3, 15e9), (0, 1, 5e9))
    assert link_capacity(load.package) == pytest.approx(80e9)
    assert load.utilisation(traffic).max() == pytest.approx(0.25)
    assert load.saturation_factor(traffic) == pytest.approx(4.0)
    assert load.saturation_factor(np.zeros((4, 4))) == np.inf


def test_latency_is_hops_times_hop_latency_plus_serialisation() -> None:
    load = LinkLoad(package(2, 2, 4, 0), Placement((0, 1, 2, 3)))
    assert load.latency_s(0, 3, 80.0) == pytest.approx(2 * 5e-9 + 1e-9)
    assert load.latency_s(2, 2, 80.0) == 0.0


def test_the_wait_at_a_link_is_half_that_of_exponential_messages() -> None:
    # M/M/1: S·u/(1-u); constant messages wait half of it (Pollaczek-Khinchine).
    assert link_wait_s(0.5, 80.0, 80e9) == pytest.approx(0.5 * 1e-9 * 0.5 / (1 - 0.5))
    assert link_wait_s(0.0, 80.0, 80e9) == 0.0


def test_the_wait_stays_finite_beyond_saturation_and_never_falls_with_load() -> None:
    waits = link_wait_s(np.linspace(0, 3, 301), 80.0, 80e9)
    assert np.isfinite(waits).all()
    assert (np.diff(waits) >= 0).all()


def test_the_wait_agrees_with_a_simulated_queue_of_constant_messages() -> None:
    rng = np.random.default_rng(11)
    utilisation, service = 0.7, 1.0
    gaps = rng.exponential(service / utilisation, size=400_000)
    steps = service - gaps[1:]
    total = np.concatenate([[0.0], np.cumsum(steps)])
    waits = total - np.minimum.accumulate(total)  # Lindley's recursion
    batches = waits.reshape(40, -1).mean(axis=1)
    half_width = 2.7 * batches.std(ddof=1) / np.sqrt(len(batches))  # 99 % interval over 40 batches
    assert abs(batches.mean() - float(link_wait_s(utilisation, service, 1.0))) < half_width


@pytest.mark.parametrize(
    ("slots", "words"),
    [((0, 1, 2), "3 slots for 4 components"), ((0, 1, 2, 2), "distinct slots"), ((0, 1, 2, 4), "from 0 to 3")],
)
def test_a_wrong_placement_is_refused(slots: tuple[int, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        LinkLoad(package(2, 2, 4, 0), Placement(slots))
