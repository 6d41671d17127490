"""The reference engine itself against theory: an instrument is calibrated before it measures."""

from __future__ import annotations

import numpy as np
import pytest

from tests.estimator.analytic import System
from tests.estimator.conftest import lognormal
from tests.estimator.reference_disaggregated import disaggregated
from tests.estimator.reference_engine import Log, Rules, colocated

FIXED = System(t0=0.0, tw=0.0, tc=1e-3, tkv=0.0, tssm=0.0, tat=0.0)


def alone(prefill: object, decode: object) -> tuple[float, float]:
    return 1.0, 1.0


def sample(count: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    return np.cumsum(rng.exponential(0.3, count)), lognormal(rng, 600, 1, count), lognormal(rng, 60, 0.8, count)


def run(policy: str, arrival: np.ndarray, prompt: np.ndarray, output: np.ndarray, rules: Rules) -> Log:
    system = System()
    if policy == "disaggregated":
        return disaggregated(arrival, prompt, output, (system.time, system.time), rules, alone)
    rules.prefill_first = policy == "prefill_first"
    return colocated(arrival, prompt, output, system.time, rules)


@pytest.mark.slow
def test_single_token_requests_of_one_size_are_an_m_d_1_queue() -> None:
    count, service, load = 20_000, 0.1, 0.7
    means = []
    for seed in range(8):
        arrival = np.cumsum(np.random.default_rng(seed).exponential(service / load, count))
        ones = np.ones(count, dtype=int)
        log = colocated(arrival, 100 * ones, ones, FIXED.time, Rules(1000, 100))
        means.append((log.first_s - arrival)[count // 10 :].mean())
    exact = service + load * service / (2 * (1 - load))
    half_width = 2.36 * np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - exact) < half_width * 1.5
    assert half_width < 0.03 * exact


@pytest.mark.parametrize("policy", ["disaggregated", "chunked", "prefill_first"])
def test_every_request_ends_and_none_before_its_iterations_could_run(policy: str) -> None:
    arrival, prompt, output = sample()
    log = run(policy, arrival, prompt, output, Rules(16, 512))
    assert np.isfinite(log.last_s).all()
    assert (log.scheduled_s >= arrival - 1e-12).all()
    assert (log.first_s > log.scheduled_s).all()
    least = (output - 1) * System().time(1, 0.0, 0, 0.0)
    assert (log.last_s - log.first_s >= least - 1e-9).all()


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["disaggregated", "chunked", "prefill_first"])
def test_memory_stays_within_its_capacity(policy: str) -> None:
    arrival, prompt, output = sample()
    capacity = 2.0 * (prompt.max() + output.max())
    log = run(policy, arrival, prompt, output, Rules(16, 512, memory_tokens=capacity, state_tokens=100))
    assert log.peak_tokens <= capacity
    assert np.isfinite(log.last_s).all()


def test_a_paused_prefill_pool_leaves_at_most_the_batch_and_one_iteration_waiting() -> None:
    count = 400
    ones = np.ones(count, dtype=int)
    log = run("disaggregated", np.zeros(count), 100 * ones, 50 * ones, Rules(4, 200))
    started = np.searchsorted(np.sort(log.first_s), np.sort(log.last_s), side="right")
    ended = np.arange(1, count + 1)
    # Sequences beyond prefill: 4 decoding, 4 waiting, and the 2 of an iteration that began before the fourth waited.
    assert (started - ended).max() <= 4 + 4 + 2


def test_batch_seconds_are_the_decode_time_of_all_requests() -> None:
    arrival, prompt, output = sample()
    log = run("chunked", arrival, prompt, output, Rules(64, 4096))
    assert log.batch_seconds == pytest.approx((log.last_s - log.first_s).sum(), rel=1e-9)
