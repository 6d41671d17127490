from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammainc

from hydra_dse.estimator.gamma import gamma_cdf, gamma_slices

POINTS = np.concatenate([np.geomspace(1e-9, 70.0, 4000), [0.0, 63.999, 64.0, 1e6]])


@pytest.mark.parametrize("shape", [0.05, 1.0 / 9.0, 0.8355, 1.0, 1.8355, 4.0, 16.0, 1000.0])
def test_the_distribution_function_is_that_of_scipy(shape: float) -> None:
    assert gamma_cdf(shape, POINTS) == pytest.approx(gammainc(shape, POINTS), rel=1e-9, abs=1e-300)


def test_shape_one_is_the_exponential_distribution() -> None:
    assert gamma_cdf(1.0, POINTS) == pytest.approx(-np.expm1(-POINTS), rel=1e-10)


def test_what_is_not_a_number_stays_so_and_shapes_are_kept() -> None:
    found = gamma_cdf(0.5, np.array([[np.nan, 1.0], [0.0, np.inf]]))
    assert np.isnan(found[0, 0]) and found.shape == (2, 2)
    assert found[1].tolist() == [0.0, 1.0]


def test_slices_keep_the_mean() -> None:
    edges = (0.0, 0.4, 0.9, 1.0)
    slices = gamma_slices(np.array([2.0]), np.array([0.7]), edges)
    assert float(slices[0] @ np.diff(edges)) == pytest.approx(2.0, rel=1e-6)
