from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hydra_dse.search.pareto import crowding, dominates, nondominated, nondominated_reference, ranks

# Few distinct values, so that ties and equal points are common.
small_losses = st.tuples(st.integers(1, 40), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(-3, 3).map(float))
)


@given(small_losses)
@settings(deadline=None)
def test_the_vectorised_front_is_the_one_of_the_definition(losses):
    assert nondominated(losses).tolist() == nondominated_reference(losses).tolist()


def test_the_front_of_more_points_than_a_block_is_the_one_of_the_definition():
    losses = np.random.default_rng(5).normal(size=(700, 3)).round(1)
    assert nondominated(losses).tolist() == nondominated_reference(losses).tolist()


def test_equal_points_do_not_dominate_each_other():
    assert nondominated(np.array([[1.0, 2.0], [1.0, 2.0]])).all()


def test_no_points_have_an_empty_front():
    assert nondominated(np.empty((0, 2))).tolist() == []


def _peeled(losses, violation):
    """Ranks by the definition of constrained domination, peeled one front at a time."""

    def beats(one, other):
        if violation[one] > 0 or violation[other] > 0:
            return violation[one] < violation[other]
        return dominates(losses[one], losses[other])

    left, rank, level = set(range(len(losses))), {}, 0
    while left:
        best = {index for index in left if not any(beats(other, index) for other in left)}
        rank |= dict.fromkeys(best, level)
        left -= best
        level += 1
    return [rank[index] for index in range(len(losses))]


@given(small_losses, st.data())
@settings(deadline=None)
def test_ranks_are_those_of_peeling_by_constrained_domination(losses, data):
    excess = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0])
    violation = np.array(data.draw(st.lists(excess, min_size=len(losses), max_size=len(losses))))
    assert ranks(losses, violation).tolist() == _peeled(losses, violation)


def test_an_infeasible_point_ranks_behind_every_feasible_one_however_good_it_is():
    assert ranks(np.array([[9.0, 9.0], [0.0, 0.0]]), np.array([0.0, 0.1])).tolist() == [0, 1]


def test_crowding_of_a_hand_computed_front():
    # Objective extents 4 and 8; inner points: (2-0)/4 + (8-3)/8 and (4-1)/4 + (5-0)/8.
    losses = np.array([[0.0, 8.0], [1.0, 5.0], [2.0, 3.0], [4.0, 0.0]])
    assert crowding(losses).tolist() == [np.inf, 2 / 4 + 5 / 8, 3 / 4 + 5 / 8, np.inf]


def test_crowding_of_a_front_without_extent_is_finite_inside():
    assert np.isfinite(crowding(np.ones((4, 2)))[1:-1]).all()
