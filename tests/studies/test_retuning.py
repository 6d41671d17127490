"""Policies chosen anew for every scenario, for packages of fixed hardware."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_space
from hydra_dse.design.space import Parameter
from hydra_dse.results.aggregates import aggregate_of
from hydra_dse.search.scenarios import placed_once
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.retuning import Policies, package_of, policies_of, tuned
from hydra_dse.studies.roles import Role
from studies.toy import toy_space

RATE, WAIT = "saturation_tokens_per_s", "ttft_mean_s"
BEST = {(place, name): 10.0 if name == RATE else 1.0 for place in "xy" for name in (RATE, WAIT)}


def _policies(rates, waits, usable=None):
    """Two packages with two policies each, under scenarios x and y."""
    ids = ("a1", "a2", "b1", "b2")
    tables = {
        place: ScoreTable(ids, {RATE: np.array(rates[place]), WAIT: np.array(waits[place])}, ((),) * 4)
        for place in "xy"
    }
    good = {place: np.array((usable or {}).get(place, [True] * 4)) for place in "xy"}
    return Policies(Role("all", "all", ("x", "y")), ({},) * 4, (0, 0, 1, 1), tables, good)


def _over(*names):
    return {name: aggregate_of(f"worst_share({name})") for name in names}


def test_a_package_is_worth_what_the_best_policy_of_each_scenario_keeps():
    rates = {"x": [9.0, 2.0, 6.0, 6.5], "y": [3.0, 8.0, 6.0, 5.0]}
    policies = _policies(rates, {"x": [1.0] * 4, "y": [1.0] * 4})
    totals, rows = tuned(policies, _over(RATE), BEST)[RATE]
    assert totals.tolist() == [0.8, 0.6]  # with one policy for both the second package would win: 0.3 and 0.6
    assert rows.tolist() == [[0, 1], [3, 2]]


def test_for_all_metrics_at_once_a_scenario_has_one_policy():
    rates = {"x": [10.0, 5.0, 7.0, 7.0], "y": [10.0] * 4}
    waits = {"x": [2.5, 1.0, 1.25, 1.25], "y": [1.0] * 4}
    found = tuned(_policies(rates, waits), _over(RATE, WAIT), BEST)
    assert found[RATE][0].tolist() == [1.0, 0.7]
    assert found[WAIT][0].tolist() == [1.0, 0.8]
    assert found["every"][0].tolist() == [0.5, 0.7]  # the first package's two policies keep (1, 0.4) and (0.5, 1)


def test_a_policy_that_does_not_serve_a_scenario_keeps_nothing_and_is_chosen_only_where_none_does():
    rates = {"x": [9.0, 4.0, 9.0, 8.0], "y": [5.0] * 4}
    usable = {"x": [False, True, False, False]}
    totals, rows = tuned(_policies(rates, {"x": [1.0] * 4, "y": [1.0] * 4}, usable), _over(RATE), BEST)[RATE]
    assert totals.tolist() == [0.4, 0.0]
    assert rows[:, 0].tolist() == [1, 2]


def test_policies_of_a_package_differ_only_in_what_is_set_at_run_time():
    parameters = tuple(
        Parameter(one.name, one.choices, one.inner, runtime=one.name == "batch") for one in toy_space().parameters
    )
    space = toy_space(parameters=parameters)
    point = next(iter(space.points()))
    every = policies_of(space, point)
    assert [one["batch"] for one in every] == [1, 4, 16]
    assert {package_of(space, one) for one in every} == {package_of(space, point)}
    assert every[0] == point


def test_run_time_parameters_of_a_space_file_are_those_that_only_the_policy_names():
    names = [parameter.name for parameter in load_space("hydra-24-flexible").parameters if parameter.runtime]
    assert names == ["max_batch", "token_budget"]
    assert [parameter.name for parameter in load_space("hydra-24-roles").parameters if parameter.runtime] == [
        "max_batch",
        "serving",
    ]


@pytest.mark.slow
def test_a_package_keeps_its_slots_when_its_dies_change_roles():
    from hydra_dse.config import load_model

    space, model = load_space("hydra-24-roles"), load_model("nemotron-h-4b")
    point = space.complete(
        {"hbm": 4, "Ap": 5, "Ad": 3, "Mp": 7, "link_gb_per_s": 640, "max_batch": 16, "serving": "disaggregated"}
    )
    apart, broken = placed_once(space, point, [model])
    together, _ = placed_once(space, {**point, "serving": "colocated"}, [model])
    assert not broken
    assert together.policy.serving == "colocated"
    assert together.placement == apart.placement
