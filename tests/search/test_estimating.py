"""The scorer of a sweep computes every metric that an experiment may name."""

from itertools import islice

import pytest

from hydra_dse.config import load_experiment
from hydra_dse.errors import InputError
from hydra_dse.results.metrics import (
    METRICS,
    NEEDS_PREFIXES,
    NEEDS_SESSIONS,
    SCENARIOS_ONLY,
    SIMULATED_ONLY,
    THERMAL,
    UTILIZATION,
)
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.scores import constrained


def _table(*overrides):
    experiment = load_experiment("quickstart", overrides)
    table = EstimatorScorer(experiment).score(list(islice(experiment.space.points(), 2)))
    return experiment, table


def test_the_highest_rate_is_computed_where_it_is_an_objective():
    experiment, table = _table("objectives=[max_rate_requests_per_s]")
    scored = constrained(table, experiment.objectives, experiment.bounds)
    assert "max_rate_requests_per_s" in scored.metrics


def test_the_highest_rate_is_left_out_where_nobody_asks():
    assert "max_rate_requests_per_s" not in _table()[1].metrics


def test_the_highest_rate_is_computed_where_it_is_bounded():
    _, table = _table("constraints=[{metric: max_rate_requests_per_s, at_least: 0.1}]")
    assert "max_rate_requests_per_s" in table.metrics


@pytest.mark.parametrize("name", THERMAL)
def test_temperatures_are_computed_where_one_is_an_objective_or_bounded(name):
    for override in (f"objectives=[{name}]", f"constraints=[{{metric: {name}, at_most: 90}}]"):
        _, table = _table(override)
        assert set(THERMAL) <= set(table.metrics)


def test_temperatures_under_a_load_that_changes_are_refused_before_anything_is_scored():
    with pytest.raises(InputError, match=r"objectives.*load that does not change"):
        load_experiment("quickstart", ["objectives=[peak_temperature_c]", "workload=shifting-mix"])


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["azure-conversation", "own", "tool-sessions"])
def test_the_estimator_computes_all_metrics_but_those_said_to_be_of_simulations(workload):
    overrides = () if workload == "own" else (f"workload={workload}", "workload.slo.ttft=1 s")
    _, table = _table("objectives=[max_rate_requests_per_s]", *overrides)
    names = {name for name in table.metrics if not name.startswith(UTILIZATION)}
    of_sessions = {*NEEDS_PREFIXES, *NEEDS_SESSIONS} if workload != "tool-sessions" else set()
    assert names == set(METRICS) - set(SIMULATED_ONLY) - set(SCENARIOS_ONLY) - set(THERMAL) - of_sessions
