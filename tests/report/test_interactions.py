"""What pairs of parameters explain only together."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.report.importance import explained
from hydra_dse.report.interactions import interaction, interactions_of, rows_of
from hydra_dse.rng import derive


def _drawn(count: int = 600):
    rng = derive(0, "interactions")
    return rng, rng.integers(0, 3, count), rng.integers(0, 2, count)


def test_an_exclusive_or_is_explained_by_the_pair_alone():
    _, _, second = _drawn()
    first = np.roll(second, 7)
    values = (first != second).astype(float)
    assert interaction(first, second, values)[0] == pytest.approx(1.0, abs=0.02)
    assert explained(first, 2, values) < 0.02


def test_a_sum_has_no_interaction_however_its_parts_depend_on_each_other():
    rng, first, _ = _drawn()
    second = np.where(rng.random(len(first)) < 0.7, 2 - first, first)  # negatively correlated
    values = 1.0 * first + 2.0 * second
    assert interaction(first, second, values)[0] == pytest.approx(0.0, abs=1e-9)


def test_noise_is_taken_off_in_the_mean():
    rng, first, second = _drawn()
    shares, chances = np.array([interaction(first, second, rng.normal(size=len(first))) for _ in range(60)]).T
    assert shares.mean() < 0.004
    assert 0.3 < chances.mean() < 0.7  # uniform: 0.5 with a standard error of 0.04


def test_a_product_has_the_share_that_theory_gives():
    rng, _, second = _drawn(4000)
    first = rng.integers(0, 2, 4000)
    # f = xy with x, y independent fair coins: V = 3/16, of which Cov²-free part (x − ½)(y − ½) has 1/16.
    assert interaction(first, second, 1.0 * first * second)[0] == pytest.approx(1 / 3, abs=0.03)


def test_only_pairs_with_enough_designs_and_a_share_above_zero_are_told():
    rng, first, second = _drawn()
    third = rng.integers(0, 250, len(first))
    codes = {"a": (first, 3), "b": (second, 2), "many": (third, 250)}
    values = np.where(second == 1, first, 2 - first) + 0.1 * rng.normal(size=len(first))
    found = interactions_of(codes, "ttft_mean_s", values, rng)
    assert [item.parameters for item in found] == [("a", "b")]
    assert found[0].low <= found[0].share <= found[0].high
    assert rows_of(found, {"ttft_mean_s": "TTFT"}, 3)[0][:2] == ("a × b", "TTFT")
