"""Nearly empty engines of many slots, and what E2E is there: TTFT and the outputs' own distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import expon

from hydra_dse.estimator import estimate
from hydra_dse.estimator.bins import bins_of
from hydra_dse.estimator.meeting import TTFT_SHARES, TTFT_WEIGHTS, parts_of
from hydra_dse.workload.nouns import ArrivalStatistics
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points
from tests.estimator.reference_engine import Rules, colocated

ENGINE = System(tw=6e-3, tc=8e-5, tssm=4e-5)
SLOTS = 256
COUNT = 4000
EDGES = (0.0, 0.2, 0.5, 0.9, 0.98, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "rate"), [("chunked", 0.1), ("prefill_first", 0.1), ("chunked", 1.0)])
def test_a_nearly_empty_engine_of_many_slots_answers_as_simulated(policy: str, rate: float) -> None:
    """0.2 to 2 sequences decode on average, far below the second of the batches beside which prompts are timed."""
    rng = np.random.default_rng(5)
    prompt, output = lognormal(rng, 500.0, 0.95, COUNT), lognormal(rng, 211.0, 0.8, COUNT)
    profile = profile_of({"serve": [ENGINE]}, batching=policy, max_batch=SLOTS, token_budget=2048, memory_tokens=1e12)
    found = estimate(profile, ArrivalStatistics(rate, 1.0), points(prompt, output)).metrics
    arrival = np.cumsum(rng.permutation(expon.ppf((np.arange(COUNT) + 0.5) / COUNT))) / rate
    log = colocated(arrival, prompt, output, ENGINE.time, Rules(SLOTS, 2048, policy == "prefill_first", 1e12, 0.0))
    ttft, e2e = log.first_s - arrival, log.last_s - arrival
    assert float(found["ttft_mean_s"][0]) == pytest.approx(float(ttft.mean()), rel=0.03)
    for share in (50, 90, 99):
        assert float(found[f"e2e_p{share}_s"][0]) == pytest.approx(float(np.percentile(e2e, share)), rel=0.025), share


def test_slices_of_few_points_have_the_means_of_the_distribution_that_the_points_stand_for() -> None:
    """Exponential sizes: between probabilities a and b the mean is the difference of (1 − p)·(ln(1 − p) − 1)."""

    def upto(share: np.ndarray) -> np.ndarray:
        rest = np.maximum(1.0 - np.asarray(share), 1e-300)
        return rest * (np.log(rest) - 1.0)

    cuts = np.linspace(0.0, 1.0, 38)
    bins = bins_of(np.diff(upto(cuts)) * 37, np.full(37, 1 / 37), EDGES)
    edges = np.array(EDGES)
    assert bins.size @ bins.weight == pytest.approx(1.0)
    assert bins.size[:3] == pytest.approx((np.diff(upto(edges)) / np.diff(edges))[:3], rel=0.003)


def test_two_sizes_stay_two_sizes() -> None:
    bins = bins_of(np.array([10.0, 1000.0]), np.array([0.5, 0.5]), EDGES)
    assert bins.size.tolist() == pytest.approx([10.0, 1000.0])
    assert bins.half_gap.tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_every_slice_of_outputs_keeps_its_mean_in_parts_that_ttft_is_hardly_correlated_with() -> None:
    size = expon.ppf((np.arange(400) + 0.5) / 400)
    bins = bins_of(size, np.full(400, 1 / 400), EDGES)
    parts = parts_of(bins)
    assert TTFT_WEIGHTS @ parts == pytest.approx(bins.size)
    spread = np.cov(parts[:, 2], TTFT_SHARES, aweights=TTFT_WEIGHTS)
    assert abs(spread[0, 1]) < 0.1 * np.sqrt(spread[0, 0] * spread[1, 1])
    assert parts[:, 2].min() < size[220] and parts[:, 2].max() > size[340]
