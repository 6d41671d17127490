"""`estimate` and `simulate`: tables, JSON, designs of a run, infeasible designs as results."""

from __future__ import annotations

import json

import pytest

from cli.pieces import DESIGN, replace
from hydra_dse.results import metric

PAIR = ("design.yaml", "--workload", "workload.yaml")
SHORT = ("--requests", "40", "--replications", "2")
BROKEN = [
    ("too small an interposer", "interposer: 3000 mm2", "interposer: 2000 mm2", "interposer area", 2000.0, "mm2"),
    ("too small tiles", "[11.1 mm, 11.1 mm]", "[11.1 mm, 0.5 mm]", "slot area of Md", 5.55, "mm2"),
    ("too few slots", "columns: 6", "columns: 5", "placement_slots", 20.0, "slots"),
]


def shape(answer) -> dict:
    assert answer.code == 0, answer
    data = json.loads(answer.out)
    assert {"schema_version", "metrics", "intervals", "feasible", "violations", "provenance"} <= set(data)
    assert data["schema_version"] == 1
    return data


def test_an_estimate_has_metrics_with_units_and_intervals_around_them(inputs, hydra):
    data = shape(hydra("estimate", *PAIR, "--json"))
    assert data["feasible"] is True and data["violations"] == []
    assert {"ttft_mean_s", "tpot_mean_s", "saturation_requests_per_s", "load", "energy_j_per_token"} <= set(
        data["metrics"]
    )
    assert data["units"] == {name: metric(name).unit for name in data["metrics"]}
    assert data["intervals"]
    for name, (low, high) in data["intervals"].items():
        if low is not None:
            assert low <= data["metrics"][name] <= high, name
    assert data["provenance"]["design"] == "design.yaml"


def test_an_estimate_as_a_table_names_every_metric_and_unit(inputs, hydra):
    answer = hydra("estimate", *PAIR)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert any("ttft_mean_s" in line and " s " in line for line in lines)
    assert any("energy_j_per_token" in line and "J/token" in line for line in lines)
    assert "\x1b" not in answer.out


def test_an_explanation_shows_where_time_and_bytes_go(inputs, hydra):
    plain, answer = hydra("estimate", *PAIR), hydra("estimate", *PAIR, "--explain")
    assert answer.code == 0
    start = plain.out.index("operators on ")
    table, about = plain.out[:start], plain.out[start:]
    assert answer.out.startswith(table)
    assert answer.out.endswith(about)
    for title in ("Memory at the mean occupancy", "decode batch: mean", "Mean prefill iteration", "Mean decode iter"):
        assert answer.out.count(title) == 1, title
    for title in ("Where operators run", "Bytes that move", "Most loaded 5 of", "Time by operator", "What binds"):
        assert answer.out.count(title) == 2, title
    assert "each of HBM[0] … HBM[5]" in answer.out
    assert "\x1b" not in answer.out


def test_an_explanation_in_json_has_the_numbers_of_the_tables(inputs, hydra):
    plain, data = shape(hydra("estimate", *PAIR, "--json")), shape(hydra("estimate", *PAIR, "--explain", "--json"))
    explanation = data.pop("explanation")
    assert data == plain
    always = {"rate_requests_per_s", "iterations", "memory", "decode_batch", "notes"}
    assert set(explanation) == always | {"handoff", "package", "prefix", "roles", "role_changes"}
    assert explanation["rate_requests_per_s"] == plain["metrics"]["throughput_requests_per_s"]
    for iteration in explanation["iterations"]:
        made = iteration["composition"]
        seconds = [row["time_s"] for row in made["times"]] + [made["iteration_overhead_s"], made["queue_s"]]
        assert sum(seconds) == pytest.approx(made["time_s"], rel=1e-9)
        assert made["batch"]["tokens_per_sequence"] == 1.0


def test_an_explanation_of_an_infeasible_design_says_that_there_is_none(inputs, hydra):
    replace(inputs / "design.yaml", "interposer: 3000 mm2", "interposer: 2000 mm2")
    answer = hydra("estimate", *PAIR, "--explain")
    assert answer.code == 0
    assert "infeasible:" in answer.out
    assert "note: the design cannot serve: there is no iteration to explain" in answer.out
    assert "Where operators run" not in answer.out
    data = shape(hydra("estimate", *PAIR, "--explain", "--json"))
    assert data["explanation"]["iterations"] == [] and data["explanation"]["decode_batch"] is None


@pytest.mark.slow
def test_a_simulation_has_the_same_shape_and_the_same_numbers_for_the_same_seed(inputs, hydra):
    first = shape(hydra("simulate", *PAIR, *SHORT, "--seed", "3", "--json"))
    again = shape(hydra("simulate", *PAIR, *SHORT, "--seed", "3", "--json"))
    other = shape(hydra("simulate", *PAIR, *SHORT, "--seed", "4", "--json"))
    assert first == again
    assert first["metrics"]["ttft_mean_s"] != other["metrics"]["ttft_mean_s"]
    assert first["source"] == "simulated"


def test_a_value_set_on_the_command_line_is_the_value_in_the_file(inputs, hydra):
    told = shape(
        hydra("estimate", *PAIR, "--set", "workload.arrivals.rate=2/s", "--set", "design.policy.max_batch=4", "--json")
    )
    replace(inputs / "workload.yaml", "1 req/s", "2/s")
    replace(inputs / "design.yaml", "max_batch: 8", "max_batch: 4")
    written = shape(hydra("estimate", *PAIR, "--json"))
    assert told["metrics"] == written["metrics"]
    assert told["metrics"]["offered_requests_per_s"] == 2.0


