"""The plain numbers by which a single design is solved against the arrays by which many are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.estimator.bins import bins_of
from hydra_dse.estimator.colocated_tables import Between
from hydra_dse.estimator.nodes import Grid, nodes_of


def twice(values: np.ndarray) -> np.ndarray:
    """Two designs that are the same: too many for the plain numbers."""
    return np.repeat(values, 2, axis=0)


@settings(max_examples=25, deadline=None)
@given(limit=st.floats(1.0, 2000.0), place=st.floats(0.0, 1.2), seed=st.integers(0, 99))
def test_a_level_of_a_single_design_is_interpolated_as_that_of_many(limit: float, place: float, seed: int) -> None:
    limits, level = np.array([limit]), np.array([1.0 + place * (limit - 1.0)])
    values = np.random.default_rng(seed).uniform(1.0, 2.0, (1, 16))
    alone = nodes_of(limits).at_each(values, level)
    among = nodes_of(twice(limits)).at_each(twice(values), twice(level))
    assert alone == pytest.approx(among[:1], rel=1e-12)


def test_a_level_that_is_not_known_has_no_value() -> None:
    nodes, values = nodes_of(np.array([64.0])), np.ones((1, 16))
    assert math.isnan(nodes.at_each(values, np.array([math.nan]))[0])
    assert math.isnan(nodes_of(np.array([math.nan])).at_each(values, np.array([3.0]))[0])


@pytest.mark.parametrize("limit", [1.0, 7.0, 16.0, 77.5])
def test_levels_of_a_single_design_are_projected_as_those_of_many(limit: float) -> None:
    rng, limits, levels = np.random.default_rng(3), np.array([limit]), int(limit)
    probability, beyond = rng.uniform(0.0, 1.0, (1, levels + 1)), np.array([0.3])
    values = rng.uniform(1.0, 2.0, (1, 16))
    alone, among = nodes_of(limits), nodes_of(twice(limits))
    both = among.project(twice(probability), twice(beyond), twice(limits))
    assert np.allclose(alone.project(probability, beyond, limits), both[:1], rtol=1e-12)
    assert np.allclose(alone.at_levels(values, levels), among.at_levels(twice(values), levels)[:1], rtol=1e-12)


def test_several_tables_of_a_single_design_are_interpolated_as_those_of_many() -> None:
    rng = np.random.default_rng(5)
    left, share = np.array([[0, 3, 2, 0]]), rng.uniform(0.0, 1.0, (1, 4))
    tables = [rng.uniform(0.0, 9.0, (1, 5)) for _ in range(3)]
    for found, table in zip(Grid(left, share).of_each(*tables), tables, strict=True):
        assert np.allclose(found, Grid(left, share).of(table), rtol=1e-12)
    alone, among = Between(left, share), Between(twice(left), twice(share))
    wide, weight = rng.uniform(0.0, 9.0, (1, 5, 3)), rng.uniform(0.0, 1.0, (1, 4))
    assert np.allclose(alone.of_tables(wide), among.of_tables(twice(wide))[:1], rtol=1e-12)
    assert np.allclose(alone.project(weight, 5), among.project(twice(weight), 5)[:1], rtol=1e-12)


def test_the_spread_inside_slices_is_their_half_gap_times_the_slope() -> None:
    size = np.sort(np.random.default_rng(7).uniform(1.0, 100.0, 400))
    bins = bins_of(size, np.full(400, 1 / 400), (0.0, 0.2, 0.5, 0.7, 1.0))
    assert np.allclose(bins.spread_of(3.0 * bins.size[None] + 2.0), 3.0 * bins.half_gap, rtol=1e-9)
    curved = bins.spread_of(bins.size[None] ** 2)[0]
    assert np.allclose(curved[1:-1], (2.0 * bins.size * bins.half_gap)[1:-1], rtol=1e-9)
