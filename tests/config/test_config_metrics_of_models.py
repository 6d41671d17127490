"""`<metric>@<model>` in objectives and constraints of experiments whose workload has several models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_experiment, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import InputError
from hydra_dse.estimator import estimate_designs
from hydra_dse.placement import place_design
from hydra_dse.results.metrics import OF_EACH_MODEL, OF_MODEL
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.scores import constrained
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.workload import served

GOOD = (
    "name: small\n"
    "workload: mixed-two-models\n"
    "space: small-9\n"
    "objectives: [saturation_tokens_per_s, ttft_mean_s@llama-3.1-8b]\n"
    "constraints: [{metric: tpot_p90_s@nemotron-h-8b, at_most: 0.05}]\n"
)


@pytest.fixture
def file(tmp_path):
    def _file(text):
        (tmp_path / "e.yaml").write_text(text)
        return tmp_path / "e.yaml"

    return _file


def test_a_metric_of_a_model_is_an_objective_and_a_constraint(file):
    experiment = load_experiment(file(GOOD))
    assert experiment.objectives[1] == "ttft_mean_s@llama-3.1-8b"
    assert experiment.bounds[0].metric == "tpot_p90_s@nemotron-h-8b"
    found = Objectives.named(experiment.objectives).metrics[1]
    assert (found.unit, found.direction) == ("s", Objectives.named(["ttft_mean_s"]).metrics[0].direction)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (GOOD.replace("@llama-3.1-8b", "@llama-3.1"), "e.yaml:4:39: objectives[1]: 'ttft_mean_s@llama-3.1': workload "),
        (GOOD.replace("@llama-3.1-8b", "@llama-3.1"), "has no model 'llama-3.1' (did you mean 'llama-3.1-8b'?)"),
        (
            GOOD.replace("tpot_p90_s@", "tpot_p95_s@"),
            "e.yaml:5:24: constraints[0].metric: 'tpot_p95_s@nemotron-h-8b': ",
        ),
        (GOOD.replace("tpot_p90_s@", "tpot_p95_s@"), "unknown metric 'tpot_p95_s' (did you mean 'tpot_p9"),
        (GOOD.replace("tpot_p90_s@", "power_w@"), "'power_w' is not told of one model; accepted: ttft_mean_s"),
        (GOOD.replace("ttft_mean_s@", "batch_mean@"), "'batch_mean' has no better direction"),
        (
            GOOD.replace("mixed-two-models", "hydra-chat").replace("name: small", "model: llama-3.1-8b"),
            "has one model, 'llama-3.1-8b'; name 'ttft_mean_s'",
        ),
        (
            GOOD + "scenarios: {workloads: [mixed-two-models], load: 0.3}\n",
            "with scenarios, a metric is aggregated over them, e.g. worst(ttft_mean_s@llama-3.1-8b)",
        ),
    ],
)
def test_what_is_wrong_with_it_is_told_at_its_place(file, text, told):
    with pytest.raises(InputError) as caught:
        load_experiment(file(text))
    assert any(told in str(fault) for fault in caught.value.faults), [str(fault) for fault in caught.value.faults]


@pytest.mark.slow
def test_estimate_and_simulation_tell_each_of_these_metrics_of_every_model():
    load, design, calibration = load_workload("mixed-two-models"), load_design("h100"), load_calibration("default")
    names = {f"{name}{OF_MODEL}{kind.label}" for kind in served(load) for name in OF_EACH_MODEL}
    assert names <= set(estimate_designs([design], load, calibration).metrics)
    placed, _ = place_design(design, [kind.model for kind in served(load)], 0)
    options = EvaluationOptions(120, 1, 0.1, saturate=False)
    [found] = find_simulator("serving").evaluate([placed], load, calibration, options, 1)
    assert names <= set(found.metrics)


@pytest.mark.slow
def test_a_bound_on_one_model_is_broken_where_that_model_is_slower_whatever_the_other_does(file):
    experiment = load_experiment(file(GOOD.replace("mixed-two-models", "mixed-two-models\nrate: 0.1 req/s")))
    points = list(experiment.space.points())[-2:]
    table = EstimatorScorer(experiment).score(points)
    own = table.metrics["tpot_p90_s@nemotron-h-8b"]
    assert np.isfinite(own).all() and np.isfinite(table.metrics["ttft_mean_s@llama-3.1-8b"]).all()
    for factor, broken in ((0.9, True), (1.1, False)):
        bounds = [replace(experiment.bounds[0], upper=factor * float(own.min()))]
        found = constrained(table, experiment.objectives, bounds).violations[int(own.argmin())]
        assert bool(found) == broken
