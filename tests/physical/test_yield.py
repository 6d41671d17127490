"""Yield models against their definitions and against one another; dies on a wafer."""

from __future__ import annotations

import math

import pytest
from scipy import integrate

from hydra_dse.errors import InputError
from hydra_dse.hardware.technology import YIELD_MODELS, Wafer
from hydra_dse.physical.yield_models import dies_per_wafer, passed_share, shipped_good_share, silicon_yield

WAFER = Wafer(300.0, 5.0, 0.2)


def test_yields_of_a_small_die_are_the_published_ones() -> None:
    published = {"seeds": 0.892, "negative-binomial": 0.887, "murphy": 0.887, "poisson": 0.886}
    found = {model: silicon_yield(model, 0.1, 121.0) for model in published}
    assert found == pytest.approx(published, abs=5e-4)


def test_models_part_at_large_dies_in_the_order_of_their_clustering() -> None:
    for area in (600.0, 900.0):
        found = [silicon_yield(model, 0.1, area) for model in ("poisson", "negative-binomial", "murphy", "seeds")]
        assert found == sorted(found)
        assert found[-1] > 1.1 * found[0]


def test_murphy_is_poisson_averaged_over_a_triangular_density_of_defects() -> None:
    x = 0.9

    def weighted(share: float) -> float:
        return min(share, 2.0 - share) * math.exp(-x * share)

    averaged, _ = integrate.quad(weighted, 0.0, 2.0, points=[1.0])
    assert silicon_yield("murphy", 0.1, 900.0) == pytest.approx(averaged)


def test_negative_binomial_ends_at_seeds_and_poisson() -> None:
    assert silicon_yield("negative-binomial", 0.1, 800.0, 1.0) == pytest.approx(silicon_yield("seeds", 0.1, 800.0))
    assert silicon_yield("negative-binomial", 0.1, 800.0, 1e9) == pytest.approx(silicon_yield("poisson", 0.1, 800.0))


@pytest.mark.parametrize("model", YIELD_MODELS)
def test_without_defects_every_die_is_good(model: str) -> None:
    assert silicon_yield(model, 0.0, 500.0) == 1.0


def test_an_unknown_model_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="murphy"):
        silicon_yield("murphi", 0.1, 100.0)


def test_a_test_divides_good_dies_from_bad_ones() -> None:
    good = 0.8
    assert passed_share(good, 1.0) == pytest.approx(good)
    assert shipped_good_share(good, 1.0) == 1.0
    # Good dies always pass: those that passed times the good share among them are all good dies.
    for coverage in (0.0, 0.5, 0.99):
        assert passed_share(good, coverage) * shipped_good_share(good, coverage) == pytest.approx(good)


def test_dies_on_a_wafer_are_its_area_less_what_the_rim_cuts() -> None:
    assert dies_per_wafer(100.0, WAFER) == pytest.approx(
        math.pi * 145.0**2 / 10.2**2 - math.pi * 290.0 / math.sqrt(2.0 * 10.2**2)
    )
    assert dies_per_wafer(46_225.0, WAFER) == 1.0
    assert dies_per_wafer(80_000.0, WAFER) == 0.0
