"""Bundles: what is in them, that they are made again to the byte, and that writing them changes no result."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundles import ONE_DIE, SMALL, written

from hydra_dse.bundle.metrics import evaluate, measure
from hydra_dse.bundle.reading.check import check_folder
from hydra_dse.bundle.writing import (
    TIMELINE_FILE,
    TraceSink,
    check_traces,
    events_of,
    parse_window,
    rank_file,
    sha256,
)
from hydra_dse.bundle.writing import names as our_names
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.errors import InputError
from hydra_dse.model.counts import total_parameters
from hydra_dse.studies.bundles import simulation_of, told
from hydra_dse.studies.records import ParquetRecords
from hydra_dse.workload import served
from simulators.serving import ServingSimulator

Event = dict[str, Any]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One bundle of 18 dies."""
    folder = tmp_path_factory.mktemp("bundles") / "small"
    written(folder, compress=True)
    return folder


def _card(folder: Path) -> dict[str, Any]:
    card = yaml.safe_load((folder / f"{folder.name}.yaml").read_text())
    assert isinstance(card, dict)
    return card


def _of(folder: Path, category: str, file: str = rank_file(0)) -> list[Event]:
    return [event for event in events_of(folder / file) if event.get("cat") == category]


def test_a_bundle_holds_card_traces_script_and_metrics(bundle: Path) -> None:
    ranks = {rank_file(rank) for rank in range(18)}
    names = {path.name for path in bundle.iterdir()}
    assert names == {
        "small.yaml", "run.sh", "metrics.json", "arrivals.csv", "timeline", "logs",
        *ranks, *(f"{name}.gz" for name in ranks),
    }  # fmt: skip


@pytest.mark.slow
def test_every_row_of_a_kineto_trace_is_met_and_the_latency_file_gives_mfu(bundle: Path) -> None:
    """A batch of B requests of S tokens, T seconds in service: by Little's law a share of peak of B S / T tokens/s."""
    kept = {"ok", "not applicable"}
    assert {each.rule.name: each.status for each in check_folder(bundle) if each.status not in kept} == {}
    found, card = json.loads((bundle / "metrics.json").read_text())["metrics"], _card(bundle)
    [latency] = bundle.rglob("*.latency.json")
    seconds = json.loads(latency.read_text())["avg_latency"]
    assert found["ttft_scheduled_mean_s"] < seconds <= found["e2e_mean_s"]
    model, data = card["workload"]["model"]["model_arch"], card["workload"]["data"]
    length, batch = data["seq_len"], data["batch_size"]
    scores = 4 * model["num_layers"] * model["num_heads"] * model["head_dim"] * length
    flops = (2 * (model["num_params_active"] - model["num_params_embedding"]) + scores) * batch * length
    peak = card["x_chiplet"]["peak_flops_per_s"]
    assert evaluate(measure(bundle)).values["mfu"] == pytest.approx(100 * flops / (seconds * peak), rel=1e-9)


def test_the_traces_have_every_field_that_the_original_tools_need(bundle: Path) -> None:
    assert check_traces(bundle) == []


def test_a_trace_is_one_json_object(bundle: Path) -> None:
    data = json.loads((bundle / rank_file(3)).read_text())
    assert data["displayTimeUnit"] == "ms" and data["schemaVersion"] == 1
    assert data["distributedInfo"] == {"backend": "nccl", "rank": 3, "world_size": 18}
    assert len(data["traceEvents"]) == len(list(events_of(bundle / rank_file(3))))


def test_the_first_marker_of_a_prefill_rank_is_a_prefill_and_each_engine_has_its_four(bundle: Path) -> None:
    steps = _of(bundle, "user_annotation")
    assert steps[0]["name"] == "execute_context_0" and steps[0]["args"]["prefill_tokens"] > 0
    for rank in range(18):
        assert len(_of(bundle, "user_annotation", rank_file(rank))) == 4


def test_segments_of_the_iterations_add_up_to_their_time(bundle: Path) -> None:
    segments: dict[int, float] = {}
    for event in _of(bundle, our_names.SEGMENT):
        number = event["args"]["iteration"]
        segments[number] = segments.get(number, 0.0) + event["dur"]
    whole = {
        int(event["name"].rsplit("_", 1)[1]): event["dur"]
        for event in _of(bundle, our_names.OPERATOR)
        if event["name"].startswith("execute_context_")
    }
    assert segments.keys() == whole.keys() and len(whole) == 8
    for number, time_us in whole.items():
        # Each segment is rounded to a nanosecond; there are about a thousand of them.
        assert segments[number] == pytest.approx(time_us, abs=2.0)


