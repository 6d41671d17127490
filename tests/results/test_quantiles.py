"""Tables of quantiles against the samples they are of."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.results.quantiles import (
    SHARES,
    Quantiles,
    cumulative,
    pooled,
    quantiles_of,
    weighted_quantiles_of,
)
from hydra_dse.rng import derive


def test_shares_rise_from_none_to_all_and_are_finer_in_the_tail():
    assert SHARES[0] == 0.0 and SHARES[-1] == 1.0 and len(SHARES) <= 220
    assert np.all(np.diff(SHARES) > 0)
    assert {0.5, 0.9, 0.99, 0.999} <= set(SHARES)


def test_the_table_of_an_exponential_sample_is_near_its_law():
    found = quantiles_of(derive(0, "exponential").exponential(2.0, 40_000))
    assert found.samples == 40_000
    at = np.array([0.5, 0.9, 0.99])
    # standard error of a quantile: sqrt(p(1 − p)/n)/density, density (1 − p)/2 here; four of them
    error = 4 * np.sqrt(at * (1 - at) / 40_000) * 2.0 / (1 - at)
    assert np.all(np.abs(np.interp(at, SHARES, found.seconds) + 2.0 * np.log(1 - at)) < error)


def test_weights_count_like_repeated_values():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([2.0, 5.0, 3.0])
    found = weighted_quantiles_of(values, weights)
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    wanted = [repeated[max(int(np.ceil(share * 10 - 1e-9)), 1) - 1] for share in SHARES]
    assert found.samples == 10 and found.seconds == tuple(wanted)


def test_replications_together_are_their_mixture_by_samples():
    low = quantiles_of(np.linspace(0.0, 1.0, 1001))
    high = quantiles_of(np.linspace(2.0, 3.0, 3001))
    found = pooled([low, high], np.array([0.125, 0.625]))
    weights = np.array([1001, 3001]) / 4002
    assert found == pytest.approx([0.125 / weights[0], 2.0 + (0.625 - weights[0]) / weights[1]], rel=1e-6)


def test_one_replication_together_is_itself():
    found = quantiles_of(derive(1, "sample").gamma(2.0, 1.0, 5000))
    assert pooled([found], np.array(SHARES)) == pytest.approx(found.seconds)


def test_a_value_that_many_share_is_a_step():
    constant = Quantiles(100, (2.0,) * len(SHARES))
    [shares] = cumulative([constant], np.array([1.999, 2.0, 2.001]))
    assert shares.tolist() == [0.0, 1.0, 1.0]
