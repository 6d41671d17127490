"""Estimates of elastic and static disaggregated systems against simulations of them, seed by seed."""

from __future__ import annotations

import numpy as np
import pytest
from role_pieces import Case, points_of, profile_of, random_case, simulate

from hydra_dse.estimator import estimate
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.solvers import solver_of
from hydra_dse.workload.nouns import ArrivalStatistics


def errors(case: Case, requests: int) -> tuple[float, float]:
    """Relative errors of mean TTFT, and of saturation."""
    profile, points = profile_of(case), points_of(case)
    saturation = float(solver_of(profile, moments_of(points)).saturation_per_s[0])
    rate = case.load * saturation
    estimated = estimate(profile, ArrivalStatistics(rate), points, percentiles=False).metrics["ttft_mean_s"][0]
    found = simulate(case, rate, requests)
    visits = found.visits
    simulated = float((visits.first_token_s - visits.arrival_s)[found.first :].mean())
    ends = np.sort(simulate(case, rate, requests, 1, saturate=True).visits.last_token_s)
    full = 0.5 * requests / (ends[int(0.8 * requests)] - ends[int(0.3 * requests)])
    return float(estimated) / simulated - 1.0, saturation / full - 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("elastic", "seeds"), [(True, (1, 3, 7)), (False, (4, 5, 8))])
def test_estimates_agree_with_simulations_of_random_systems(elastic: bool, seeds: tuple[int, ...]) -> None:
    found = np.abs([errors(random_case(seed, elastic), 2000) for seed in seeds])
    ttft, saturation = np.median(found, axis=0)
    assert ttft < 0.1
    assert saturation < 0.04
    assert found[:, 1].max() < 0.1
