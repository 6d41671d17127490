"""What each command prints and writes, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli.pieces import ROOT, replace
from hydra_dse.cli.app import COMMANDS
from hydra_dse.cli.listing import KINDS
from hydra_dse.studies import designs_of, existing_run

RUN_FILES = {"experiment.yaml", "provenance.json", "study.journal", "designs.parquet", "pareto.csv", "log.jsonl"}


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(path.read_text())))


@pytest.mark.parametrize("words", [(), *((name,) for name in COMMANDS), ("model", "show")], ids=" ".join)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_explains_itself(hydra, words, option):
    answer = hydra(*words, option)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: hydra-dse {' '.join(words)}".rstrip())
    assert "--help" in answer.out


def test_the_help_lists_every_command_with_what_it_does(hydra):
    lines = hydra("--help").out.splitlines()
    for name, entry in COMMANDS.items():
        assert any(line.split()[:1] == [name] and entry.help.split()[0] in line for line in lines)


def test_the_version_is_told(hydra):
    assert hydra("--version").out.startswith("hydra-dse, version ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed_one_name_a_line(hydra, kind):
    names = hydra("list", kind).out.split("\n")[:-1]
    assert names and len(set(names)) == len(names)
    assert json.loads(hydra("list", kind, "--json").out) == {"schema_version": 1, kind: names}


def test_all_kinds_are_listed_below_their_headings(hydra):
    lines = hydra("list").out.splitlines()
    assert [line[:-1] for line in lines if line.endswith(":")] == list(KINDS)


def test_a_model_is_shown_by_name_and_by_path_alike(hydra, inputs):
    named = json.loads(hydra("model", "show", "nemotron-h-8b", "--json").out)
    path = json.loads(hydra("model", "show", "model/config.json", "--json").out)
    folder = json.loads(hydra("model", "show", "model", "--json").out)
    assert {key: value for key, value in named.items() if key != "name"} == {
        k: v for k, v in path.items() if k != "name"
    }
    assert folder["total_parameters"] == path["total_parameters"]


def test_a_model_as_json_has_the_promised_shape(hydra):
    data = json.loads(hydra("model", "show", "nemotron-h-8b", "--json", "--prefill", "2048", "--context", "4096").out)
    promised = {
        "total_parameters",
        "active_parameters",
        "weight_bytes",
        "kv_bytes_per_token",
        "state_bytes_per_sequence",
    }
    assert promised | {"blocks", "schema_version"} <= set(data)
    # Four attention layers of 8 KV heads of 128: keys and values in two bytes each.
    assert data["kv_bytes_per_token"] == 4 * 2 * 8 * 128 * 2
    assert sum(block["count"] for block in data["blocks"] if block["kv_bytes_per_token"]) == 4


def test_a_model_as_tables_names_units(hydra):
    out = hydra("model", "show", "nemotron-h-8b").out
    for part in ("total parameters", "billion", "KV [kB/token]", "state [MB/sequence]", "TFLOP", "source: "):
        assert part in out


def test_a_file_without_faults_is_told_so(hydra, inputs):
    answer = hydra("check", "experiment.yaml", "trace.csv")
    assert answer == type(answer)(0, "experiment.yaml: no faults\ntrace.csv: no faults\n", "")


def test_a_bundled_name_is_checked_as_every_file_of_that_name(hydra):
    assert hydra("check", "quickstart", "sharegpt").code == 0


def test_faults_of_several_files_come_as_one_object(hydra, inputs):
    replace(inputs / "workload.yaml", "poisson", "poison")
    answer = hydra("check", "experiment.yaml", "trace.csv", "workload.yaml", "--json")
    assert answer.code == 2
    data = json.loads(answer.out)
    assert data["files"] == ["experiment.yaml", "trace.csv", "workload.yaml"]
    assert [(fault["line"], fault["column"], fault["path"]) for fault in data["faults"]] == [
        (3, 21, "arrivals.process")
    ] * 2


@pytest.mark.slow
def test_the_main_job_writes_a_run_directory_and_says_what_comes_next(hydra, inputs):
    swept = hydra("sweep", "experiment.yaml", "--quiet")
    assert (swept.code, swept.err) == (0, "")
    assert "next: hydra-dse validate runs/mine" in swept.out
    run = inputs / "runs" / "mine"
    assert {path.name for path in run.iterdir()} >= RUN_FILES
    front = table(run / "pareto.csv")
    assert all(row["design"] in swept.out for row in front)
    validated = hydra("validate", "runs/mine", "--quiet")
    assert (validated.code, validated.err) == (0, "")
    assert "95 % CI" in validated.out and "next: hydra-dse report runs/mine" in validated.out
    rows = table(run / "validation.csv")
    assert {row["requests"] for row in rows} == {"60"}
    reported = hydra("report", "runs/mine")
    assert reported.out == "report: runs/mine/report.html\n"
    assert (run / "report.html").stat().st_size < 5e6


@pytest.mark.slow
def test_a_sweep_as_json_names_designs_that_other_commands_take(hydra, inputs):
    answer = hydra("sweep", "experiment.yaml", "--out", "out", "--trials", "16", "--seed", "3", "--json")
    assert answer.err == ""
    data = json.loads(answer.out)
    assert data["run"] == "out" and data["scored"] == 16
    best = data["front"][0]
    estimate = json.loads(hydra("estimate", best["design"], "--workload", "workload.yaml", "--json").out)
    assert estimate["metrics"]["ttft_mean_s"] == pytest.approx(best["metrics"]["ttft_mean_s"], rel=1e-9)


@pytest.mark.slow
def test_a_validation_as_json_has_estimate_simulation_and_interval(hydra, workplace):
    answer = hydra(
        "validate", "run", "--top", "1", "--outside", "0", "--requests", "40", "--replications", "2", "--json"
    )
    data = json.loads(answer.out)
    assert data["schema_version"] == 1
    (design,) = {row["design"] for row in data["rows"]}
    row = next(row for row in data["rows"] if row["metric"] == "tpot_mean_s")
    assert row["ci95"][0] <= row["simulated"] <= row["ci95"][1]
    assert row["relative_error"] == pytest.approx(row["estimate"] / row["simulated"] - 1)
    assert data["front"] == [design]


@pytest.mark.slow
def test_a_finished_run_is_resumed_to_the_same_front(hydra, finished, workplace):
    before = (workplace / "run" / "pareto.csv").read_bytes()
    answer = hydra("sweep", finished / "experiment.yaml", "--out", "run", "--resume", "--quiet")
    assert answer.code == 0
    assert (workplace / "run" / "pareto.csv").read_bytes() == before


@pytest.mark.slow
def test_a_search_that_finds_nothing_feasible_ends_with_3_and_says_how_close_it_came(hydra, inputs):
    answer = hydra("sweep", "experiment.yaml", "--set", "workload.arrivals.rate=400/s", "--quiet")
    assert (answer.code, answer.out) == (3, "")
    assert "none of the 24 designs scored is feasible; the closest, " in answer.err
    assert "offered load: needs 400 req/s, has " in answer.err
    assert hydra("validate", "runs/mine").code == 3
    assert hydra("report", "runs/mine").code == 0
    page = (inputs / "runs" / "mine" / "report.html").read_text()
    assert "No design is feasible" in page and "offered load" in page


@pytest.mark.slow
def test_infeasible_packages_are_rows_of_a_sweep_beside_feasible_ones(hydra, inputs):
    """Some packages break the limit on silicon: each is a row, and none of them stops the sweep."""
    replace(inputs / "space.yaml", "interposer: 1200 mm2", "silicon: 850 mm2, interposer: 1200 mm2")
    answer = hydra("sweep", "experiment.yaml", "--out", "out", "--trials", "184", "--json")
    assert answer.code == 0, answer
    data = json.loads(answer.out)
    assert 0 < data["feasible"] < data["scored"]
    scores = designs_of(existing_run(inputs / "out")).scores
    broken = [{violation.constraint for violation in found} for found in scores.violations]
    silicon = [any("silicon" in name for name in names) for names in broken]
    assert sum(silicon) > 20
    assert np.isnan(scores.metrics["ttft_mean_s"][silicon]).all()


@pytest.mark.slow
def test_a_run_made_anew_in_the_same_place_is_simulated_anew(hydra, inputs):
    """One process, one path, two experiments: what was read of the first must not serve the second."""
    rates = []
    for rate in (1, 2):
        words = ("--out", "out", "--trials", "8", "--quiet", "--set", f"workload.arrivals.rate={rate}/s")
        assert hydra("sweep", "experiment.yaml", *words).code == 0
        assert hydra("validate", "out", "--top", "1", "--quiet").code == 0
        rows = {row["metric"]: float(row["simulated"] or "nan") for row in table(inputs / "out" / "validation.csv")}
        rates.append(rows["offered_requests_per_s"])
        shutil.rmtree(inputs / "out")
    assert rates == pytest.approx([1, 2], rel=0.3)


def test_the_shipped_experiment_of_the_readme_has_no_faults(hydra):
    assert hydra("check", ROOT / "experiments" / "quickstart.yaml").code == 0
