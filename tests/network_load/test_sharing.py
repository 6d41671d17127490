"""Speeds of two jobs that share resources: by hand, by the definition of max-min, and by plain iteration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hydra_dse.network_load import pair_speeds

shares = st.floats(0.0, 1.0, allow_subnormal=False)
pairs = st.lists(st.tuples(shares, shares), min_size=1, max_size=6)


def speeds(*resources: tuple[float, float]) -> tuple[float, float]:
    usage = np.array(resources).reshape(-1, 2)
    a, b = pair_speeds(usage[:, 0], usage[:, 1])
    return float(a), float(b)


def test_jobs_that_fit_together_run_at_full_speed() -> None:
    assert speeds((0.6, 0.4), (0.1, 0.9)) == (1.0, 1.0)


def test_two_greedy_jobs_get_half_each() -> None:
    assert speeds((1.0, 1.0)) == (0.5, 0.5)


def test_a_light_job_keeps_its_share_and_the_heavy_one_gets_the_rest() -> None:
    assert speeds((0.2, 1.0)) == pytest.approx((1.0, 0.8))


def test_two_jobs_above_half_get_half_of_the_resource_not_half_of_their_speed() -> None:
    assert speeds((0.8, 0.6)) == pytest.approx((0.5 / 0.8, 0.5 / 0.6))


def test_what_a_job_leaves_because_another_resource_binds_it_goes_to_the_other() -> None:
    # x + y/2 = 1 on the first, x/2 + y = 1 on the second: 2/3 each.
    assert speeds((1.0, 0.5), (0.5, 1.0)) == pytest.approx((2 / 3, 2 / 3))


def test_without_resources_nobody_waits() -> None:
    a, b = pair_speeds(np.empty((3, 0)), np.empty((3, 0)))
    assert a.tolist() == b.tolist() == [1.0] * 3


def iterated(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """The fixed point by plain rounds."""
    x, y = 0.0, 1.0
    for _ in range(2000):
        before = x
        x = min([1.0] + [max(0.5, 1 - y * q) / p for p, q in zip(a, b, strict=True) if p > 0])
        y = min([1.0] + [max(0.5, 1 - x * p) / q for p, q in zip(a, b, strict=True) if q > 0])
        if abs(x - before) < 1e-9:
            break
    return x, y


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_the_closed_form_is_the_fixed_point_of_plain_iteration(resources: list[tuple[float, float]]) -> None:
    usage = np.array(resources)
    assert speeds(*resources) == pytest.approx(iterated(usage[:, 0], usage[:, 1]), abs=1e-6)


@given(pairs)
def test_no_resource_is_overdrawn_and_a_slowed_job_is_bound_by_a_full_resource(
    resources: list[tuple[float, float]],
) -> None:
    x, y = speeds(*resources)
    assert 0.5 - 1e-9 <= x <= 1
    assert 0.5 - 1e-9 <= y <= 1
    drawn = [(x * a, y * b) for a, b in resources]
    assert max(a + b for a, b in drawn) <= 1 + 1e-9
    for own, other, speed in (0, 1, x), (1, 0, y):
        if speed < 1 - 1e-9:
            assert any(sum(use) >= 1 - 1e-9 and use[own] >= use[other] - 1e-9 for use in drawn)


@given(pairs)
def test_exchanging_the_jobs_exchanges_the_speeds(resources: list[tuple[float, float]]) -> None:
    x, y = speeds(*resources)
    assert speeds(*[(b, a) for a, b in resources]) == pytest.approx((y, x), abs=1e-6)


def test_many_pairs_at_once_give_the_same_as_one_by_one() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(size=(2, 4, 5, 7))
    x, y = pair_speeds(a, b)
    assert x.shape == (4, 5)
    for index in np.ndindex(4, 5):
        assert (x[index], y[index]) == pair_speeds(a[index], b[index])
