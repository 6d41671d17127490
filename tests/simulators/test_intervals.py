"""Confidence intervals: textbook values, honest coverage, and wider intervals for correlated data."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.rng import derive
from simulators.serving.intervals import batch_values, batched_interval, interval_of


def mean(values: np.ndarray) -> float:
    return float(values.mean())


def test_three_values_give_students_interval() -> None:
    # mean 2, s = 1, t(0.975, 2) = 4.3027: 2 ± 4.3027/√3.
    assert interval_of([1.0, 2.0, 3.0]) == pytest.approx((2 - 2.48414, 2 + 2.48414), abs=1e-4)


def test_one_value_gives_no_interval() -> None:
    assert interval_of([1.0]) is None
    assert batched_interval([np.arange(20.0)], mean) is None


def test_intervals_of_independent_samples_cover_the_mean_as_often_as_they_say() -> None:
    covered = 0
    for run in range(400):
        samples = [derive(1, "coverage", run, r).exponential(1.0, 600) for r in range(3)]
        interval = batched_interval(samples, mean)
        assert interval is not None
        covered += interval[0] <= 1.0 <= interval[1]
    # 95 % of 400 within four standard deviations of the count.
    assert abs(covered - 380) <= 4 * (400 * 0.95 * 0.05) ** 0.5


def test_correlated_samples_get_fewer_and_longer_batches_and_wider_intervals() -> None:
    rng = derive(2, "walk")
    noise = rng.normal(size=4000)
    smooth = np.empty(4000)
    smooth[0] = noise[0]
    for index in range(1, 4000):
        smooth[index] = 0.995 * smooth[index - 1] + noise[index]
    independent = rng.permutation(smooth)
    assert len(batch_values([smooth, smooth[::-1]], mean)) < len(batch_values([independent] * 2, mean))
    wide, narrow = batched_interval([smooth, smooth[::-1]], mean), batched_interval([independent] * 2, mean)
    assert wide is not None
    assert narrow is not None
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_tail_percentiles_of_short_runs_rest_on_replications_alone() -> None:
    samples = [derive(3, r).exponential(1.0, 900) for r in range(3)]
    assert len(batch_values(samples, lambda part: float(np.quantile(part, 0.99)), shortest=1000)) == 3
