from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.search.pareto import nondominated_reference
from hydra_dse.studies.exhaustive import exhaustive
from studies.toy import ToyScorer, toy_experiment, toy_space


@pytest.fixture(scope="module")
def result():
    return exhaustive(toy_experiment(), scorer=ToyScorer())


def test_every_design_of_the_space_is_scored_once(result):
    expected = {tuple(point.items()) for point in toy_space().points()}
    assert {tuple(point.items()) for point in result.designs.points} == expected
    assert len(result.designs) == len(expected)


def test_the_front_is_that_of_the_definition(result):
    scores = result.designs.scores
    feasible = scores.violation <= 0
    losses = result.objectives.losses(scores.metrics)[feasible]
    best = losses[nondominated_reference(losses)]
    assert np.array_equal(np.unique(best, axis=0), np.unique(result.front, axis=0))
    assert result.feasible == feasible.sum()


def test_the_front_has_the_whole_hypervolume_and_a_part_of_it_a_part(result):
    assert result.share_of(result.front) == pytest.approx(1.0)
    assert result.share_of(result.front, scaled=False) == pytest.approx(1.0)
    assert 0 < result.share_of(result.front[::3]) < 1


def test_designs_behind_the_whole_front_count_nothing(result):
    worse = np.abs(result.front).max(axis=0) * 2
    assert result.share_of(np.array([[-1e-9, worse[1]]])) == 0.0
