"""Prompts that share an iteration, and requests that follow one, against samples."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.clumps import SHARES, clump_of, delay_table, lines_of, shared_batch
from hydra_dse.estimator.company import started_packing
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.phases import phases_of
from hydra_dse.estimator.renewal import following
from hydra_dse.workload.nouns import ArrivalStatistics
from tests.estimator.analytic import AnalyticPool, System
from tests.estimator.conftest import lognormal, points

BENT = System(t0=1e-3, tw=8e-3, tc=5e-5, tkv=0.0, tssm=0.0, tat=0.0)
DECODERS = 40.0


def delay_of(tokens: np.ndarray, budget: float) -> np.ndarray:
    """Delay of the decoders by clumps of `tokens`, in full iterations as far as they fill them."""
    alone = BENT.time(int(DECODERS), 0.0, 0, 0.0)
    inside = np.array([BENT.time(int(DECODERS), 0.0, t, 0.0) for t in np.minimum(tokens, budget)]) - alone
    return inside * np.maximum(tokens / budget, 1.0)


# Single prompts, whose mean lies where the time bends, are lognormal here and gamma there.
@pytest.mark.slow
@pytest.mark.parametrize(("per_iteration", "within"), [(0.05, 0.2), (0.5, 0.05), (2.0, 0.05)])
def test_the_delay_by_a_clump_is_that_of_sampled_clumps(per_iteration: float, within: float) -> None:
    rng = np.random.default_rng(8)
    prompt = lognormal(rng, 150, 0.8, 20_000)
    lengths = moments_of(points(prompt, np.full(len(prompt), 50)))
    budget = np.array([[1024.0]])
    decoders = np.array([[DECODERS]])
    step = np.array([[BENT.time(int(DECODERS), 0.0, 0, 0.0)]])
    table = delay_table(AnalyticPool((BENT,)).time_s(shared_batch(budget, decoders, lengths)), step)
    found = clump_of(np.array([[per_iteration]]), lines_of(table), budget, lengths, 1.0)
    counts = rng.poisson(per_iteration, 40_000)
    counts = counts[counts > 0]
    tokens = np.array([rng.choice(prompt, count).sum() for count in counts])
    measured = delay_of(tokens, 1024.0)
    assert found.size[0, 0] == pytest.approx(counts.mean(), rel=0.01)
    assert found.each_s[0, 0] == pytest.approx(measured.mean() / counts.mean(), rel=within)
    assert found.square[0, 0] == pytest.approx((measured**2).mean() / counts.mean(), rel=2 * within)


def test_tokens_that_memory_hides_delay_no_one() -> None:
    lengths = moments_of(points(np.array([10]), np.array([5])))
    step = np.array([[BENT.time(4, 0.0, 0, 0.0)]])
    batch = shared_batch(np.array([[64.0]]), np.array([[4.0]]), lengths)
    table = delay_table(AnalyticPool((BENT,)).time_s(batch), step)
    assert table.shape == (1, 1, len(SHARES))
    assert not table.any()


@pytest.mark.parametrize("cv", [0.5, 2.0, 3.0])
def test_requests_that_follow_one_are_as_many_as_in_a_sample(cv: float) -> None:
    rng = np.random.default_rng(2)
    ends = rng.gamma(cv**-2, cv**2, (20_000, 120)).cumsum(axis=1)
    within = np.array([0.1, 1.0, 8.0])
    measured = [(ends <= gaps).sum() / len(ends) for gaps in within]
    assert following(within, cv**2) == pytest.approx(measured, rel=0.03, abs=0.02)


def test_requests_that_follow_one_of_a_poisson_stream_are_those_of_any_time() -> None:
    assert following(np.array([0.3, 7.0]), 1.0).tolist() == [0.3, 7.0]


def test_the_excess_after_an_arrival_of_two_phases_ends_at_half_the_dispersion() -> None:
    phases = phases_of(ArrivalStatistics(1.0, 1.2, ((1.6, 20.0), (0.4, 20.0))))
    assert phases is not None
    late = following(np.array([1e4]), 1.0, phases)[0] - 1e4
    assert late == pytest.approx((phases.dispersion - 1.0) / 2.0)


def test_an_engine_that_starts_at_once_packs_what_came_in_an_iteration() -> None:
    # Iterations of a fixed time: N = Poisson(u), or one where none came.
    u = np.array([0.2, 1.0, 3.0])
    assert started_packing(u, np.full(3, 50.0), 1.0) == pytest.approx(u + np.exp(-u))
    assert started_packing(np.array([0.9]), np.ones(1) * 9.0, 0.0)[0] == pytest.approx(1.0, abs=0.05)