def test_a_trace_takes_the_place_of_the_arrivals(inputs, hydra):
    data = shape(hydra("estimate", *PAIR, "--set", "workload.arrivals.trace=trace.csv", "--json"))
    span = 51.222467 - 46.68059
    assert data["metrics"]["offered_requests_per_s"] == pytest.approx(2 / span, rel=0.6)  # n or n − 1 gaps


def test_another_model_is_served(inputs, hydra):
    told = shape(hydra("estimate", *PAIR, "--model", "nemotron-h-4b", "--json"))
    assert told["provenance"]["model"] == "nemotron-h-4b"
    assert told["metrics"]["saturation_requests_per_s"] > 0


@pytest.mark.parametrize("command", ["estimate", "simulate"])
@pytest.mark.parametrize(
    ("name", "old", "new", "constraint", "bound", "unit"), BROKEN, ids=lambda value: str(value)[:24]
)
def test_an_infeasible_design_is_a_result_with_demand_bound_and_levers(
    inputs, hydra, command, name, old, new, constraint, bound, unit
):
    replace(inputs / "design.yaml", old, new)
    data = shape(hydra(command, *PAIR, "--json"))
    assert data["feasible"] is False
    found = {violation["constraint"]: violation for violation in data["violations"]}
    assert constraint in found
    broken = found[constraint]
    assert broken["demand"] > broken["bound"] == pytest.approx(bound)
    assert broken["unit"] == unit
    assert broken["levers"]
    assert data["metrics"].get("ttft_mean_s") is None


def test_a_design_of_fixed_size_in_too_small_a_tile_is_infeasible(inputs, hydra):
    answer = hydra(
        "estimate", "h100", "--workload", "workload.yaml", "--set", "design.package.topology.tile=[33 mm, 1 mm]"
    )
    assert answer.code == 0
    assert "infeasible:\n  slot area of GPU: needs 814 mm2, has 33 mm2; levers: larger tiles" in answer.out


def test_an_offered_load_above_saturation_is_infeasible_with_the_rates(inputs, hydra):
    data = shape(hydra("estimate", *PAIR, "--set", "workload.arrivals.rate=500/s", "--json"))
    (violation,) = data["violations"]
    assert (violation["constraint"], violation["demand"], violation["unit"]) == ("offered load", 500.0, "req/s")
    assert violation["bound"] == pytest.approx(data["metrics"]["saturation_requests_per_s"])


@pytest.mark.slow
@pytest.mark.parametrize("command", [("estimate",), ("simulate", *SHORT)])
def test_a_design_of_a_run_is_the_design_that_was_scored(finished, hydra, monkeypatch, command):
    monkeypatch.chdir(finished)
    rows = (finished / "run" / "pareto.csv").read_text().splitlines()
    header, first = (row.split(",") for row in rows[:2])
    scored = dict(zip(header, first, strict=True))
    data = shape(
        hydra(command[0], f"run:{scored['design'][:6]}", "--workload", "workload.yaml", *command[1:], "--json")
    )
    assert data["provenance"]["identity"] == scored["design"]
    assert data["metrics"]["area_mm2"] == pytest.approx(float(scored["area_mm2"]), rel=1e-12)
    if command == ("estimate",):
        for name in ("saturation_tokens_per_s", "ttft_mean_s", "energy_j_per_token"):
            assert data["metrics"][name] == pytest.approx(float(scored[name]), rel=1e-9)


def test_the_highest_rate_is_printed_where_it_is_asked_for(hydra, inputs):
    words = ("estimate", "design.yaml", "--workload", "workload.yaml")
    assert "max_rate_requests_per_s" not in hydra(*words).out
    assert "max_rate_requests_per_s" in hydra(*words, "--max-rate").out


def test_the_highest_rate_of_a_workload_without_slo_is_refused(hydra, inputs):
    answer = hydra("estimate", "design.yaml", "--workload", "workload.yaml", "--set", "workload.slo={}", "--max-rate")
    assert answer.code == 2
    assert "states no SLO" in answer.err


def test_no_line_of_a_piped_table_ends_in_blanks(hydra, inputs):
    lines = hydra("estimate", *PAIR).out.splitlines()
    assert len(lines) > 10
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_key_without_effect_is_told_on_standard_error_alone(inputs, hydra):
    for command in (("estimate",), ("simulate", "--requests", "40", "--replications", "1")):
        answer = hydra(command[0], *PAIR, *command[1:], "--set", "design.policy.role_up_prompts=9", "--json")
        assert answer.code == 0
        assert answer.err == "note: policy: role_up_prompts: no effect without task_map: elastic\n"
        shape(answer)


def test_check_tells_keys_without_effect(tmp_path, hydra):
    file = tmp_path / "design.yaml"
    file.write_text(DESIGN.read_text().replace("policy: {", "policy: {host_bandwidth: 64 GB/s,", 1))
    answer = hydra("check", file)
    assert (answer.code, answer.out) == (0, f"{file}: no faults\n")
    assert answer.err == f"note: {file}: policy.host_bandwidth: no effect without host_cache\n"


def test_a_narrower_state_stands_beside_fp32_state(inputs, hydra):
    narrow = ("--set", "design.precision={state: bf16}")
    data = shape(hydra("estimate", *PAIR, *narrow, "--json"))
    full = shape(hydra("estimate", *PAIR, "--json"))
    assert data["with_fp32_state"] == full["metrics"]
    assert "with_fp32_state" not in full
    out = hydra("estimate", *PAIR, *narrow).out
    assert "state in bf16" in out and "state in fp32" in out and "accuracy is not predicted" in out


def test_an_explanation_shows_what_the_package_costs_and_how_hot_it_is(inputs, hydra):
    out = hydra("estimate", *PAIR, "--explain").out
    for part in ("Package by component", "unit cost", "non-recurring", "Temperature", "hottest DRAM"):
        assert part in out
