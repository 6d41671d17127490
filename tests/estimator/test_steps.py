"""Decode steps of requests whose steps emit drawn numbers of tokens, and estimates of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.estimator import estimate
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.steps import EXACT, step_moments, with_short_outputs, with_steps
from hydra_dse.policy import ONE_TOKEN, Emission
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import System, profile_of

TWO = Emission((0.0, 1.0), 2)
DRAWN = Emission((0.5, 0.3, 0.2), 3)


def count_of_steps(tokens: int, emission: Emission) -> np.ndarray:
    """Probabilities of 0, 1, … steps, by adding one step after the other."""
    open_, ended = np.zeros(tokens + 1), []
    open_[0] = 1.0
    while open_[:tokens].any():
        after = np.zeros(tokens + 1)
        for gain, share in enumerate(emission.probabilities, 1):
            for have in range(tokens):
                after[min(have + gain, tokens)] += share * open_[have]
        ended.append(after[tokens])
        open_ = np.append(after[:tokens], 0.0)
    return np.array([0.0, *ended])


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 40])
def test_moments_of_the_steps_are_those_of_their_distribution(tokens: int) -> None:
    chance = count_of_steps(tokens, DRAWN)
    steps = np.arange(len(chance))
    mean = chance @ steps
    found = step_moments(np.array([float(tokens)]), DRAWN)
    assert found[0][0] == pytest.approx(mean, rel=1e-12)
    assert found[1][0] == pytest.approx(chance @ steps**2 - mean**2, rel=1e-9, abs=1e-12)


def test_steps_of_two_tokens_are_half_as_many_rounded_up() -> None:
    mean, variance = step_moments(np.arange(1.0, 20.0), TWO)
    assert mean.tolist() == np.ceil(np.arange(1, 20) / 2).tolist()
    assert variance == pytest.approx(np.zeros(19), abs=1e-9)


def test_beyond_the_recursion_moments_grow_as_renewal_theory_says() -> None:
    chance = count_of_steps(EXACT + 40, DRAWN)
    steps = np.arange(len(chance))
    mean, variance = step_moments(np.array([EXACT + 40.0]), DRAWN)
    assert mean[0] == pytest.approx(chance @ steps, rel=1e-9)
    assert variance[0] == pytest.approx(chance @ steps**2 - (chance @ steps) ** 2, rel=1e-6)
    # E[N(d)] → d/m + E[X(X − 1)]/2m²: the last step overshoots by the stationary excess.
    m, square = DRAWN.mean, DRAWN.mean_square
    assert mean[0] == pytest.approx((EXACT + 40) / m + (square - m) / (2 * m * m), rel=1e-9)


def test_slices_keep_the_mean_and_the_spread_of_the_steps() -> None:
    tokens = np.array([1.0, 5.0, 200.0, 3000.0])
    index, steps, weight = with_steps(tokens, np.full(4, 0.25), DRAWN)
    mean, variance = step_moments(tokens, DRAWN)
    for number in range(4):
        mine, share = steps[index == number], 4 * weight[index == number]
        assert share @ mine == pytest.approx(mean[number], rel=1e-12)
        if number > 1:
            assert share @ mine**2 - mean[number] ** 2 == pytest.approx(variance[number], rel=1e-6)
    assert steps[index == 0].tolist() == [1.0] * 7


def test_the_slice_of_the_shortest_outputs_is_spread_over_whole_tokens_of_the_same_mean() -> None:
    output = np.array([2.3, 7.8, 40.0])
    slices = LengthPoints(np.full(3, 100.0), output, np.array([0.2, 0.3, 0.5]), np.array([5.0, 0.0, 0.0]))
    spread = with_short_outputs(slices)
    short = spread.output_tokens < 7.0
    assert spread.weight[short].sum() == pytest.approx(0.2)
    assert spread.weight[short] @ spread.output_tokens[short] / 0.2 == pytest.approx(2.3, rel=0.05)
    assert set(spread.output_tokens[short].tolist()) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    assert spread.cached_tokens is not None
    assert spread.cached_tokens[short].tolist() == [5.0] * int(short.sum())
    recorded = LengthPoints(np.full(3, 100.0), np.array([2.0, 7.8, 40.0]), np.full(3, 1 / 3))
    assert with_short_outputs(recorded) is recorded


def test_one_token_a_step_leaves_all_moments_as_they_are(chat: LengthPoints) -> None:
    plain = moments_of(chat)
    assert plain.decode == plain.decode_tokens
    assert (plain.positions, plain.steps_per_token) == (1.0, 1.0)
    forced = moments_of(chat, Emission((1.0,), 4))
    assert (forced.decode, forced.context, forced.positions) == (plain.decode, plain.context, 4.0)


def test_the_mean_context_of_steps_of_two_tokens_is_that_of_every_other_token() -> None:
    # Prompt 100, eight tokens in four steps: contexts 101, 103, 105, 107.
    found = moments_of(LengthPoints(np.array([100.0]), np.array([9.0]), np.ones(1)), TWO)
    assert (found.decode, found.decode_tokens, found.context) == pytest.approx((4.0, 8.0, 104.0))
    assert found.steps_per_token == pytest.approx(0.5)


def served(emission: Emission, apart: bool = False, tc: float = 1e-9, **more: object) -> ServiceProfile:
    pool = [System(tw=6e-3, tc=tc, tkv=1e-12, tat=1e-12)]
    pools = {"prefill": pool, "decode": pool} if apart else {"serve": pool}
    return replace(profile_of(pools, shared=False, **more), emission=emission)  # type: ignore[arg-type]


FIXED = LengthPoints(np.array([200.0]), np.array([101.0]), np.ones(1))


@pytest.mark.parametrize("apart", [False, True])
def test_two_tokens_a_step_halve_the_time_per_token_where_positions_cost_nothing(apart: bool) -> None:
    idle = ArrivalStatistics(1e-3)
    one, two = (estimate(served(emission, apart), idle, FIXED).metrics for emission in (ONE_TOKEN, TWO))
    assert two["tpot_mean_s"][0] == pytest.approx(one["tpot_mean_s"][0] / 2, rel=1e-2)
    assert two["tbt_mean_s"][0] == pytest.approx(one["tbt_mean_s"][0] / 2, rel=1e-2)
    assert two["ttft_mean_s"][0] == pytest.approx(one["ttft_mean_s"][0], rel=1e-3)
    assert two["tbt_p90_s"][0] == pytest.approx(one["tbt_p90_s"][0], rel=1e-3)
    assert two["tpot_p50_s"][0] == pytest.approx(one["tpot_p50_s"][0] / 2, rel=1e-2)


def test_a_decode_bound_pool_emits_twice_as_many_tokens_where_positions_cost_nothing() -> None:
    long = LengthPoints(np.array([1.0]), np.array([4001.0]), np.ones(1))
    one, two = (
        estimate(served(emission, True), ArrivalStatistics(1e-3), long).metrics["saturation_tokens_per_s"][0]
        for emission in (ONE_TOKEN, TWO)
    )
    assert two == pytest.approx(2 * one, rel=1e-3)


def test_positions_that_are_never_accepted_only_cost_time() -> None:
    idle = ArrivalStatistics(1e-3)
    plain, wasted = (
        estimate(served(Emission((1.0,), positions), tc=1e-2), idle, FIXED).metrics["tpot_mean_s"][0]
        for positions in (1, 4)
    )
    system = System(tw=6e-3, tc=1e-2)
    fixed = system.t0 + system.tssm
    assert plain == pytest.approx(fixed + 1e-2, rel=2e-2)
    assert wasted == pytest.approx(fixed + 4e-2, rel=2e-2)


def test_static_batches_and_elastic_pools_have_no_estimate_of_such_steps() -> None:
    with pytest.raises(InputError, match="tokens_per_step: steps of several tokens with batching 'static'"):
        estimate(served(TWO, batching="static"), ArrivalStatistics(0.1), FIXED)
    elastic = replace(served(TWO, True), task_map="elastic")
    with pytest.raises(InputError, match="task_map 'elastic' have no estimate; simulate"):
        estimate(elastic, ArrivalStatistics(0.1), FIXED)
