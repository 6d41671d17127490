"""The communication-aware placement: its algebra, its gap to the optimum, and against the baselines."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.design.nouns import Placement
from hydra_dse.hardware.components import Package
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import WORST_LINK_WEIGHT, Problem, place, placement_violations
from hydra_dse.placement.bounds import Bounds
from hydra_dse.placement.descent import hop_change
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.swaps import Swaps, smooth_cost
from hydra_dse.routing import build_topology
from tests.placement.pieces import mesh, package, random_parts, random_traffic


def objective(built: Package, slots: tuple[int, ...], traffic: np.ndarray) -> float:
    """Mean link load + λ · worst link load of every part, from the routes."""
    parts = LinkLoad(built, Placement(slots)).loads(traffic.reshape(-1, *traffic.shape[-2:]))
    return float(sum(loads.mean() + WORST_LINK_WEIGHT * loads.max() for loads in parts))


def exhaustive(built: Package, traffic: np.ndarray) -> float:
    """Best objective over every legal placement."""
    count = built.die_count + built.stack_count
    return min(
        objective(built, slots, traffic)
        for slots in permutations(range(len(built.topology.slots)), count)
        if not placement_violations(built, slots)
    )


SMALL = {
    "2x2, two dies, two leaves": package(mesh(2, 2), {"Ap": 1, "Ad": 1}, 2),
    "3x2, four dies, two leaves": package(mesh(3, 2), {"Ap": 1, "Ad": 3}, 2),
    "3x2, three dies, three leaves": package(mesh(3, 2), {"Ap": 1, "Md": 2}, 3),
    "3x2, stacks route": package(mesh(3, 2), {"Ap": 1, "Ad": 2}, 3, leaf=False),
    "3x2, an empty slot": package(mesh(3, 2), {"Ap": 1, "Ad": 2}, 2),
    "hex 3x2": package(build_topology("hex", 3, 2, 10, 10), {"Ap": 2, "Ad": 2}, 2),
    "torus 6x1": package(build_topology("torus", 6, 1, 10, 10), {"Ap": 2, "Ad": 2}, 2),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_gap_to_the_exhaustive_optimum_is_small(name: str) -> None:
    built = SMALL[name]
    gaps = []
    for seed in range(4):
        traffic = random_traffic(built, seed)
        outcome = place(built, traffic, "communication_aware", 0)
        assert outcome.placement is not None
        gaps.append(objective(built, outcome.placement.slots, traffic) / exhaustive(built, traffic) - 1)
    assert min(gaps) >= -1e-6
    assert np.mean(gaps) <= 0.05, gaps
    assert max(gaps) <= 0.15, gaps


CASES = [
    (mesh(6, 4), {"Ap": 3, "Ad": 5, "Mp": 3, "Md": 3}, 10, True),
    (mesh(6, 4), {"Ap": 1, "Ad": 3, "Mp": 1, "Md": 5}, 14, True),
    (mesh(6, 4), {"Ap": 13, "Ad": 3, "Mp": 3, "Md": 3}, 2, True),
    (mesh(6, 4), {"Ap": 1, "Ad": 1, "Mp": 5, "Md": 1}, 16, False),
    (mesh(6, 4), {"Ap": 5, "Ad": 5, "Mp": 1, "Md": 5}, 8, False),
    (mesh(4, 4), {"Ap": 3, "Ad": 4}, 4, True),
    (build_topology("hex", 5, 4, 10, 10), {"Ap": 6, "Ad": 6}, 8, True),
    (build_topology("torus", 5, 4, 10, 10), {"Ap": 6, "Ad": 6}, 8, False),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_it_is_never_worse_than_round_robin_random_or_hydra(case: int) -> None:
    built = package(*CASES[case])
    for density in (0.1, 0.5):
        traffic = random_traffic(built, case, density)
        best = place(built, traffic, "communication_aware", 0).objective_bytes
        for algorithm in ("round_robin", "hydra"):
            assert best <= place(built, traffic, algorithm, 0).objective_bytes
        for seed in range(5):
            assert best <= place(built, traffic, "random", seed).objective_bytes


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_reported_objective_is_that_of_the_routes(case: int) -> None:
    built = package(*CASES[case])
    traffic = random_parts(built, case)
    outcome = place(built, traffic, "communication_aware", 0)
    assert outcome.placement is not None
    assert outcome.objective_bytes == pytest.approx(objective(built, outcome.placement.slots, traffic), rel=1e-4)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_loads_after_a_swap_equal_routing_the_swapped_placement(seed: int, leaf: bool) -> None:
    built = package(mesh(4, 3), {"Ap": 4, "Ad": 4}, 4, leaf)
    traffic = random_traffic(built, seed)
    outcome = place(built, traffic, "random", seed)
    assert outcome.placement is not None
    problem, slots = Problem(built, traffic), np.array(outcome.placement.slots)
    pattern = Pattern(built.topology, problem.layout_of(slots))
    swaps = Swaps.of(problem)
    assert len(swaps.first) == (28 + 6 if leaf else 66)
    predicted = problem.loads(pattern, slots) + swaps.changes(pattern.ways(slots), np.arange(len(swaps.first)))
    for row, (i, j) in enumerate(zip(swaps.first, swaps.second, strict=True)):
        swapped = slots.copy()
        swapped[[i, j]] = swapped[[j, i]]
        rerouted = LinkLoad(built, Placement(tuple(swapped.tolist()))).loads(traffic) / traffic.sum()
        assert predicted[row, 0] == pytest.approx(rerouted, abs=1e-5)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_the_bound_after_a_swap_is_below_its_objective_and_rules_out_most(case: int) -> None:
    problem, bounds, objectives, now = bounded(package(*CASES[case]), case)
    assert (bounds <= objectives * (1 + 1e-5)).all()
    assert (bounds < now).sum() >= (objectives < now).sum()
    ruled_out = (bounds >= now).sum() / (objectives >= now).sum()
    assert ruled_out > 0.6, f"of {problem.count} components"


def test_the_bound_is_the_objective_where_all_links_are_counted() -> None:
    for seed in range(6):
        _, bounds, objectives, _ = bounded(package(mesh(3, 2), {"Ap": 2, "Ad": 2}, 2), seed)
        assert bounds == pytest.approx(objectives, rel=1e-5)


def bounded(built: Package, seed: int) -> tuple[Problem, np.ndarray, np.ndarray, float]:
    """Bound and objective of a descent after every swap of the placement found, and the objective there."""
    problem = Problem.of(built, random_parts(built, seed))
    outcome = place(built, random_parts(built, seed), "communication_aware", 0)
    assert outcome.placement is not None
    slots = np.array(outcome.placement.slots)
    pattern, swaps = Pattern(built.topology, problem.layout_of(slots)), Swaps.of(problem)
    ways, loads = pattern.ways(slots), problem.loads(pattern, slots)
    hops = pattern.hops[slots[:, None], slots]
    found = Bounds(swaps, loads.shape[1])
    bounds = found.after(ways, hops, loads).copy()
    assert np.array_equal(found.after(ways, hops, loads), bounds)  # its arrays are used again
    objectives = smooth_cost(loads + swaps.changes(ways, np.arange(len(swaps.first)))).sum(axis=-1)
    return problem, bounds, objectives, float(smooth_cost(loads).sum())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_the_change_of_hop_bytes_by_a_swap_equals_counting_anew(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = Problem(built := package(mesh(3, 3), {"Ap": 9}, 0), random_traffic(built, seed))
    hops = Pattern(built.topology, problem.layout_of(np.arange(9))).hops
    slots = rng.permutation(9)

    def hop_bytes(order: np.ndarray) -> float:
        return float((problem.flow * hops[np.ix_(order, order)]).sum()) / 2

    change = hop_change(problem.flow, hops[None, slots[:, None], slots])[0]
    for i in range(9):
        for j in range(i + 1, 9):
            swapped = slots.copy()
            swapped[[i, j]] = swapped[[j, i]]
            assert change[i, j] == pytest.approx(hop_bytes(swapped) - hop_bytes(slots), abs=1e-9)


def test_the_same_input_gives_the_same_placement_whatever_the_seed() -> None:
    built = package(mesh(6, 4), {"Ap": 3, "Ad": 5, "Mp": 3, "Md": 3}, 10)
    traffic = random_traffic(built, 5)
    assert place(built, traffic, "communication_aware", 1) == place(built, traffic.copy(), "communication_aware", 2)


def test_scaling_the_traffic_does_not_move_anything() -> None:
    built = package(mesh(4, 4), {"Ap": 5, "Ad": 6}, 5)
    traffic = random_traffic(built, 9)
    small, large = (place(built, traffic * factor, "communication_aware", 0) for factor in (1.0, 2.0**20))
    assert small.placement == large.placement
    assert large.objective_bytes == pytest.approx(small.objective_bytes * 2.0**20)


def test_two_dies_that_talk_sit_side_by_side() -> None:
    built = package(mesh(3, 3), {"Ap": 8, "Ad": 1}, 0)
    traffic = np.zeros((9, 9))
    traffic[2, 7] = traffic[7, 2] = 1e9
    outcome = place(built, traffic, "communication_aware", 0)
    assert outcome.placement is not None
    load = LinkLoad(built, outcome.placement)
    assert load.routes.hops[load.slot_of[2], load.slot_of[7]] == 1


def test_a_die_fed_by_four_stacks_sits_between_them() -> None:
    # 3×3, one die reads four stacks: best is the middle with a stack on each side, one hop and no shared link.
    built = package(mesh(3, 3), {"Ap": 4, "Ad": 1}, 4)
    traffic = np.zeros((9, 9))
    traffic[5:, 4] = 1e9
    outcome = place(built, traffic, "communication_aware", 0)
    assert outcome.placement is not None
    loads = LinkLoad(built, outcome.placement).loads(traffic)
    # With leaves the other four dies must stay connected to it, so not all four sides can hold a stack.
    assert loads.max() <= 2e9
    free = package(mesh(3, 3), {"Ap": 4, "Ad": 1}, 4, leaf=False)
    routed = place(free, traffic, "communication_aware", 0)
    assert routed.placement is not None
    assert LinkLoad(free, routed.placement).loads(traffic).max() == 1e9


def test_parts_that_take_turns_may_use_one_link_where_those_at_once_may_not() -> None:
    # A row of four dies, the outer ones fixed by what they hold: a and b each send 1 to c in turn, or at once.
    built = package(mesh(4, 1), {"Ap": 1, "Ad": 1, "Mp": 1}, 0)
    turns = np.zeros((2, 3, 3))
    turns[0, 0, 2] = turns[1, 1, 2] = 1e9
    in_turn = place(built, turns, "explicit", 0, (0, 1, 2)).objective_bytes
    at_once = place(built, turns.sum(axis=0), "explicit", 0, (0, 1, 2)).objective_bytes
    assert in_turn == pytest.approx(3e9 / 6 + 1e9 + 1e9)  # each waits for the link to c alone
    assert at_once == pytest.approx(3e9 / 6 + 2e9)
    apart = place(built, turns, "explicit", 0, (0, 2, 1)).objective_bytes
    assert apart == pytest.approx(2e9 / 6 + 1e9 + 1e9)  # c between them: another link, no less time in turn
    assert place(built, turns.sum(axis=0), "explicit", 0, (0, 2, 1)).objective_bytes == pytest.approx(2e9 / 6 + 1e9)


def test_no_traffic_and_no_links_are_placed_too() -> None:
    single = package(mesh(1, 1), {"Ap": 1}, 0)
    assert place(single, np.zeros((1, 1)), "communication_aware", 0).placement == Placement((0,), "communication_aware")
    idle = package(mesh(3, 2), {"Ap": 4}, 2)
    assert place(idle, np.zeros((6, 6)), "communication_aware", 0).placement is not None
