"""What a limit of slots changes: means over geometric followers summed term by term."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.full_pool import met, taken, that_enter

BATCH = np.array([[1.0, 2.0, 3.0, 4.0]])
LIMIT = np.array([4.0])


def state(probability: list[float]) -> PoolState:
    nothing = np.zeros(1)
    return PoolState(np.array([probability]), nothing, nothing, nothing, nothing, nothing)


def test_all_slots_are_taken_at_the_limit_and_in_part_within_one_of_it() -> None:
    assert taken(np.array([[1.0, 3.0, 3.25, 4.0, 5.0]]), LIMIT)[0].tolist() == [0.0, 0.0, 0.25, 1.0, 1.0]


def test_a_prompt_that_enters_a_full_pool_delays_all_but_the_one_that_left() -> None:
    # Of 2 prompts per second of 0.25 s each: half a slot is in prefill, so that 3 of 3.5 decoders are delayed.
    found = met(np.array([2.0]), np.full((1, 4), 0.25), BATCH, LIMIT)[0]
    assert found == pytest.approx([2.0, 2.0, 2.0, 2.0 * 3.0 / 3.5])


def test_with_one_slot_no_other_is_delayed() -> None:
    assert met(np.array([2.0]), np.full((1, 1), 0.1), np.ones((1, 1)), np.ones(1))[0, 0] == 0.0


@pytest.mark.parametrize("followers", [0.0, 0.3, 2.5])
@pytest.mark.parametrize("probability", [[1.0, 0.0, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.25, 0.15]])
def test_of_geometric_followers_those_enter_that_find_a_slot(followers: float, probability: list[float]) -> None:
    # A request that finds b in service takes one of the 4 slots itself: max(3 − b, 0) are left to those behind it.
    ratio = followers / (1.0 + followers)
    mean = square = 0.0
    for in_service, share in enumerate(probability):
        free = max(3 - in_service, 0)
        for number in range(400):
            weight = share * (1.0 - ratio) * ratio**number
            mean += weight * min(number, free)
            square += weight * min(number, free) ** 2
    found = that_enter(np.array([followers]), state(probability), BATCH, LIMIT)
    assert found[0][0] == pytest.approx(mean, abs=1e-12)
    assert found[1][0] == pytest.approx(square - mean**2, abs=1e-12)
