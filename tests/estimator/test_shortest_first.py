"""Shortest prompt first: waits by size against Cobham's formula, percentiles against the engine."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.shortest_first import waits_by_size
from hydra_dse.workload.nouns import ArrivalStatistics
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points
from tests.estimator.reference_engine import Rules, colocated


def test_two_sizes_wait_as_two_priorities() -> None:
    """`W_k ∝ 1/((1 − σ_{k−1})(1 − σ_k))`: loads 0.3 and 0.4, three quarters of the requests short."""
    work, weight = np.array([0.4, 1.6]), np.array([0.75, 0.25])
    found = waits_by_size(np.array([0.7]), work[None], weight)[0]
    loads = 0.7 * work * weight / float(work @ weight)
    expected = np.array([1.0 / (1.0 - loads[0]), 1.0 / ((1.0 - loads[0]) * 0.3)])
    assert found[1] / found[0] == pytest.approx(expected[1] / expected[0])
    assert found @ weight == pytest.approx(1.0)


def test_a_size_that_does_not_change_the_work_leaves_the_mean_wait_alone() -> None:
    """Telescoping sum: `Σ w_k (1 − ρ)/((1 − σ_{k−1})(1 − σ_k)) = 1` before any scaling."""
    weight = np.array([0.2, 0.3, 0.5])
    rho = 0.8
    upto = rho * np.cumsum(weight)
    plain = (1.0 - rho) / ((1.0 - upto + rho * weight) * (1.0 - upto))
    assert plain @ weight == pytest.approx(1.0)
    assert waits_by_size(np.array([rho]), np.ones((1, 3)), weight)[0] == pytest.approx(plain)


def test_longer_prompts_wait_longer_and_more_so_under_load() -> None:
    work, weight = np.linspace(1.0, 5.0, 9)[None], np.full(9, 1.0 / 9.0)
    spreads = []
    for load in (0.0, 0.3, 0.6, 0.9, 1.5):
        found = waits_by_size(np.array([load]), work, weight)[0]
        assert (np.diff(found) >= -1e-12).all()
        assert np.isfinite(found).all()
        spreads.append(found[-1] / found[0])
    assert spreads == sorted(spreads)
    assert spreads[0] == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("batching", "max_batch", "budget"), [("chunked", 16, 512), ("prefill_first", 32, 1024)])
def test_percentiles_of_shortest_first_agree_with_the_engine(batching: str, max_batch: int, budget: int) -> None:
    """One run of 16,000 requests at load 0.75; bounds are twice to three times median errors."""
    rng, count = np.random.default_rng(31), 16_000
    system = System(tw=6e-3, tc=1e-4, tssm=4e-5)
    prompt, output = lognormal(rng, 700.0, 0.9, count), lognormal(rng, 120.0, 0.7, count)
    profile = profile_of(
        {"serve": [system]}, batching=batching, scheduling="sjf", max_batch=max_batch, token_budget=budget
    )
    lengths = points(prompt, output)
    probe = estimate(profile, ArrivalStatistics(1e-3), lengths, percentiles=False)
    rate = 0.75 * float(probe.metrics["saturation_requests_per_s"][0])
    gaps = rng.exponential(1.0, count)
    arrival = np.cumsum(gaps / gaps.mean()) / rate
    rules = Rules(max_batch, budget, batching == "prefill_first", sjf=True)
    ttft = (colocated(arrival, prompt, output, system.time, rules).first_s - arrival)[count // 10 :]
    found = {
        name: float(values[0]) for name, values in estimate(profile, ArrivalStatistics(rate), lengths).metrics.items()
    }
    assert found["ttft_mean_s"] == pytest.approx(ttft.mean(), rel=0.2)
    assert found["ttft_p50_s"] == pytest.approx(np.quantile(ttft, 0.5), rel=0.2)
    assert found["ttft_p90_s"] == pytest.approx(np.quantile(ttft, 0.9), rel=0.25)
    assert found["ttft_p99_s"] == pytest.approx(np.quantile(ttft, 0.99), rel=0.25)
