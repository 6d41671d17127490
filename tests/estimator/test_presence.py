"""When two models have work: chains against product forms, balance by hand and a plain generator."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hydra_dse.estimator.presence import MOST, at_level, decoding, prompting, seen


def one(value: float) -> np.ndarray:
    return np.array([value])


def truncated_poisson(mean: float) -> np.ndarray:
    weight = np.array([mean**n / math.factorial(n) for n in range(MOST + 1)])
    return weight / weight.sum()


def test_decoders_that_do_not_slow_each_other_are_two_independent_loss_systems() -> None:
    joint = decoding((one(3.0), one(0.2)), (one(2.5), one(0.7)), (one(2.5), one(0.7)))[0]
    assert joint == pytest.approx(np.outer(truncated_poisson(2.5), truncated_poisson(0.7)), rel=1e-9)


def test_prompts_that_do_not_slow_each_other_have_work_by_chance() -> None:
    joint = prompting((one(3.0), one(0.2)), (one(0.6), one(0.3)), (one(0.6), one(0.3)))[0]
    assert joint == pytest.approx(np.outer([0.4, 0.6], [0.7, 0.3]), rel=1e-9)


def test_two_equal_prompt_queues_balance_by_hand() -> None:
    rate, alone, beside = 2.0, 0.3, 0.5
    joint = prompting((one(rate),) * 2, (one(alone),) * 2, (one(beside),) * 2)[0]
    # Of equal models: none ↔ one at 2λ and the rate of ending alone, one ↔ both at λ and twice that of ending beside.
    ends_alone, ends_beside = rate * (1 - alone) / alone, rate * (1 - beside) / beside
    weights = np.array([[ends_alone / rate, 1.0], [1.0, rate / ends_beside]])
    assert joint == pytest.approx(weights / weights.sum(), rel=1e-9)
    assert joint[1, 1] > (joint[1].sum()) ** 2  # together more often than by chance


@pytest.mark.parametrize("seed", range(3))
def test_the_chain_is_that_of_a_plain_generator(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rates, alone = rng.uniform(0.2, 3.0, 2), rng.uniform(0.2, 2.0, 2)
    beside = alone * rng.uniform(1.0, 3.0, 2)
    states = [(a, b) for a in range(MOST + 1) for b in range(MOST + 1)]
    place = {state: number for number, state in enumerate(states)}
    moves = np.zeros((len(states), len(states)))
    for state, number in place.items():
        for model in (0, 1):
            up = tuple(n + (at == model) for at, n in enumerate(state))
            down = tuple(n - (at == model) for at, n in enumerate(state))
            number_in_service = (beside if state[1 - model] else alone)[model]
            if up in place:
                moves[number, place[up]] += rates[model]
            if down in place:
                moves[number, place[down]] += state[model] * rates[model] / number_in_service
    moves -= np.diag(moves.sum(axis=1))
    system = np.vstack((moves.T, np.ones(len(states))))
    exact = np.linalg.lstsq(system, np.append(np.zeros(len(states)), 1.0), rcond=None)[0].reshape(MOST + 1, MOST + 1)
    pairs = [(one(a), one(b)) for a, b in (rates, alone, beside)]
    found = decoding(*pairs)[0]
    assert found == pytest.approx(exact, abs=1e-10)
    swapped = decoding(*[(second, first) for first, second in pairs])[0]
    assert swapped == pytest.approx(found.T, abs=1e-12)


def test_many_designs_are_solved_as_each_alone() -> None:
    rng = np.random.default_rng(9)
    values = [tuple(rng.uniform(0.2, 0.8, (2, 130))) for _ in range(2)]
    more = tuple(share + 0.1 for share in values[1])
    together = prompting(values[0], values[1], more)
    for row in (0, 63, 64, 65, 129):
        alone = prompting(*[tuple(part[[row]] for part in pair) for pair in (*values, more)])
        assert together[row] == pytest.approx(alone[0], abs=1e-12)


def test_what_a_model_sees_of_the_other_follows_from_the_joint_probabilities() -> None:
    joint = np.array([[[0.4, 0.1], [0.2, 0.3]]])
    assert seen(joint, first=True)[0] == pytest.approx([0.1 / 0.5, 0.3 / 0.5])
    assert seen(joint, first=False)[0] == pytest.approx([0.2 / 0.6, 0.3 / 0.4])


def test_shares_between_two_numbers_of_requests_lie_between_theirs() -> None:
    shares = np.array([[0.1, 0.3, 0.7]])
    assert at_level(shares, np.array([[0.0, 0.5, 1.75, 2.0, 8.0]]))[0] == pytest.approx([0.1, 0.2, 0.6, 0.7, 0.7])
    assert at_level(np.array([[0.4]]), np.array([[3.0]]))[0, 0] == 0.4
