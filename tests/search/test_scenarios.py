"""Objectives over several models and workloads."""

import numpy as np
import pytest

from hydra_dse.config import load_experiment
from hydra_dse.errors import InputError, NothingFeasible
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.references import References, probe_points
from hydra_dse.search.scenarios import ScenarioScorer
from hydra_dse.studies.estimating import measured
from hydra_dse.studies.run_directory import experiment_text
from hydra_dse.workload.sampling import arrival_statistics

SMALL = [
    "space=small-9",
    "constraints=[]",
    "scenarios={models: [nemotron-h-4b, zamba2-2.7b], load: 0.5, probe: 2}",
    "objectives=[worst(saturation_tokens_per_s), mean_share(ttft_mean_s), "
    "worst_share(saturation_per_ttft_tokens_per_s2)]",
]


def _experiment(*more):
    return load_experiment("quickstart", [*SMALL, *more])


@pytest.fixture(scope="module")
def references():
    return measured(_experiment())


def test_scenarios_are_every_model_with_every_workload():
    names = [item.name for item in _experiment("scenarios.workloads=[azure-code, azure-conversation]").scenarios.items]
    assert names == [
        "nemotron-h-4b/azure-code",
        "zamba2-2.7b/azure-code",
        "nemotron-h-4b/azure-conversation",
        "zamba2-2.7b/azure-conversation",
    ]


def test_rates_are_the_stated_share_of_the_best_saturation_probed(references):
    experiment = _experiment()
    points = probe_points(experiment)
    for item in references.applied(experiment).scenarios.items:
        plain = load_experiment("quickstart", ["space=small-9", f"model={item.model}"])
        best = np.nanmax(EstimatorScorer(plain).score(points).metrics["saturation_requests_per_s"])
        assert arrival_statistics(item.workload).rate_per_s == pytest.approx(0.5 * best)


def test_aggregates_are_those_of_the_scenarios_columns(references):
    experiment = references.applied(_experiment())
    points = probe_points(experiment)[:6]
    table = ScenarioScorer(experiment, references).score(points)
    saturation = np.stack(
        [table.metrics[f"saturation_tokens_per_s@{item.name}"] for item in experiment.scenarios.items]
    )
    np.testing.assert_array_equal(table.metrics["worst(saturation_tokens_per_s)"], saturation.min(axis=0))
    kept = [
        references.value(item.name, "ttft_mean_s") / table.metrics[f"ttft_mean_s@{item.name}"]
        for item in experiment.scenarios.items
    ]
    expected = np.mean(np.nan_to_num(kept), axis=0)
    np.testing.assert_allclose(table.metrics["mean_share(ttft_mean_s)"], expected)


def test_what_a_design_breaks_in_one_scenario_it_breaks_as_a_whole():
    experiment = _experiment("scenarios.models=[nemotron-h-4b, jamba-mini]", "scenarios.load=null")
    table = ScenarioScorer(experiment, References()).score(probe_points(experiment)[:2])
    names = {violation.constraint.split(" (")[1] for broken in table.violations for violation in broken}
    assert "jamba-mini/azure-conversation)" in names
    assert not any(broken == () for broken in table.violations)


def test_a_scenario_that_nothing_serves_is_named():
    with pytest.raises(NothingFeasible, match="jamba-mini/azure-conversation"):
        measured(_experiment("scenarios.models=[jamba-mini]"))


def test_the_stored_experiment_loads_to_the_same_scenarios(tmp_path):
    experiment = _experiment()
    stored = tmp_path / "experiment.yaml"
    stored.write_text(experiment_text(experiment))
    again = load_experiment(stored)
    assert again.scenarios == experiment.scenarios
    assert experiment_text(again) == experiment_text(experiment)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("objectives=[ttft_mean_s]", r"e\.g\. worst\(ttft_mean_s\)"),
        ("objectives=[worst(ttft)]", "unknown metric 'ttft'"),
        ("objectives=[worst(batch_mean)]", "no better direction"),
        ("scenarios.models=[nemotron]", "no model file or bundled model called 'nemotron'"),
        ("scenarios={load: 0.5}", "give models, workloads or both"),
        ("scenarios.models=[zamba2-2.7b, zamba2-2.7b]", "two scenarios are called"),
        ("constraints=[{metric: load, at_most: 0.9}]", r"worst\(load\)"),
    ],
)
def test_mistakes_are_named(override, message):
    with pytest.raises(InputError, match=message):
        _experiment(override)


def test_an_aggregate_without_scenarios_is_refused():
    with pytest.raises(InputError, match="the experiment has none; add `scenarios`"):
        load_experiment("quickstart", ["objectives=[worst(ttft_mean_s)]"])
