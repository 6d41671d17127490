"""Prompts of a colocated pool with several batches in flight: whole on one engine, slowed by the others."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.engines import own_s, until_one_ends
from hydra_dse.estimator.iteration import PrefillTimes

WEIGHT = np.array([0.5, 0.5])
BESIDE = np.array([[0.0, 1.0, 40.0]])


def prompts(shared: float) -> PrefillTimes:
    """Prompts of 1 s and 3 s alone, half of that where a pool of two splits them; `shared` is saved by two at once."""
    alone = np.array([[[1.0, 3.0], [0.5, 1.5], [0.5, 1.5]]])
    one = np.ones((1, 3))
    return PrefillTimes(alone, np.ones_like(alone), alone, one, shared * one, 2048.0 * one)


@pytest.mark.parametrize(("engines", "slowest"), [(2.0, 2.0), (3.0, 3.0)])
def test_engines_that_want_the_same_dies_slow_a_prompt_by_their_number(engines: float, slowest: float) -> None:
    found = own_s(prompts(0.0), WEIGHT, BESIDE, np.array([engines]))[0]
    assert found[0] == pytest.approx([1.0, 3.0])  # beside no decoders
    assert found[2] == pytest.approx([slowest, 3.0 * slowest], rel=1e-5)
    assert found[1] == pytest.approx((1.0 + (engines - 1.0) / engines) * np.array([1.0, 3.0]))


def test_engines_that_leave_each_other_the_dies_do_not_slow_a_prompt() -> None:
    found = own_s(prompts(2.0), WEIGHT, BESIDE, np.array([2.0]))[0]
    assert found == pytest.approx(np.array([[1.0, 3.0]] * 3))


def test_a_prompt_waits_for_the_first_of_busy_engines_and_for_none_that_is_idle() -> None:
    step = np.full((1, 3), 0.6)
    assert until_one_ends(step, BESIDE, np.array([2.0]))[0] == pytest.approx([0.0, 0.05, 0.2], rel=1e-5)
    assert until_one_ends(step, BESIDE, np.array([1.0]))[0] == pytest.approx([0.3, 0.3, 0.3])
