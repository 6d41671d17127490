"""Specialists, generalists and unseen models on a small space."""

from __future__ import annotations

import csv
from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_experiment
from hydra_dse.design.experiment import Scenario
from hydra_dse.errors import InputError, Interrupted
from hydra_dse.extensions import OBJECTIVES, registered
from hydra_dse.results import Metric
from hydra_dse.results.aggregates import aggregate_of
from hydra_dse.results.derived import DerivedMetric
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.cases import CaseJournal
from hydra_dse.studies.designs_table import from_parquet
from hydra_dse.studies.robust_tables import rank_correlations
from hydra_dse.studies.robustness import robustness
from hydra_dse.studies.role_search import Found, chosen_row, parts_of
from hydra_dse.studies.roles import Role, roles_of
from hydra_dse.workload.sampling import at_rate

SMALL = [
    "space=small-9",
    "constraints=[]",
    "search.trials=32",
    "scenarios={models: [nemotron-h-4b, zamba2-2.7b, falcon-h1-3b], load: 0.5, probe: 3}",
    "objectives=[worst_share(saturation_tokens_per_s), worst_share(ttft_mean_s)]",
]
FILES = ("robustness.csv", "robustness_cells.csv", "robustness_summary.csv", "rank_correlation.csv", "pareto.csv")


@pytest.fixture(scope="module")
def experiment():
    return load_experiment("quickstart", SMALL)


@pytest.fixture(scope="module")
def finished(experiment, tmp_path_factory):
    path = tmp_path_factory.mktemp("robust") / "run"
    return path, robustness(experiment, path)


def _scenario(model, load):
    return Scenario(f"{model}/{load}", model, load, None)


def test_roles_are_specialists_one_load_all_and_all_but_one_model():
    roles = roles_of([_scenario(model, load) for load in "xy" for model in "abc"])
    assert [role.name for role in roles] == [
        *("own:a/x", "own:b/x", "own:c/x", "own:a/y", "own:b/y", "own:c/y"),
        *("load:x", "load:y", "all", "without:a", "without:b", "without:c"),
    ]
    assert roles[6].seen == ("a/x", "b/x", "c/x")
    assert not any(name.startswith("a/") for name in roles[9].seen)


@pytest.mark.slow
def test_own_bests_are_the_best_found_anywhere_and_specialists_reach_them(finished):
    _, result = finished
    own = [cell for cell in result.cells if cell.kind == "own" and cell.seen and cell.metric != "every"]
    assert len(own) == 6
    assert all(0.97 <= cell.share <= 1.0 + 1e-9 for cell in own)
    assert all(cell.share <= 1.0 + 1e-9 for cell in (*result.cells, *result.retuned) if cell.seen)


@pytest.mark.slow
def test_values_are_those_of_an_estimate_of_the_same_design_for_that_model(finished, experiment):
    """A specialist at home is placed for its own model, as `estimate` places it."""
    _, result = finished
    rates = dict(result.references.rates)
    selected = {(item.metric, item.role.name): item for item in result.selected}
    for cell in result.cells:
        if cell.kind == "own" and cell.seen and cell.metric == "ttft_mean_s":
            plain = load_experiment("quickstart", ["space=small-9", f"model={cell.scenario.model}"])
            loaded = at_rate(plain.workload, rates[cell.scenario.name])
            table = EstimatorScorer(replace(plain, workload=loaded)).score([selected[cell.metric, cell.role].point])
            assert table.metrics["ttft_mean_s"][0] == pytest.approx(cell.value, rel=1e-9)


@pytest.mark.slow
def test_the_generalist_has_the_best_worst_share_of_all_that_its_search_scored(finished):
    path, result = finished
    scored = from_parquet((path / "designs.parquet").read_bytes(), "designs.parquet")
    name = "saturation_tokens_per_s"
    own = {cell.scenario.name: cell.own_best for cell in result.cells if cell.metric == name}
    kept = np.stack([scored.scores.metrics[f"{name}@{place}"] / best for place, best in own.items()], axis=1)
    usable = np.array([not broken for broken in scored.scores.violations])
    mine = [cell.share for cell in result.cells if cell.metric == name and cell.role == "all"]
    assert min(mine) == pytest.approx(kept.min(axis=1)[usable].max(), rel=1e-9)


@pytest.mark.slow
def test_a_policy_for_each_scenario_keeps_no_less_than_one_for_all(finished):
    """The objectives are worst shares, and the packages of the best designs are among those that are retuned."""
    _, result = finished
    for name in ("saturation_tokens_per_s", "ttft_mean_s", "every"):
        one, retuned = (
            min(cell.share for cell in cells if (cell.metric, cell.role) == (name, "all"))
            for cells in (result.cells, result.retuned)
        )
        assert 0.0 < one <= retuned + 1e-9
    assert all("max_batch=" in cell.policy for cell in result.retuned)


