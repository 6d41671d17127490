from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from studies.toy import OBJECTIVES, ToyScorer, toy_experiment

from benchmarks.search_quality.methods import METHODS, available
from benchmarks.search_quality.runs import Limits, at_evaluations, read, run, write
from benchmarks.search_quality.statistics import compared
from benchmarks.search_quality.truth import Lookup, enumerate_space

LIMITS = Limits(60, 0.0, (1e-3, 1e3))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_scores_the_evaluations_asked_for_and_never_loses_hypervolume(name, tmp_path):
    if name not in available([name]):
        pytest.skip("its library is not installed")
    steps = run(toy_experiment(), ToyScorer(), name, 60, 3, LIMITS)
    assert 60 in [step.scored for step in steps]
    assert all(later.hypervolume >= sooner.hypervolume for sooner, later in pairwise(steps))
    assert at_evaluations(steps, 60) > 0
    write(steps, tmp_path / "run.csv")
    assert [step.hypervolume for step in read(tmp_path / "run.csv")] == [step.hypervolume for step in steps]


def test_a_space_scored_whole_answers_as_the_scorer_does_and_keeps_its_blocks(tmp_path):
    experiment = toy_experiment()
    enumerate_space(experiment, tmp_path, ToyScorer())
    enumerate_space(experiment, tmp_path, ToyScorer(nothing=True))  # scores nothing: every block is there
    known, points = Lookup(experiment, tmp_path), list(experiment.space.points())[::37]
    found, expected = known.score(points), ToyScorer().score(points)
    assert len(known) == len(list(experiment.space.points()))
    for name in OBJECTIVES:
        np.testing.assert_array_equal(found.metrics[name], expected.metrics[name])


def test_a_comparison_of_separate_samples_has_the_exact_p_and_an_interval_around_the_ratio():
    result = compared([1.1, 1.2, 1.3, 1.4, 1.5], [0.5, 0.6, 0.7, 0.8, 0.9])
    assert result.p == pytest.approx(2 / 252)  # one of the C(10, 5) orders, two-sided
    assert result.gain == pytest.approx(1.3 / 0.7 - 1)
    assert result.low < result.gain < result.high
