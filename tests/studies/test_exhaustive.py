from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

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


def test_batches_that_are_at_work_ahead_come_in_order_with_the_same_scores(monkeypatch, result):
    module = import_module("hydra_dse.studies.exhaustive")
    monkeypatch.setattr(module, "_OUTER_AT_A_TIME", 3)
    monkeypatch.setattr(module, "executor", ThreadPoolExecutor)
    ahead = exhaustive(toy_experiment(), workers=2, scorer=ToyScorer())
    assert ahead.designs.points == result.designs.points
    assert ahead.designs.generation[-1] > 1
    for name, column in result.designs.scores.metrics.items():
        assert np.array_equal(ahead.designs.scores.metrics[name], column, equal_nan=True)
    assert sorted(ahead.identities) == sorted(result.identities)


def test_the_front_has_the_whole_hypervolume_and_a_part_of_it_a_part(result):
    assert result.share_of(result.front) == pytest.approx(1.0)
    assert result.share_of(result.front, scaled=False) == pytest.approx(1.0)
    assert 0 < result.share_of(result.front[::3]) < 1


def test_designs_behind_the_whole_front_count_nothing(result):
    worse = np.abs(result.front).max(axis=0) * 2
    assert result.share_of(np.array([[-1e-9, worse[1]]])) == 0.0