def test_memories_carry_the_weights_once_a_decode_step(bundle: Path) -> None:
    """A decode step reads every weight but those of the embedding, which are looked up, and of the resident share."""
    card = _card(bundle)
    steps = [event for event in _of(bundle, our_names.OPERATOR) if event["name"].startswith("execute_context_")]
    decode = next(event for event in steps if event["args"]["decode_sequences"] and not event["args"]["prefill_tokens"])
    start, end = decode["ts"], decode["ts"] + decode["dur"]
    lane = [event for event in _of(bundle, "memory") if start <= event["ts"] and event["ts"] + event["dur"] <= end]
    tracks = {event["tid"] for event in lane}
    moved = sum(event["args"]["bytes"] for event in lane)
    [kind] = served(SMALL.pair[1])
    weights = 2.0 * (total_parameters(kind.model) - card["workload"]["model"]["model_arch"]["num_params_embedding"] / 2)
    assert len(tracks) >= 6
    assert moved > 0.9 * weights
    assert all(event["args"]["bytes"] <= event["args"]["peak_bytes_per_s"] * event["dur"] * 1.0001e-6 + 1e6
               for event in lane)  # fmt: skip


def test_links_and_memories_never_carry_more_than_they_can(bundle: Path) -> None:
    for kind in ("link", "memory"):
        for event in _of(bundle, kind):
            assert event["args"]["busy_us"] <= event["dur"] * 1.0001 + 0.002


def test_collectives_are_on_all_their_ranks_at_the_same_time(bundle: Path) -> None:
    found: dict[int, list[Event]] = {}
    for event in _of(bundle, "kernel", TIMELINE_FILE):
        if event["name"].startswith("ncclDevKernel_"):
            found.setdefault(event["args"]["External id"], []).append(event)
    assert found
    for events in found.values():
        assert sorted(event["pid"] for event in events) == json.loads(events[0]["args"]["Process Group Ranks"])
        assert len({(event["ts"], event["dur"]) for event in events}) == 1


def test_the_power_counter_is_static_power_plus_what_runs(bundle: Path) -> None:
    levels = [event["args"] for event in events_of(bundle / rank_file(0)) if event["name"] == "power"]
    metrics = json.loads((bundle / "metrics.json").read_text())["metrics"]
    assert min(sum(level.values()) for level in levels) == pytest.approx(levels[0]["static"])
    assert max(sum(level.values()) for level in levels) > metrics["power_w"] > levels[0]["static"]


def test_a_request_flows_to_the_iteration_with_its_first_token(bundle: Path) -> None:
    events = list(events_of(bundle / rank_file(0)))
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and starts
    tokens = {
        event["args"]["request"]: event["ts"]
        for event in events
        if event["ph"] == "i" and event["name"] == "first_token"
    }
    steps = [event for event in events if event["ph"] == "X" and event["name"].startswith("execute_context_")]
    for request, end in ends.items():
        step = next(each for each in steps if each["ts"] == end["ts"] and each["pid"] == end["pid"])
        assert step["ts"] + step["dur"] == pytest.approx(tokens[request], abs=2e-3)


def test_writing_a_bundle_changes_no_result(bundle: Path) -> None:
    metrics = json.loads((bundle / "metrics.json").read_text())["metrics"]
    plain = SMALL.evaluate()
    assert metrics == dict(plain.metrics)


def test_card_and_metrics_name_the_digest_of_the_traces(bundle: Path) -> None:
    block = _card(bundle)["x_chiplet"]
    assert block["traces"] and all(sha256(bundle / each["file"]) == each["sha256"] for each in block["traces"])
    assert json.loads((bundle / "metrics.json").read_text())["trace_sha256"] == block["trace_sha256"]
    assert block["run_script"]["sha256"] == sha256(bundle / "run.sh")
    assert gzip.decompress((bundle / "rank0_trace.json.gz").read_bytes()) == (bundle / "rank0_trace.json").read_bytes()


