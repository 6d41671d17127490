from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.design.experiment import Bound
from hydra_dse.errors import InputError
from hydra_dse.results import Violation
from hydra_dse.search.scores import ScoreTable, concatenate, constrained, total_excess


def _table(**metrics):
    count = len(next(iter(metrics.values())))
    columns = {name: np.array(values, dtype=float) for name, values in metrics.items()}
    return ScoreTable(tuple(f"d{index}" for index in range(count)), columns, tuple(() for _ in range(count)))


def test_a_broken_upper_and_lower_bound_become_violations_with_their_relative_excess():
    table = _table(ttft_mean_s=[1.0, 3.0], throughput_tokens_per_s=[50.0, 100.0])
    bounds = (Bound("ttft_mean_s", upper=2.0), Bound("throughput_tokens_per_s", lower=80.0))
    slow, late = constrained(table, ["ttft_mean_s"], bounds).violations
    assert [(item.constraint, item.demand, item.bound) for item in slow] == [
        ("throughput_tokens_per_s at least", 80.0, 50.0)
    ]
    assert [(item.constraint, item.excess) for item in late] == [("ttft_mean_s at most", 0.5)]


def test_a_design_without_a_finite_objective_is_infeasible_by_its_overload():
    table = _table(ttft_mean_s=[np.nan, np.inf, 1.0], load=[1.5, 3.0, 0.5])
    violation = constrained(table, ["ttft_mean_s"], ()).violation
    assert violation.tolist() == [0.5, 2.0, 0.0]


def test_a_bound_on_a_value_that_cannot_be_computed_is_not_met():
    table = _table(ttft_mean_s=[1.0], energy_j_per_token=[np.nan])
    assert constrained(table, ["ttft_mean_s"], [Bound("energy_j_per_token", upper=1.0)]).violation[0] > 0


def test_a_violation_without_excess_still_makes_a_design_infeasible():
    assert total_excess([Violation("x", 1.0, 1.0, "1")]) > 0


def test_an_infinite_demand_counts_more_than_any_finite_one():
    assert total_excess([Violation("x", np.inf, 1.0, "1")]) > total_excess([Violation("x", 1e5, 1.0, "1")])


def test_a_metric_that_no_scorer_computes_is_the_users_mistake():
    with pytest.raises(
        InputError, match=r"objectives: 'power_w' is not computed by the estimator; it computes ttft_mean_s"
    ):
        constrained(_table(ttft_mean_s=[1.0]), ["power_w"], ())


def test_where_nothing_is_feasible_a_missing_metric_is_unknown():
    table = ScoreTable(("a",), {}, ((Violation("memory", 2.0, 1.0, "B"),),))
    assert np.isnan(constrained(table, ["power_w"], ()).metrics["power_w"][0])


def test_where_nothing_can_be_placed_its_cost_does_not_make_other_metrics_a_mistake():
    table = ScoreTable(("a",), {"unit_cost_usd": np.array([10.0])}, ((Violation("slots", 2.0, 1.0, "1"),),))
    scored = constrained(table, ["power_w"], ())
    assert np.isnan(scored.metrics["power_w"][0])
    assert scored.metrics["unit_cost_usd"][0] == 10.0


def test_tables_with_different_metrics_join_with_gaps():
    both = concatenate([_table(ttft_mean_s=[1.0]), _table(power_w=[2.0, 3.0])])
    assert np.array_equal(both.metrics["ttft_mean_s"], [1.0, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(both.metrics["power_w"], [np.nan, 2.0, 3.0], equal_nan=True)
