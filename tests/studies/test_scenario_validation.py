"""Validation of a search over several scenarios: aggregates of simulated values and their intervals, and a real run."""

from __future__ import annotations

import math

import pytest

from hydra_dse.config import load_experiment
from hydra_dse.errors import InputError
from hydra_dse.search.references import References
from hydra_dse.studies import sweep, validate
from hydra_dse.studies.chosen import Chosen
from hydra_dse.studies.scenario_validation import evaluation_over, measured_alike
from hydra_dse.studies.validation_table import ValidationRow, summary

RATE, DELAY = "saturation_tokens_per_s", "ttft_mean_s"
ONE, OTHER = "nemotron-h-4b/azure-conversation", "jamba-tiny/azure-conversation"
SMALL = [
    "space=small-9",
    "constraints=[]",
    "search.trials=8",
    "search.population=4",
    "scenarios={models: [nemotron-h-4b, jamba-tiny], load: 0.4, probe: 2}",
    f"objectives=[worst({RATE}), mean_share({DELAY})]",
]
REFERENCES = References((), ((ONE, DELAY, 1.0), (OTHER, DELAY, 2.0)))


@pytest.fixture(scope="module")
def experiment():
    return load_experiment("quickstart", SMALL)


def test_the_worst_and_the_mean_share_are_those_of_the_values_and_their_ends_of_the_ends(experiment):
    found = {
        ONE: {RATE: (10.0, 9.0, 11.0), DELAY: (2.0, 1.6, 2.5)},
        OTHER: {RATE: (30.0, 8.0, 40.0), DELAY: (4.0, 2.5, 5.0)},
    }
    over = evaluation_over(experiment, REFERENCES, found)
    worst, kept = f"worst({RATE})", f"mean_share({DELAY})"
    assert (over.metrics[worst], over.intervals[worst]) == (10.0, (8.0, 11.0))
    # Shares of a delay are reference / value: the ends change places.
    assert over.metrics[kept] == pytest.approx((1 / 2 + 2 / 4) / 2)
    assert over.intervals[kept] == pytest.approx(((1 / 2.5 + 2 / 5) / 2, (1 / 1.6 + 2 / 2.5) / 2))
    assert (over.metrics[f"{DELAY}@{OTHER}"], over.intervals[f"{DELAY}@{OTHER}"]) == (4.0, (2.5, 5.0))


def test_a_scenario_that_is_not_served_leaves_no_worst_value_and_a_share_of_nothing(experiment):
    over = evaluation_over(experiment, REFERENCES, {ONE: {RATE: (10.0, 9.0, 11.0), DELAY: (2.0, 1.6, 2.5)}, OTHER: {}})
    assert over.metrics[f"worst({RATE})"] is None
    assert over.metrics[f"mean_share({DELAY})"] == pytest.approx(1 / 2 / 2)
    assert set(over.intervals) == {f"{RATE}@{ONE}", f"{DELAY}@{ONE}"}


def test_a_value_without_an_interval_leaves_the_aggregate_without_one(experiment):
    found = {ONE: {RATE: (10.0, 10.0, 10.0)}, OTHER: {RATE: (30.0, 8.0, 40.0)}}
    assert f"worst({RATE})" not in evaluation_over(experiment, REFERENCES, found).intervals


def test_stored_shares_are_measured_by_the_references_that_simulation_is_measured_by(experiment):
    stored = {f"{DELAY}@{ONE}": 2.0, f"{DELAY}@{OTHER}": 4.0, f"mean_share({DELAY})": 0.9, f"worst({RATE})": 7.0}
    [design] = measured_alike([Chosen("d", 1, {}, stored)], experiment, REFERENCES)
    assert design.estimates[f"mean_share({DELAY})"] == pytest.approx(0.5)
    assert design.estimates[f"worst({RATE})"] == 7.0


def test_errors_of_designs_under_several_loads_have_a_band_of_their_own():
    def row(load):
        return ValidationRow("d", 1, load, RATE, 1.1, 1.0, 0.9, 1.1, 0.1, 10, 1, 0)

    found = {error.band: error.designs for error in summary([row(0.5), row(0.9), row(math.nan), row(math.nan)])}
    assert found == {"load <= 0.8": 1, "load > 0.8": 1, "several loads": 2}


@pytest.mark.slow
def test_a_front_over_two_models_is_simulated_under_each_of_them_and_put_in_order(experiment, tmp_path):
    sweep(experiment, tmp_path / "run")
    found = validate(tmp_path / "run", top=2, outside=0, requests=120, replications=2, max_replications=2)
    values = {(row.design, row.metric): row for row in found.rows}
    for design in found.chosen:
        rates = [values[design.identity, f"{RATE}@{name}"] for name in (ONE, OTHER)]
        worst = values[design.identity, f"worst({RATE})"]
        assert worst.simulated == min(row.simulated for row in rates)
        assert worst.ci_low <= worst.simulated <= worst.ci_high
        # The estimate of saturation stays within a fifth of 120 requests' simulation.
        assert worst.relative_error == pytest.approx(0.0, abs=0.2)
    assert set(found.front) <= {design.identity for design in found.chosen}
    again = validate(tmp_path / "run", top=2, outside=0, requests=120, replications=2, max_replications=2)
    assert (again.resumed, again.rows) == (len(found.chosen), found.rows)
    assert not (tmp_path / "run" / "intervals.csv").exists()


@pytest.mark.slow
def test_bundles_of_designs_under_several_scenarios_are_refused_in_one_line(experiment, tmp_path):
    from click.testing import CliRunner

    from hydra_dse.cli.app import app

    sweep(experiment, tmp_path / "run")
    result = CliRunner().invoke(app, ["validate", str(tmp_path / "run"), "--bundles"], catch_exceptions=True)
    assert isinstance(result.exception, InputError | SystemExit)
    assert "several scenarios" in f"{result.exception}{result.output}"
