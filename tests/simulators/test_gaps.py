"""The log of gaps between tokens: exact up to its size, in narrow classes beyond."""

from __future__ import annotations

import numpy as np
import pytest

from simulators.serving.gaps import WIDTH, GapLog
from simulators.serving.metrics import _weighted_quantile


def filled(exact: int, count: int = 5000) -> tuple[GapLog, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    gaps, weights = rng.lognormal(-4.0, 1.0, count), rng.integers(1, 30, count)
    log = GapLog(exact)
    log.mark()
    for start in range(0, count, 100):
        for gap, weight in zip(gaps[start : start + 60].tolist(), weights[start : start + 60].tolist(), strict=True):
            log.add(gap, weight)
        for at in range(start + 60, start + 100, 20):
            weights[at : at + 20] = weights[at]
            log.extend(gaps[at : at + 20], int(weights[at]))
    log.mark()
    return log, gaps, weights.astype(np.float64)


def test_gaps_are_kept_in_order_while_there_is_room() -> None:
    log, gaps, weights = filled(exact=5000)
    assert log.values()[0].tolist() == gaps.tolist()
    assert log.values()[1].tolist() == weights.tolist()


@pytest.mark.parametrize("exact", [0, 700, 4999])
def test_beyond_its_size_means_are_exact_and_percentiles_within_the_width_of_a_class(exact: int) -> None:
    log, gaps, weights = filled(exact)
    values, counts = log.values()
    assert counts.sum() == weights.sum()
    assert np.average(values, weights=counts) == pytest.approx(np.average(gaps, weights=weights), rel=1e-12)
    for share in (0.01, 0.5, 0.9, 0.99):
        quantile = _weighted_quantile(share)
        assert quantile(values, counts) == pytest.approx(quantile(gaps, weights), rel=WIDTH)


def test_gaps_outside_the_classes_keep_their_mean() -> None:
    log = GapLog(exact=1)
    log.mark()
    for gap in (0.0, 0.0, 1e12):
        log.add(gap, 2)
    values, counts = log.values()
    assert (values * counts).sum() == 2e12
    assert counts.sum() == 6


def test_only_gaps_between_the_marks_count() -> None:
    log = GapLog()
    log.add(1.0, 1)
    log.mark()
    log.add(2.0, 1)
    log.add(2.5, 0)
    log.mark()
    log.extend(np.array([3.0, 4.0]), 2)
    assert log.values()[0].tolist() == [2.0]
