"""A small experiment of the bundled files through the estimator: what the toy space cannot show."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_experiment
from hydra_dse.errors import InputError
from hydra_dse.studies import design_of_run, designs_of, existing_run, experiment_of, sweep
from hydra_dse.studies.run_directory import experiment_text

OVERRIDES = ["space=small-9", "search.trials=64", "rate=1 req/s"]


@pytest.fixture(scope="module")
def experiment():
    return load_experiment("quickstart", OVERRIDES)


@pytest.fixture(scope="module")
def finished(experiment, tmp_path_factory):
    path = tmp_path_factory.mktemp("real") / "run"
    return path, sweep(experiment, path)


@pytest.mark.slow
def test_workers_that_load_the_stored_experiment_find_the_same_front(experiment, finished, tmp_path):
    path, _ = finished
    sweep(experiment, tmp_path / "two", workers=2)
    assert (tmp_path / "two" / "pareto.csv").read_bytes() == (path / "pareto.csv").read_bytes()


@pytest.mark.slow
def test_the_stored_experiment_is_the_experiment(experiment, finished):
    stored = experiment_of(existing_run(finished[0]))
    assert experiment_text(stored) == experiment_text(experiment)
    assert (stored.workload, stored.calibration, stored.search) == (
        experiment.workload,
        experiment.calibration,
        experiment.search,
    )


@pytest.mark.slow
def test_a_design_of_a_run_is_built_again_with_the_id_it_was_scored_under(finished):
    path, result = finished
    for item in result.front[:3]:
        assert design_of_run(path, item.identity).identity == item.identity
    assert design_of_run(path, result.front[0].identity[:8]).identity == result.front[0].identity


@pytest.mark.slow
def test_an_unknown_design_of_a_run_is_refused(finished):
    path, _ = finished
    with pytest.raises(InputError, match=r"designs.parquet: 'nope' names no design"):
        design_of_run(path, "nope")
    with pytest.raises(InputError, match="of this run"):
        design_of_run(path, "")


@pytest.mark.slow
def test_every_row_has_the_metrics_and_violations_of_the_estimator(finished):
    designs = designs_of(existing_run(finished[0]))
    feasible = [not broken for broken in designs.scores.violations]
    assert any(feasible)
    assert {"load", "tpot_mean_s", "energy_j_per_token"} <= set(designs.scores.metrics)
    assert (designs.scores.metrics["load"][feasible] <= 0.95).all()
