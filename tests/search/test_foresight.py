from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.design.space import Parameter
from hydra_dse.rng import derive
from hydra_dse.search.foresight import Foresight
from hydra_dse.search.gaussian import Encoding, Gaussian

NUMBERS = (Parameter("a", tuple(range(11))), Parameter("b", tuple(range(11))))
WORDS = (*NUMBERS, Parameter("c", ("one", "two", "three")))


def _every(*sizes):
    return np.stack(np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij"), axis=-1).reshape(-1, len(sizes))


def test_ordered_ends_are_as_far_apart_as_any_two_words():
    columns = Encoding(WORDS).columns(np.array([[0, 0, 0], [10, 0, 0], [0, 0, 1], [0, 0, 2], [5, 0, 0]]))
    apart = np.linalg.norm(columns - columns[0], axis=1)
    np.testing.assert_allclose(apart, [0, 2, 2, 2, 1])
    assert np.linalg.norm(columns[2] - columns[3]) == pytest.approx(2)


def test_a_process_knows_what_it_was_given_and_is_least_sure_far_away():
    encoding, known = Encoding(NUMBERS), _every(4, 4)  # one corner of the square
    columns = encoding.columns(known)
    process = Gaussian(encoding, columns, np.sin(columns[:, 0] * 2) + columns[:, 1] ** 3)
    far = encoding.columns(np.array([[1, 1], [5, 5], [10, 10]]))
    draws = process.draws(far, 2000, derive(0, "draws"))
    spread = draws.std(axis=0)
    assert abs(draws[:, 0].mean() - (np.sin(far[0, 0] * 2) + far[0, 1] ** 3)) < 0.05
    assert spread[0] < spread[1] < spread[2]


def test_a_process_predicts_a_smooth_function_of_numbers_and_words_from_a_third_of_the_points():
    genes = _every(11, 11, 3)
    truth = 0.1 * genes[:, 0] + 0.02 * (genes[:, 1] - 5) ** 2 + np.array([0.0, 0.5, -0.3])[genes[:, 2]]
    encoding = Encoding(WORDS)
    columns = encoding.columns(genes)
    known = derive(0, "known").random(len(genes)) < 1 / 3
    process = Gaussian(encoding, columns[known], truth[known])
    predicted = process.draws(columns[~known], 200, derive(0, "draws")).mean(axis=0)
    error = np.sqrt(np.mean((predicted - truth[~known]) ** 2))
    assert error < 0.1 * truth.std()


def test_draws_are_joint_so_that_neighbours_rise_and_fall_together():
    encoding = Encoding(NUMBERS)
    columns = encoding.columns(_every(3, 3))
    process = Gaussian(encoding, columns, columns.sum(axis=1) ** 2)
    draws = process.draws(encoding.columns(np.array([[9, 9], [9, 10], [9, 0]])), 4000, derive(0, "draws"))
    near, far = np.corrcoef(draws.T)[0, 1:]
    assert near > 0.8
    assert near > far + 0.1


def _foresight(losses, violation=None):
    """All of an 11 × 11 square known but its highest row and column."""
    genes = _every(10, 10)
    foresight = Foresight(Encoding(NUMBERS), 2, seed=0)
    foresight.add(genes, losses(genes), np.zeros(len(genes)) if violation is None else violation(genes))
    return foresight


def _two_slopes(genes):
    return np.stack([10.0 - genes[:, 0], 10.0 - genes[:, 1]], axis=1)


def test_what_continues_a_slope_past_the_front_is_taken_before_what_is_behind_it():
    pool = np.array([[3, 4], [10, 10], [2, 9], [5, 5], [10, 1]])
    foresight = _foresight(_two_slopes)
    chosen = foresight.chosen(pool, 2, np.array([[1.0, 1.0]]), np.array([11.0, 11.0]), "key")
    assert chosen[0] == 1  # dominates the front in both


def test_the_second_choice_adds_to_the_first_and_does_not_repeat_it():
    front = np.array([[5.0, 5.0]])
    pool = np.array([[9, 4], [9, 3], [4, 9], [8, 4]])  # two lie behind the first, one at the other end of the front
    chosen = _foresight(_two_slopes).chosen(pool, 2, front, np.array([10.0, 10.0]), "key")
    assert set(chosen) == {0, 2}


def test_what_is_held_for_infeasible_is_left_for_last():
    def beyond(genes):
        return np.where(genes[:, 0] > 6, 1.0, 0.0)

    pool = np.array([[10, 10], [6, 9], [9, 9]])
    chosen = _foresight(_two_slopes, beyond).chosen(pool, 3, np.array([[6.0, 6.0]]), np.array([11.0, 11.0]), "key")
    assert chosen[0] == 1


def test_few_feasible_designs_teach_nothing():
    foresight = Foresight(Encoding(NUMBERS), 2, seed=0)
    genes = _every(10, 10)[:15]
    foresight.add(genes, _two_slopes(genes), np.zeros(15))
    assert not foresight.knows
    foresight.add(genes, np.full((15, 2), np.nan), np.ones(15))
    assert not foresight.knows
    foresight.add(genes[:1], _two_slopes(genes[:1]), np.zeros(1))
    assert foresight.knows


def test_the_same_seed_and_key_choose_the_same_and_another_key_draws_anew():
    pool = _every(11, 11)[80:]
    front, reference = np.array([[3.0, 3.0]]), np.array([11.0, 11.0])
    first, again, other = (
        _foresight(_two_slopes).chosen(pool, 20, front, reference, key) for key in ("key", "key", "other")
    )
    assert first == again
    assert first != other
    assert len(set(first)) == 20
