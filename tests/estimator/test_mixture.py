from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.mixture import Mixture


def test_quantiles_of_many_points_agree_with_sorting() -> None:
    rng = np.random.default_rng(0)
    value = rng.lognormal(0, 1.5, (3, 20_000))
    mixture = Mixture(value, np.ones_like(value))
    exact = np.quantile(value, (0.5, 0.9, 0.99), axis=1).T
    assert np.allclose(mixture.quantiles((0.5, 0.9, 0.99)), exact, rtol=0.01)


def test_an_atom_is_returned_as_it_is() -> None:
    mixture = Mixture(np.array([[0.25, 0.25, 7.0]]), np.array([[0.6, 0.395, 0.005]]))
    assert mixture.quantiles((0.5,))[0, 0] == pytest.approx(0.25, rel=1e-3)


def test_a_single_value_has_one_quantile() -> None:
    mixture = Mixture(np.full((2, 5), 0.125), np.ones((2, 5)))
    assert np.allclose(mixture.quantiles((0.01, 0.5, 0.99)), 0.125)


def test_the_share_within_a_bound_counts_weight() -> None:
    mixture = Mixture(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 1.0, 2.0]]))
    assert mixture.share_within(2.5)[0] == pytest.approx(0.5)
    assert mixture.mean()[0] == pytest.approx(2.25)


def test_quantiles_do_not_depend_on_neighbours() -> None:
    rng = np.random.default_rng(1)
    value, weight = rng.lognormal(0, 1, (8, 300)), rng.uniform(0, 1, (8, 300))
    together = Mixture(value, weight).quantiles((0.5, 0.99))
    alone = np.vstack([Mixture(value[i : i + 1], weight[i : i + 1]).quantiles((0.5, 0.99)) for i in range(8)])
    assert np.allclose(together, alone, rtol=1e-12)


def test_points_of_some_designs_give_nan_for_the_others() -> None:
    rng = np.random.default_rng(2)
    value, weight = rng.lognormal(0, 1, (5, 200)), rng.uniform(0, 1, (5, 200))
    among = np.array([True, False, True, True, False])
    some, every = Mixture(value[among], weight[among], among=among), Mixture(value, weight)
    for mine, theirs in (
        (some.quantiles((0.5, 0.99)), every.quantiles((0.5, 0.99))),
        (some.share_within(1.5), every.share_within(1.5)),
        (some.share_within(np.arange(5.0)), every.share_within(np.arange(5.0))),
    ):
        assert np.array_equal(mine[among], theirs[among])
        assert np.isnan(mine[~among]).all()