@pytest.mark.slow
def test_the_matrix_holds_every_chosen_design_in_every_scenario(finished):
    path, result = finished
    with (path / "robustness.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len({(row["metric"], row["role"], row["model"]) for row in rows}) == 3 * 7 * 3
    unseen = [row for row in rows if row["role"] == "without:zamba2-2.7b" and row["model"] == "zamba2-2.7b"]
    assert [row["seen"] for row in unseen] == ["False"] * 3
    assert all(float(row["regret"]) == pytest.approx(1 - float(row["retained_share"])) for row in rows)
    assert result.resumed == 0


@pytest.mark.slow
def test_an_interrupted_study_goes_on_in_two_processes_to_the_same_bytes(finished, experiment, tmp_path, monkeypatch):
    path, _ = finished
    added = CaseJournal.add
    count = 0

    def stop_after_a_few(self, key, record):
        nonlocal count
        added(self, key, record)
        count += 1
        if count == 9:
            raise KeyboardInterrupt

    monkeypatch.setattr(CaseJournal, "add", stop_after_a_few)
    with pytest.raises(Interrupted, match="9 finished tasks are kept"):
        robustness(experiment, tmp_path / "run")
    monkeypatch.setattr(CaseJournal, "add", added)
    again = robustness(experiment, tmp_path / "run", workers=2, resume=True)
    assert again.resumed == 9
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (path / name).read_bytes()


@pytest.mark.slow
def test_a_finished_study_is_simulated_without_estimating_again(experiment, tmp_path):
    overrides = [*SMALL, "search.trials=8", "validation.requests=60", "validation.replications=2"]
    small = load_experiment("quickstart", [*overrides, "scenarios.models=[nemotron-h-4b, zamba2-2.7b]"])
    before = robustness(small, tmp_path / "run")
    assert all(np.isnan(cell.simulated) for cell in before.cells)
    after = robustness(small, tmp_path / "run", resume=True, simulate=True)
    every = [cell for cell in after.cells if cell.metric == "every"]
    home = [cell for cell in every if cell.kind == "own" and cell.seen]
    assert [cell.simulated for cell in home if cell.simulated == cell.simulated] == [1.0] * 4
    generalist = [cell for cell in every if cell.kind == "all"]
    assert all(cell.sim_low <= cell.simulated <= cell.sim_high for cell in generalist if cell.sim_low == cell.sim_low)
    assert all(0.0 < cell.simulated < 3.0 for cell in generalist)


PER_WATT = DerivedMetric(
    Metric("saturation_per_watt", "tokens/s/W", MAXIMISE, "saturation per watt", "saturation per watt"),
    ("saturation_tokens_per_s", "power_w"),
    lambda known: known["saturation_tokens_per_s"] / known["power_w"],
)


@pytest.mark.slow
def test_an_objective_of_another_package_has_shares_estimated_and_simulated(tmp_path):
    overrides = [*SMALL[:2], "search.trials=4", "validation.requests=60", "validation.replications=2"]
    scenarios = "scenarios={models: [nemotron-h-4b, zamba2-2.7b], load: 0.5, probe: 2}"
    with registered(OBJECTIVES, "saturation_per_watt", PER_WATT):
        objectives = "objectives=[worst_share(saturation_per_watt)]"
        small = load_experiment("quickstart", [*overrides, scenarios, objectives])
        found = robustness(small, tmp_path / "run", simulate=True)
    assert {cell.metric for cell in found.cells} == {"saturation_per_watt"}
    assert all(0.0 < cell.share <= 1.0 + 1e-9 for cell in found.cells if cell.seen)
    assert all(0.0 < cell.simulated < 3.0 for cell in found.cells if cell.kind == "all")


def test_a_role_chooses_by_shares_and_breaks_ties_by_id():
    tables = {
        name: ScoreTable(("c", "b", "a"), {"saturation_tokens_per_s": np.array(values)}, ((), (), ()))
        for name, values in (("x", [4.0, 8.0, 8.0]), ("y", [3.0, 2.0, 2.0]))
    }
    found = Found(Role("all", "all", ("x", "y")), ({}, {}, {}), (0, 1, 2), (0, 0, 0), tables["x"], tables)
    best = {("x", "saturation_tokens_per_s"): 10.0, ("y", "saturation_tokens_per_s"): 10.0}
    worst, mean = aggregate_of("worst_share(saturation_tokens_per_s)"), aggregate_of("mean(saturation_tokens_per_s)")
    assert chosen_row(found, {"saturation_tokens_per_s": worst}, best) == {"saturation_tokens_per_s": 0}
    assert chosen_row(found, {"saturation_tokens_per_s": mean}, best) == {"saturation_tokens_per_s": 2}


def test_a_search_starts_only_from_those_that_see_a_part_of_what_it_sees():
    roles = roles_of([_scenario(model, load) for load in "xy" for model in "abc"])
    found = [Found(role, (), (), (), None, {}) for role in roles]
    names = {one.role.name: [part.role.name for part in parts_of(one.role, found)] for one in found}
    assert names["own:a/x"] == []
    assert names["load:x"] == ["own:a/x", "own:b/x", "own:c/x"]
    assert names["without:a"] == ["own:b/x", "own:c/x", "own:b/y", "own:c/y"]
    assert sorted(names["all"]) == sorted(role.name for role in roles if role.name != "all")


def test_rank_correlation_compares_packages_at_their_best_variants():
    def table(values):
        ids = tuple("abcdef")
        return ScoreTable(ids, {"ttft_mean_s": np.array(values)}, ((),) * 6)

    tables = {"x": table([1, 9, 2, 9, 3, 9.0]), "y": table([9, 3, 9, 2, 9, 1.0])}
    [row] = rank_correlations(tables, [0, 0, 1, 1, 2, 2], ["ttft_mean_s"])
    assert (row.packages, row.spearman) == (3, pytest.approx(-1.0))


def test_an_experiment_without_scenarios_is_refused(tmp_path):
    with pytest.raises(InputError, match="robustness needs scenarios"):
        robustness(load_experiment("quickstart", ["space=small-9"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
