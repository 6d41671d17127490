from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hydra_dse.search.hypervolume import hypervolume, hypervolume_reference

points = st.tuples(st.integers(0, 8), st.integers(1, 4)).flatmap(
    lambda shape: arrays(float, shape, elements=st.integers(0, 12).map(lambda number: number / 4))
)


@given(points)
@settings(deadline=None)
def test_hypervolume_is_the_volume_of_the_cells_that_are_dominated(losses):
    reference = np.full(losses.shape[1], 2.5)
    assert hypervolume(losses, reference) == pytest.approx(hypervolume_reference(losses, reference), abs=1e-12)


@given(arrays(float, (3, 3), elements=st.floats(0, 1)))
@settings(deadline=None)
def test_hypervolume_of_three_boxes_follows_inclusion_and_exclusion(losses):
    one = np.ones(3)

    def box(*rows):
        return float(np.prod(one - losses[list(rows)].max(axis=0)))

    expected = box(0) + box(1) + box(2) - box(0, 1) - box(0, 2) - box(1, 2) + box(0, 1, 2)
    assert hypervolume(losses, one) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_hypervolume_agrees_with_a_count_of_random_points(objectives):
    rng = np.random.default_rng(objectives)
    losses = rng.random((30, objectives))
    samples = rng.random((40_000, objectives))
    share = np.mean([np.any(np.all(losses <= sample, axis=1)) for sample in samples])
    error = 4 * np.sqrt(share * (1 - share) / len(samples))
    assert abs(hypervolume(losses, np.ones(objectives)) - share) < error


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_hypervolume_agrees_with_optuna(objectives):
    wfg = pytest.importorskip("optuna._hypervolume.wfg")
    losses = np.random.default_rng(3).random((60, objectives))
    reference = np.full(objectives, 0.9)
    inside = losses[np.all(losses < reference, axis=1)]
    assert hypervolume(losses, reference) == pytest.approx(wfg.compute_hypervolume(inside, reference), rel=1e-12)


def test_points_at_or_beyond_the_reference_count_nothing():
    assert hypervolume(np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones(2)) == 0.0


def test_a_better_point_never_lowers_the_hypervolume():
    rng = np.random.default_rng(0)
    losses = rng.random((20, 3))
    volumes = [hypervolume(losses[:count], np.ones(3)) for count in range(1, 21)]
    assert all(later >= sooner for sooner, later in pairwise(volumes))
