"""Pools of few slots: a prompt delays the other slots only, and nobody else comes in while all are taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.latencies import _slot_waits
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.stages import Stream
from hydra_dse.workload.arrivals import Mmpp
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import System, profile_of

PROMPT, STEPS = 400.0, 100.0
SYSTEM = System(t0=0.0, tw=1e-2, tc=1e-4, tkv=0.0, tssm=0.0, tat=0.0)
STEP_S, PROMPT_S = 1e-2, 4e-2
EQUAL = LengthPoints(np.array([PROMPT]), np.array([STEPS + 1.0]), np.ones(1))


def _metrics(slots: int, rate: float, cv: float = 1.0, batching: str = "prefill_first") -> dict[str, float]:
    profile = profile_of({"serve": [SYSTEM]}, batching=batching, max_batch=slots, token_budget=2048)
    table = estimate(profile, ArrivalStatistics(rate, cv), EQUAL)
    return {name: float(values[0]) for name, values in table.metrics.items()}


@pytest.mark.parametrize("batching", ["prefill_first", "chunked"])
@pytest.mark.parametrize("cv", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("load", [0.2, 0.9])
def test_with_one_slot_no_prompt_ever_delays_a_decoder(batching: str, cv: float, load: float) -> None:
    found = _metrics(1, load / (PROMPT_S + STEPS * STEP_S), cv, batching)
    assert found["tpot_mean_s"] == pytest.approx(STEP_S, rel=2e-3)
    assert found["tpot_p99_s"] == pytest.approx(STEP_S, rel=5e-3)


@pytest.mark.parametrize("slots", [2, 4, 16])
def test_in_a_pool_that_is_always_full_each_request_meets_one_prompt_of_every_other_slot(slots: int) -> None:
    # A slot takes its own prompt, its steps, and a stop for the prompt of each other slot in every round.
    rate = slots / (STEPS * STEP_S + slots * PROMPT_S)
    found = _metrics(slots, 0.995 * rate)
    assert found["saturation_requests_per_s"] == pytest.approx(rate, rel=1e-3)
    assert found["tpot_mean_s"] == pytest.approx(STEP_S + (slots - 1) * PROMPT_S / STEPS, rel=1e-2)


def test_requests_of_regular_arrivals_meet_fewer_prompts_than_at_random_times_and_vary_less() -> None:
    rate = 0.4 * 64 / (STEPS * STEP_S + 64 * PROMPT_S)
    regular, random = _metrics(64, rate, 0.0), _metrics(64, rate, 1.0)
    # Half a gap lies between an arrival and its neighbours on average more than at a random time: half a prompt less.
    less = (random["tpot_mean_s"] - regular["tpot_mean_s"]) * STEPS / PROMPT_S
    assert 0.4 < less < 0.9
    assert regular["tpot_p99_s"] - regular["tpot_mean_s"] < 0.3 * (random["tpot_p99_s"] - random["tpot_mean_s"])


def test_a_burst_that_no_slot_is_free_for_delays_nobody() -> None:
    few, many = (
        _metrics(slots, 0.7 * slots / (STEPS * STEP_S + slots * PROMPT_S), 3.0)["tpot_p99_s"] for slots in (2, 32)
    )
    # With two slots a second prompt comes once a life: at most two stops beside what a request meets in any case.
    assert STEP_S < few < STEP_S + 3.0 * PROMPT_S / STEPS
    assert many > few


def _stream(wait_s: float, longest_s: float, leaving_scv: float) -> Stream:
    one, none = np.ones(1), np.zeros(1)
    state = PoolState(np.array([[0.0, 1.0]]), one, one, one, one, one)
    table = np.ones((1, 1))
    return Stream(
        joining_per_s=one,
        state=state,
        batch=table,
        step_s=table,
        extra_s=table,
        extra_square=none,
        gaps=Mixture(table, table),
        full=one,
        slot_s=np.array([wait_s]),
        longest_s=np.array([longest_s]),
        leaving_s=one,
        leaving_scv=np.array([leaving_scv]),
        moved_s=none,
    )


def test_waits_for_a_slot_are_exponential_without_bound_and_less_spread_within_one() -> None:
    def moments(stream: Stream) -> tuple[float, float]:
        wait, weight = (values[0] for values in _slot_waits(stream))
        mean = float(wait @ weight)
        return mean, float(wait**2 @ weight) / mean**2 - 1.0

    free_mean, free_scv = moments(_stream(20.0, 1e6, 1.0))
    bound_mean, bound_scv = moments(_stream(10.5, 20.0, 0.0))
    assert (free_mean, bound_mean) == pytest.approx((20.0, 10.5), rel=1e-6)
    # Eight slices lose a little of the variance 1; 1 … 20 leavers alike: (n² − 1)/12 over the square of the mean.
    assert free_scv == pytest.approx(1.0, abs=0.08)
    assert bound_scv == pytest.approx((20.0**2 - 1.0) / 12.0 / 10.5**2, abs=0.03)


def test_a_decode_pool_sees_the_phases_of_its_own_life_and_not_those_of_a_full_batch() -> None:
    fast = System(tw=1e-3, tc=1e-3, tssm=0.0, tkv=0.0)
    profile = profile_of({"prefill": [SYSTEM], "decode": [fast]}, max_batch=256, shared=False)
    rate = 3.0
    phased = Mmpp((4.0, 2.0), (20.0, 20.0)).statistics()
    batch = [
        float(estimate(profile, arrivals, EQUAL).metrics["batch_mean"][0])
        for arrivals in (ArrivalStatistics(rate, 1.0), replace(phased, rate_per_s=rate))
    ]
    # A life of a fifth of a second sees one phase of a rate a third off: a number in service little more varied.
    assert batch[1] == pytest.approx(batch[0], rel=0.05)
