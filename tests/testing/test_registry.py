"""Names of other packages: registered in a process or installed, found when they are asked for, faults told."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from hydra_dse import extensions, load_design
from hydra_dse.errors import InputError
from hydra_dse.results import Metric, metric
from hydra_dse.results.derived import DerivedMetric, derived_metric
from hydra_dse.studies import find_simulator

GROUP = extensions.OBJECTIVES


def of(value, needs=("unit_cost_usd",), name="mine_usd"):
    return DerivedMetric(Metric(name, "USD", "minimise", "mine", "mine"), needs, value)


def test_a_name_is_there_for_the_length_of_a_block():
    with extensions.registered(GROUP, "mine_usd", of(lambda known: known["unit_cost_usd"])):
        assert extensions.names(GROUP) == ("mine_usd",)
        assert metric("mine_usd").unit == "USD"
        with pytest.raises(InputError, match="registered already"):
            extensions.register(GROUP, "mine_usd", None)
    assert extensions.names(GROUP) == ()


def test_an_installed_name_is_loaded_when_it_is_asked_for(monkeypatch):
    points = {
        "there": EntryPoint("there", "math:pi", GROUP),
        "broken": EntryPoint("broken", "no_such_module_at_all:x", GROUP),
    }
    monkeypatch.setattr(extensions, "_points", lambda group: points if group == GROUP else {})
    assert extensions.names(GROUP) == ("broken", "there")
    with pytest.raises(InputError, match="is a float, not a DerivedMetric"):
        derived_metric("there")
    with pytest.raises(InputError, match=r"'broken' of .* cannot be loaded: No module named"):
        derived_metric("broken")


@pytest.mark.parametrize(
    ("item", "told"),
    [
        (of(None, needs=("unit_cost",)), "unknown metric 'unit_cost'"),
        (of(None, needs=()), "needs 0 metrics"),
        (of(None, name="other_usd"), "calls itself 'other_usd'"),
    ],
)
def test_an_objective_that_does_not_fit_is_told(item, told):
    with extensions.registered(GROUP, "mine_usd", item), pytest.raises(InputError, match=told):
        metric("mine_usd")


def test_what_is_no_simulator_is_told():
    with (
        extensions.registered(extensions.SIMULATORS, "mine", 3),
        pytest.raises(InputError, match="no method 'evaluate'"),
    ):
        find_simulator("mine")


def test_own_names_are_taken_without_a_look_at_what_is_installed(monkeypatch):
    monkeypatch.setattr(extensions, "_points", lambda group: pytest.fail("looked"))
    assert load_design("h100", ["placement.algorithm=random"]).placement_algorithm == "random"
    assert metric("ttft_mean_s").unit == "s"
