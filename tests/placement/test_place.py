"""Legality of every algorithm, violations, explicit placements and shared results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.design.nouns import Placement
from hydra_dse.errors import InputError
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import place, placement_violations
from hydra_dse.placement.baselines import divide
from hydra_dse.placement.problem import Problem
from hydra_dse.placement.repair import repaired
from hydra_dse.placement.ring import ring_order
from hydra_dse.routing import build_topology
from tests.placement.pieces import mesh, package, random_traffic, two_sizes

AUTOMATIC = ("communication_aware", "round_robin", "random", "hydra")


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["mesh", "torus", "hex"]),
    st.integers(2, 6),
    st.integers(2, 4),
    st.sampled_from(AUTOMATIC),
    st.booleans(),
    st.integers(0, 1000),
    st.data(),
)
def test_every_algorithm_places_legally_or_says_why_not(
    kind: str, columns: int, rows: int, algorithm: str, leaf: bool, seed: int, data: st.DataObject
) -> None:
    size = columns * rows
    dies = data.draw(st.integers(2, size))
    stacks = data.draw(st.integers(0, size - dies))
    first = data.draw(st.integers(1, dies - 1))
    built = package(build_topology(kind, columns, rows, 10, 10), {"Ap": first, "Md": dies - first}, stacks, leaf)
    traffic = random_traffic(built, seed)
    outcome = place(built, traffic, algorithm, seed)
    if outcome.placement is None:
        assert leaf
        (violation,) = outcome.violations
        assert violation.demand > violation.bound
        assert violation.levers
        return
    slots = outcome.placement.slots
    assert outcome.placement.algorithm == algorithm
    assert not outcome.violations
    assert sorted(set(slots)) == sorted(slots)
    assert placement_violations(built, slots) == ()
    load = LinkLoad(built, outcome.placement)
    assert load.routes.reachable[np.ix_(load.slot_of, load.slot_of)].all()


def test_sixteen_leaf_stacks_on_a_6x4_mesh_are_refused_with_what_would_help() -> None:
    built = package(mesh(6, 4), {"Ap": 1, "Ad": 3, "Mp": 1, "Md": 3}, 16)
    for algorithm in AUTOMATIC:
        outcome = place(built, random_traffic(built, 0), algorithm, 0)
        (violation,) = outcome.violations
        assert (violation.demand, violation.bound) == (16, 14)
        assert any("routing base die" in lever for lever in violation.levers)
    routing = replace(built, memory_is_leaf=False)
    assert place(routing, random_traffic(built, 0), "communication_aware", 0).placement is not None


def test_more_components_than_slots_are_refused() -> None:
    built = package(mesh(2, 2), {"Ap": 3}, 2)
    (violation,) = place(built, np.zeros((5, 5)), "communication_aware", 0).violations
    assert (violation.constraint, violation.demand, violation.bound) == ("placement_slots", 5, 4)


def test_the_random_placement_follows_the_seed() -> None:
    built = package(mesh(6, 4), {"Ap": 8, "Ad": 8}, 8)
    traffic = random_traffic(built, 0)
    drawn = [place(built, traffic, "random", seed).placement for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_random_placements_are_uniform_over_the_legal_ones() -> None:
    # Three dies and one leaf in a row of four: the leaf sits at either end, 3! orders of the dies: 12 placements.
    built = package(mesh(4, 1), {"Ap": 3}, 1)
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(2400):
        placement = place(built, np.zeros((4, 4)), "random", seed).placement
        assert placement is not None
        counts[placement.slots] = counts.get(placement.slots, 0) + 1
    assert len(counts) == 12
    chi_squared = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi_squared < 31.3  # 99.9 % point of chi-squared with 11 degrees of freedom


def test_round_robin_deals_one_of_each_type_in_turn() -> None:
    built = package(mesh(3, 2), {"Ap": 1, "Ad": 3}, 2, leaf=False)
    outcome = place(built, np.zeros((6, 6)), "round_robin", 0)
    # Components: Ap 0, Ad 1-3, stacks 4-5.  Dealt: 0 1 4 | 2 5 | 3.
    assert outcome.placement == Placement((0, 1, 3, 5, 2, 4), "round_robin")


def test_hydra_fills_the_ring_sides_first_then_ends_then_corners() -> None:
    # 6×4: left and right columns without corners, middle-out; then top and bottom, middle-out; then corners.
    order = ring_order(mesh(6, 4))
    assert sorted(order[:4]) == [6, 11, 12, 17]
    assert sorted(order[4:8]) == [2, 3, 20, 21]
    assert sorted(order[8:12]) == [1, 4, 19, 22]
    assert sorted(order[12:16]) == [0, 5, 18, 23]
    assert sorted(order[16:]) == [7, 8, 9, 10, 13, 14, 15, 16]


def test_hydra_divides_the_memory_by_the_larger_lesser_rate() -> None:
    def best(stacks: int, demands: tuple[float, float]) -> float:
        return max(min(part / demands[0], (stacks - part) / demands[1]) for part in range(stacks + 1))

    for stacks in range(2, 17):
        for demands in ((1.0, 1.0), (3.0, 1.0), (1.0, 9.0), (0.7, 0.4)):
            parts = divide(stacks, demands)
            assert sum(parts) == stacks
            assert min(parts[0] / demands[0], parts[1] / demands[1]) == pytest.approx(best(stacks, demands))


def test_hydra_puts_memory_on_the_ring_and_each_family_by_its_memory() -> None:
    built = package(mesh(6, 4), {"Ad": 8, "Md": 8}, 8, leaf=False)
    traffic = np.zeros((24, 24))
    traffic[16:, :16] = 1.0
    outcome = place(built, traffic, "hydra", 0)
    assert outcome.placement is not None
    slots = outcome.placement.slots
    assert sorted(slots[16:]) == [2, 3, 6, 11, 12, 17, 20, 21]
    # Equal demands: one family has the left half of the memory, the other the right half, and so their dies.
    columns = [np.mean([slot % 6 for slot in slots[start : start + 8]]) for start in (0, 8)]
    assert columns[0] < 2.5 < columns[1]


def test_a_floorplan_gives_large_dies_large_slots() -> None:
    built = two_sizes()
    for algorithm in AUTOMATIC:
        outcome = place(built, random_traffic(built, 1), algorithm, 0)
        assert outcome.placement is not None, algorithm
        assert sorted(outcome.placement.slots[:2]) == [0, 1]
        assert sorted(outcome.placement.slots[2:]) == [2, 3, 4, 5]


def test_repair_keeps_a_legal_placement_and_moves_little_in_an_illegal_one() -> None:
    # 3×3, two leaves in a corner's arms cut the corner die off; one exchange mends it.
    built = package(mesh(3, 3), {"Ap": 7}, 2)
    problem = Problem(built, np.zeros((9, 9)))
    broken = np.array([0, 2, 4, 5, 6, 7, 8, 1, 3])
    mended = repaired(problem, broken)
    assert mended is not None
    assert problem.legal(mended)
    assert (mended != broken).sum() <= 2
    assert repaired(problem, mended) is mended


def test_an_explicit_placement_is_checked_and_kept() -> None:
    built = package(mesh(3, 1), {"Ap": 2}, 1)
    kept = place(built, np.zeros((3, 3)), "explicit", 0, slots=(0, 1, 2))
    assert kept.placement == Placement((0, 1, 2), "explicit")
    apart = place(built, np.zeros((3, 3)), "explicit", 0, slots=(0, 2, 1))
    assert [violation.constraint for violation in apart.violations] == ["placement_connected"]
    lonely = package(mesh(4, 1), {"Ap": 2}, 1)
    far = place(lonely, np.zeros((3, 3)), "explicit", 0, slots=(0, 1, 3))
    assert [violation.constraint for violation in far.violations] == ["placement_memory_neighbours"]


@pytest.mark.parametrize("slots", [None, (0, 1), (0, 0, 1), (0, 1, 3), (0, 1, -1)])
def test_an_explicit_placement_must_name_a_slot_of_its_own_for_every_component(slots: tuple[int, ...] | None) -> None:
    with pytest.raises(InputError):
        place(package(mesh(3, 1), {"Ap": 2}, 1), np.zeros((3, 3)), "explicit", 0, slots=slots)


@pytest.mark.parametrize(
    ("traffic", "algorithm", "words"),
    [
        (np.zeros((2, 2)), "random", "the package has 3 components"),
        (np.full((3, 3), np.nan), "random", "finite"),
        (np.full((3, 3), -1.0), "random", "not negative"),
        (np.zeros((3, 3)), "comunication_aware", "did you mean 'communication_aware'"),
    ],
)
def test_wrong_input_is_refused_with_what_was_wrong(traffic: np.ndarray, algorithm: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        place(package(mesh(3, 1), {"Ap": 2}, 1), traffic, algorithm, 0)
