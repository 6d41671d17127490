"""Aggregates over scenarios against their definitions."""

import numpy as np
import pytest

from hydra_dse.results import metric
from hydra_dse.results.aggregates import aggregate_of, shares

VALUES = np.array([[4.0, 1.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]])


def _over(form, maximised=True, values=VALUES):
    return aggregate_of(f"{form}(x)").over(values, maximised).tolist()


def test_worst_and_mean_are_the_ends_of_cvar():
    assert _over("worst") == [1.0, 5.0]
    assert _over("worst", maximised=False) == [4.0, 5.0]
    assert _over("mean") == pytest.approx([2.5, 5.0])
    assert _over("cvar1") == _over("worst")


def test_cvar_is_the_mean_of_the_worst_share_and_counts_a_part_of_a_scenario_as_a_part():
    assert _over("cvar50")[0] == pytest.approx((1 + 2) / 2)
    assert _over("cvar50", maximised=False)[0] == pytest.approx((4 + 3) / 2)
    # 40 % of four scenarios are 1.6: the worst one whole, the next 0.6 of it.
    assert _over("cvar40")[0] == pytest.approx((1 + 0.6 * 2) / 1.6)


def test_cvar_equals_the_minimum_over_thresholds_of_rockafellar_and_uryasev():
    losses = np.random.default_rng(3).lognormal(size=(5, 9))
    tail = 0.3
    thresholds = np.unique(losses)
    by_definition = [min(t + np.maximum(row - t, 0).mean() / tail for t in thresholds) for row in losses]
    assert _over("cvar30", maximised=False, values=losses) == pytest.approx(by_definition)


def test_a_value_that_is_unknown_in_one_scenario_is_unknown_over_all():
    assert np.isnan(_over("mean", values=np.array([[1.0, np.nan]]))[0])


def test_shares_turn_both_directions_into_more_is_better_and_unknown_into_nothing():
    values = np.array([[50.0, np.nan]])
    assert shares(values, [100.0, 1.0], maximised=True).tolist() == [[0.5, 0.0]]
    assert shares(np.array([[4.0, np.inf]]), [2.0, 1.0], maximised=False).tolist() == [[0.5, 0.0]]


def test_names_of_aggregates_are_metrics_with_the_unit_and_direction_of_what_they_are_of():
    worst = metric("worst(ttft_mean_s)")
    assert (worst.unit, worst.direction) == ("s", "minimise")
    share = metric("cvar20_share(ttft_mean_s)")
    assert (share.unit, share.direction) == ("1", "maximise")
    assert aggregate_of("cvar0(x)") is None
    assert aggregate_of("ttft_mean_s") is None
