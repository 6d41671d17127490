from __future__ import annotations

import pytest
from studies.toy import toy_space

from hydra_dse.design.space import Parameter
from hydra_dse.errors import InputError
from hydra_dse.search.outer import OuterSpace, evenly
from hydra_dse.search.unseen import Unseen


def test_outer_points_and_their_variants_are_the_whole_space():
    space = toy_space()
    outer = OuterSpace(space)
    every = [tuple(point.items()) for point in space.points()]
    ours = [tuple(done.items()) for point in outer.points() for _, done in outer.variants(point)]
    assert sorted(ours) == sorted(every)
    assert len(set(ours)) == len(ours)


def test_variants_that_lie_outside_the_space_are_left_out():
    def complete(point):
        return point if point["batch"] <= point["fast"] else None

    outer = OuterSpace(toy_space(complete=complete, derived=()))
    batches = [point["batch"] for _, point in outer.variants(outer.index({"fast": 4, "slow": 1, "homes": "aligned"}))]
    assert sorted(set(batches)) == [1, 4]


def _steps(one, other):
    return abs(one[0] - other[0]) + abs(one[1] - other[1]) + (one[2] != other[2])


@pytest.mark.parametrize("most_listed", [10**6, 0], ids=["listed", "by steps"])
@pytest.mark.parametrize("start", [(0, 0, 0), (9, 9, 1), (5, 9, 0), (4, 5, 1)])
def test_the_nearest_unseen_point_is_at_the_least_number_of_steps(start, most_listed):
    outer = OuterSpace(toy_space())
    unseen = Unseen(outer, seed=1, most_listed=most_listed)
    seen = set()
    for trial in range(30):
        found = unseen.nearest(start, trial)
        left = [point for point in outer.points() if point not in seen]
        assert found in left
        assert _steps(start, found) == min(_steps(start, point) for point in left)
        seen.add(found)
        unseen.mark(found)


@pytest.mark.parametrize("most_listed", [10**6, 0], ids=["listed", "by steps"])
def test_every_point_is_handed_out_once_and_then_none(most_listed):
    outer = OuterSpace(toy_space())
    unseen = Unseen(outer, seed=2, most_listed=most_listed)
    found = []
    while (point := unseen.nearest((0, 0, 0), len(found))) is not None:
        unseen.mark(point)
        found.append(point)
    assert sorted(found) == sorted(outer.points())
    assert len(found) == len(set(found))


def test_equally_near_points_are_drawn_from_the_seed():
    outer = OuterSpace(toy_space())
    draws = {seed: [Unseen(outer, seed).nearest((9, 9, 0), key) for key in range(20)] for seed in (1, 2)}
    assert draws[1] != draws[2]
    assert draws[1] == [Unseen(outer, 1).nearest((9, 9, 0), key) for key in range(20)]


@pytest.mark.parametrize("most_listed", [10**6, 0], ids=["listed", "by steps"])
def test_an_empty_space_is_refused(most_listed):
    outer = OuterSpace(toy_space(complete=lambda point: None))
    with pytest.raises(InputError, match="space 'toy' is empty: no combination of fast, slow, homes, batch, width"):
        Unseen(outer, 0, most_listed=most_listed)


def test_a_parameter_without_choices_is_refused():
    with pytest.raises(InputError, match="parameter 'x' has no choices"):
        OuterSpace(toy_space(parameters=(Parameter("x", ()),)))


def test_the_spaces_own_repair_is_used_for_points_outside():
    def repair(point):
        return {**point, "fast": 1, "slow": 1}

    outer = OuterSpace(toy_space(repair=repair))
    assert outer.repaired((9, 9, 1)) == (0, 0, 1)
    assert outer.repaired((2, 3, 1)) == (2, 3, 1)


@pytest.mark.parametrize("total", [1, 2, 5, 24])
def test_evenly_spread_indices_are_distinct_ascending_and_reach_both_ends(total):
    for count in range(1, total + 1):
        found = evenly(count, total)
        assert len(found) == count
        assert found == sorted(set(found))
        assert found[0] == 0
        assert count == 1 or found[-1] == total - 1