def test_the_card_multiplies_to_its_devices_and_counts_all_requests(bundle: Path) -> None:
    card = _card(bundle)
    plan = card["Model-executor"]["model_plan_parallelization"]
    ways = math.prod(plan[key] for key in ("dp_replicate", "dp_shard", "tp", "pp", "cp"))
    assert ways == card["workload"]["hardware"]["xpu_spec"]["total_count"] == 18
    assert card["x_chiplet"]["unit_of_work"]["requests"] == 20
    assert card["workload"]["model"]["phase"] == "inference"


def test_the_simulation_of_a_card_is_the_one_that_wrote_it(bundle: Path) -> None:
    assert simulation_of(_card(bundle)["x_chiplet"], "card") == SMALL


@pytest.mark.slow
def test_the_launch_script_makes_the_same_traces(bundle: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    environment = {**os.environ, "HYDRA_DSE": f"{sys.executable} -m hydra_dse"}
    subprocess.run([str(bundle / "run.sh"), str(again)], check=True, env=environment, capture_output=True)
    assert _card(again)["x_chiplet"]["trace_sha256"] == _card(bundle)["x_chiplet"]["trace_sha256"]


@pytest.mark.slow
def test_iterations_executed_by_operators_are_traced_as_they_were(tmp_path: Path) -> None:
    options = EvaluationOptions(requests=10, replications=1, saturate=False, detail="operators")
    run = replace(ONE_DIE, overrides=(*ONE_DIE.overrides, "workload.lengths={prompt: 64, output: 12}"))
    (placed, _), workload = run.placed, run.pair[1]
    sink = TraceSink(tmp_path, parse_window("4"))
    with_it, without = (
        ServingSimulator().evaluate([placed], workload, run.rates, options, 0, each)[0] for each in (sink, None)
    )
    sink.close()
    assert check_traces(tmp_path) == []
    steps = _of(tmp_path, "user_annotation")
    assert len(steps) == 4 and {event["args"]["stretch"] for event in steps} == {1.0}
    assert with_it.metrics == without.metrics


@pytest.mark.slow
def test_batches_in_flight_on_the_same_dies_nest(tmp_path: Path) -> None:
    overrides = (*ONE_DIE.overrides, "design.policy.batches_in_flight=2")
    written(tmp_path / "two", replace(ONE_DIE, overrides=overrides, requests=20))
    assert check_traces(tmp_path / "two") == []
    assert {event["args"]["engine"] for event in _of(tmp_path / "two", "user_annotation")} == {0, 1}


def test_replaying_exported_arrivals_reproduces_the_run_to_the_byte(tmp_path: Path) -> None:
    """The replay keeps the gap before the first request; saturation has requests of its own, drawn from the record."""
    sampled = written(tmp_path / "sampled", ONE_DIE)
    overrides = (f"workload.arrivals={{trace: {tmp_path / 'sampled' / 'arrivals.csv'}, keep_start: true}}",)
    replayed = written(tmp_path / "replayed", replace(ONE_DIE, overrides=overrides))
    for file in ("arrivals.csv", rank_file(0), TIMELINE_FILE):
        assert (tmp_path / "sampled" / file).read_bytes() == (tmp_path / "replayed" / file).read_bytes()
    own = ("saturation_", "load", "throughput_per_")
    differing = [
        name for name, value in sampled.metrics.items() if replayed.metrics[name] != value and not name.startswith(own)
    ]
    assert differing == []


@pytest.mark.slow
def test_the_records_of_a_replay_are_those_of_the_run_to_the_byte(tmp_path: Path) -> None:
    written(tmp_path / "sampled", SMALL)
    overrides = (f"workload.arrivals={{trace: {tmp_path / 'sampled' / 'arrivals.csv'}, keep_start: true}}",)
    for name, run in (("one", SMALL), ("two", replace(SMALL, overrides=overrides))):
        with ParquetRecords(tmp_path / name, ["all"], {}) as sink:
            run.evaluate(sink)
    for file in ("visits.parquet", "iterations.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


@pytest.mark.slow
def test_a_mix_of_classes_is_replayed_to_the_byte_and_the_card_says_what_arrivals_lack(tmp_path: Path) -> None:
    run = replace(ONE_DIE, workload="hydra-mix")
    written(tmp_path / "mix", run)
    overrides = (f"workload.arrivals={{trace: {tmp_path / 'mix' / 'arrivals.csv'}, keep_start: true}}",)
    written(tmp_path / "again", replace(run, overrides=overrides))
    cards = [_card(tmp_path / name)["x_chiplet"] for name in ("mix", "again")]
    assert cards[0]["traces"] == cards[1]["traces"] and cards[0]["unit_of_work"] == cards[1]["unit_of_work"]
    assert "arrivals_lack" not in cards[0]
    written(tmp_path / "sessions", replace(ONE_DIE, workload="tool-sessions", requests=16))
    assert _card(tmp_path / "sessions")["x_chiplet"]["arrivals_lack"] == ["shared prefixes", "sessions"]


@pytest.mark.slow
def test_a_window_closes_when_its_traces_are_large_but_not_before_tools_can_read_them(tmp_path: Path) -> None:
    for name, limit in (("large", "1 GB"), ("small", "100 kB")):
        written(tmp_path / name, ONE_DIE, "12", limit=limit)
    steps = {name: len(_of(tmp_path / name, "user_annotation")) for name in ("large", "small")}
    assert steps == {"large": 12, "small": 4}
    assert [_card(tmp_path / name)["x_chiplet"]["window"]["cut"] for name in steps] == [False, True]


@pytest.mark.slow
def test_a_replay_that_does_not_keep_its_start_begins_with_its_first_request(tmp_path: Path) -> None:
    sampled = written(tmp_path / "sampled", ONE_DIE)
    overrides = (f"workload.arrivals.trace={tmp_path / 'sampled' / 'arrivals.csv'}",)
    replayed = written(tmp_path / "replayed", replace(ONE_DIE, overrides=overrides))
    assert (tmp_path / "replayed" / "arrivals.csv").read_text().splitlines()[1].startswith("0.0,")
    for name in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
        assert replayed.metrics[name] == pytest.approx(sampled.metrics[name], rel=1e-9)


@pytest.mark.slow
def test_a_window_of_seconds_bounds_the_trace(tmp_path: Path) -> None:
    written(tmp_path / "short", ONE_DIE, "0.5s:0.1s")
    steps = _of(tmp_path / "short", "user_annotation")
    assert steps[0]["ts"] >= 0.5e6 and steps[-1]["ts"] < steps[0]["ts"] + 0.1e6


def test_an_infeasible_design_leaves_a_card_and_no_traces(tmp_path: Path) -> None:
    run = replace(ONE_DIE, model="nemotron-h-56b")
    found = written(tmp_path / "none", run)
    assert not found.feasible
    assert not list((tmp_path / "none").glob("rank*")) and _card(tmp_path / "none")["x_chiplet"]["trace_sha256"] is None


@pytest.mark.slow
def test_a_bundle_written_anew_keeps_no_traces_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "again" / "timeline").mkdir(parents=True)
    for stale in ("again.yaml", "rank7_trace.json", "rank7_trace.json.gz", f"{TIMELINE_FILE}.gz"):
        (tmp_path / "again" / stale).touch()
    (tmp_path / "again" / "again.yaml").write_text("x_chiplet: {run: {}}\n")
    written(tmp_path / "again", replace(ONE_DIE, requests=16))
    traces = sorted(path.name for path in (tmp_path / "again").rglob("*trace.json*"))
    assert traces == ["package_trace.json", rank_file(0)]


def test_a_folder_that_is_no_bundle_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="no card"):
        written(tmp_path, ONE_DIE)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("text", ["", "x", "3", "1:2:3", "0s", "-4", "1e400s", "5:2", "nans"])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--trace-window"):
        parse_window(text)


def test_a_task_map_that_moves_dies_leaves_a_bundle_without_traces_that_says_why(tmp_path: Path) -> None:
    run = replace(SMALL, overrides=(*SMALL.overrides, "design.policy.task_map=elastic"))
    assert written(tmp_path / "elastic", run).feasible
    assert "without traces: task_map: elastic moves dies" in told(tmp_path / "elastic")
    assert {path.name for path in (tmp_path / "elastic").iterdir()} == {
        "elastic.yaml", "run.sh", "metrics.json", "arrivals.csv", "logs"
    }  # fmt: skip
    assert len((tmp_path / "elastic" / "arrivals.csv").read_text().splitlines()) == 1 + run.requests


@pytest.mark.slow
def test_the_check_finds_what_is_broken(bundle: Path, tmp_path: Path) -> None:
    for rank in range(18):
        (tmp_path / rank_file(rank)).write_bytes((bundle / rank_file(rank)).read_bytes())
    lines = (tmp_path / rank_file(2)).read_text().splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if "ncclDevKernel_" in line)
    lines[at] = lines[at].replace('"dtype":"BFloat16"', '"dtype":"bf"')
    gone = next(number for number in range(at + 1, len(lines)) if "ncclDevKernel_" in lines[number])
    number = json.loads(lines.pop(gone).rstrip(",\n"))["args"]["External id"]
    (tmp_path / rank_file(2)).write_text("".join(lines))
    faults = [str(fault) for fault in check_traces(tmp_path)]
    assert any("dtype" in fault and f":{at + 1}" in fault for fault in faults)
    assert any(f"collective {number} of ranks" in fault for fault in faults)


def _levels(folder: Path, name: str) -> list[tuple[float, float]]:
    events = (event for event in events_of(folder / rank_file(0)) if event["ph"] == "C" and event["name"] == name)
    return [(event["ts"], sum(event["args"].values())) for event in events]


def _mean_level(levels: list[tuple[float, float]], start: float, end: float) -> float:
    edges = [(max(start, min(end, at)), value) for at, value in levels] + [(end, 0.0)]
    parts = (value * (after - at) for (at, value), (after, _) in itertools.pairwise(edges))
    return math.fsum(parts) / (end - start)


@pytest.mark.slow
def test_engines_that_have_had_their_share_go_on_in_the_counters(bundle: Path, tmp_path: Path) -> None:
    """The decode pool runs its 4 iterations in a fraction of those of the prefill pool, and draws power after them.

    A longer window traces more of the same iterations, so power and tokens must be the same at all instants.
    """
    written(tmp_path / "long", window="8")
    window, longer = (_card(folder)["x_chiplet"]["window"] for folder in (bundle, tmp_path / "long"))
    assert window["start_s"] == longer["start_s"] and longer["whole_s"][1] > window["whole_s"][1]
    start, end = window["start_s"] * 1e6, window["end_s"] * 1e6
    assert window["whole_s"][1] < 0.5 * (window["start_s"] + window["end_s"])
    for name in ("power", "output_tokens"):
        short, long = (_levels(folder, name) for folder in (bundle, tmp_path / "long"))
        assert _mean_level(short, start, end) == pytest.approx(_mean_level(long, start, end), rel=1e-5)
    assert short[-1][1] > window["output_tokens"]


def test_the_energy_of_the_counters_is_that_of_the_iterations(bundle: Path) -> None:
    """While every engine left its spans: static power, and the energy of the iterations by their share in that time."""
    card = _card(bundle)["x_chiplet"]["window"]
    start, end = (time * 1e6 for time in card["whole_s"])
    steps = [e for e in _of(bundle, our_names.OPERATOR) if e["name"].startswith("execute_context")]
    dynamic = 0.0
    for step in steps:
        inside = min(end, step["ts"] + step["dur"]) - max(start, step["ts"])
        dynamic += step["args"]["energy_j"] * max(0.0, inside / step["dur"])
    levels = _levels(bundle, "power")
    static = next(e["args"]["static"] for e in events_of(bundle / rank_file(0)) if e["name"] == "power")
    assert _mean_level(levels, start, end) == pytest.approx(static + dynamic / ((end - start) / 1e6), rel=1e-6)


def test_a_bundle_of_others_is_not_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    files = {folder / "theirs.yaml": "version: 1\nx_chiplet: {slo: {ttft_s: 1.0}}\n", folder / rank_file(0): "{}"}
    for file, text in files.items():
        file.write_text(text)
    with pytest.raises(InputError, match="not written by hydra-dse simulate"):
        written(folder, ONE_DIE)
    assert {file: file.read_text() for file in folder.iterdir()} == files


def test_a_window_that_no_iteration_begins_in_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    written(folder, ONE_DIE, window="1000s:1s")
    assert "without iterations" in told(folder)
