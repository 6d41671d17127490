"""Workload files as nouns: processes, lengths, classes, overrides, and every wrong input at its place."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hydra_dse.config import bundled, load_model, load_workload
from hydra_dse.config.loader import load_yaml
from hydra_dse.config.workloads import build_workload
from hydra_dse.errors import InputError
from hydra_dse.rng import derive
from hydra_dse.workload import (
    Deterministic,
    Diurnal,
    Empirical,
    Mmpp,
    Piecewise,
    Renewal,
    Replay,
    Slo,
    arrival_statistics,
    requests,
)

TRACE = "arrival_s,prompt_tokens,output_tokens\n0,10,20\n1,11,21\n4,12,22\n"
GOOD = "model: nemotron-h-8b\narrivals: {process: poisson, rate: 2 req/s}\nlengths: {prompt: 100, output: 20}\n"


@pytest.fixture
def file(tmp_path):
    def _file(text, name="w.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _file


def faults(path, *overrides):
    with pytest.raises(InputError) as caught:
        load_workload(path, overrides)
    return [str(fault).replace(f"{Path(path).parent}{os.sep}", "") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("arrivals", "expected"),
    [
        ("{process: deterministic, interval: 10 ms}", Deterministic(100.0)),
        ("{process: deterministic, rate: 5 req/s}", Deterministic(5.0)),
        ("{process: poisson, rate: 30 /min}", Renewal(0.5, 1.0)),
        ("{process: gamma, rate: 2 req/s, cv: 3}", Renewal(2.0, 3.0)),
        (
            "{process: mmpp, phases: [{rate: 4 req/s, duration: 10 s}, {rate: 1 req/s, duration: 1 min}]}",
            Mmpp((4.0, 1.0), (10.0, 60.0)),
        ),
        (
            "{process: piecewise, steps: [{rate: 4 req/s, duration: 10 s}, {rate: 0 req/s, duration: 1 min}]}",
            Piecewise((4.0, 0.0), (10.0, 60.0)),
        ),
        (
            "{process: diurnal, rate: 2 req/s, amplitude: 60 %, period: 24 h, phase: 6 h}",
            Diurnal(2.0, 0.6, 86400.0, 21600.0),
        ),
    ],
)
def test_each_process_is_read(file, arrivals, expected):
    path = file(f"model: nemotron-h-8b\narrivals: {arrivals}\nlengths: {{prompt: 1, output: 1}}\n")
    assert load_workload(path).arrivals == expected


def test_a_rate_rescales_an_mmpp_in_time(file):
    path = file(GOOD)
    workload = load_workload(
        path,
        [
            "arrivals.process=mmpp",
            "arrivals.phases=[{rate: 4 req/s, duration: 10 s}, {rate: 1 req/s, duration: 10 s}]",
            "arrivals.rate=5 req/s",
        ],
    )
    assert workload.arrivals == Mmpp((8.0, 2.0), (5.0, 5.0))


def test_classes_have_their_own_lengths_promises_and_models(file):
    path = file(
        "model: nemotron-h-8b\n"
        "arrivals: {process: poisson, rate: 2 req/s}\n"
        "slo: {ttft: 1 s}\n"
        "classes:\n"
        "- {name: a, share: 1, lengths: {prompt: 10, output: 20}, priority: 1}\n"
        "- {name: b, share: 3, lengths: azure-code, slo: {tpot: 50 ms, percentile: 99 %}, model: llama-3.1-8b}\n"
    )
    workload = load_workload(path)
    assert [kind.share for kind in workload.classes] == [0.25, 0.75]
    assert [kind.priority for kind in workload.classes] == [1, 0]
    assert workload.classes[0].slo == Slo(1.0, None, 0.9)
    assert workload.classes[1].slo == Slo(None, 0.05, 0.99)
    assert [workload.models[kind.model_index].name for kind in workload.classes] == ["nemotron-h-8b", "llama-3.1-8b"]


def test_shifts_are_read_by_class_name(file):
    path = file(
        "model: nemotron-h-8b\narrivals: {process: poisson, rate: 2 req/s}\nlengths: {prompt: 1, output: 1}\n"
        "classes: [{name: a}, {name: b}]\n"
        "shifts: [{at: 5 min, shares: {b: 1}, rate_factor: 2}]\ncycle: 10 min\n"
    )
    workload = load_workload(path)
    assert workload.shifts[0].shares == (0.0, 1.0)
    assert arrival_statistics(workload).rate_per_s == pytest.approx(3.0)


def test_empirical_lengths_come_from_rows_or_a_file(file):
    file("num_prefill_tokens,num_decode_tokens\n10,20\n11,21\n", "l.csv")
    path = file(GOOD.replace("{prompt: 100, output: 20}", "{path: l.csv}"))
    rows = file(GOOD.replace("{prompt: 100, output: 20}", "{rows: [[10, 20], [11, 21]]}"), "r.yaml")
    expected = Empirical(np.array([10, 11]), np.array([20, 21]))
    assert load_workload(path).classes[0].lengths == expected
    assert load_workload(rows).classes[0].lengths == expected


def test_a_lengths_file_beside_the_workload_is_read(file):
    file("name: mine\nprompt: 7\noutput: {mean: 50, cv: 0.5}\n", "lengths/mine.yaml")
    path = file(GOOD.replace("{prompt: 100, output: 20}", "lengths/mine.yaml"))
    assert load_workload(path).classes[0].lengths.prompt.tokens == 7


def test_a_trace_in_the_file_is_replayed_with_its_lengths(file):
    file(TRACE, "t.csv")
    path = file("model: nemotron-h-8b\narrivals: {trace: t.csv}\n")
    drawn = requests(load_workload(path), 3, derive(0))
    assert drawn.arrival_s.tolist() == [0.0, 1.0, 4.0]
    assert drawn.prompt_tokens.tolist() == [10, 11, 12]


def test_a_trace_can_give_arrivals_alone(file):
    file(TRACE, "t.csv")
    path = file(GOOD.replace("{process: poisson, rate: 2 req/s}", "{trace: t.csv, lengths: classes}"))
    workload = load_workload(path)
    assert workload.replay is None
    assert set(requests(workload, 3, derive(0)).prompt_tokens.tolist()) == {100}


def test_a_trace_with_named_columns_and_a_rate_is_rescaled(file):
    file("when,in,out\n0,1,1\n1000,1,1\n", "t.csv")
    columns = "{arrival: when, prompt: in, output: out, time_unit: ms}"
    path = file(f"model: nemotron-h-8b\narrivals: {{trace: t.csv, rate: 4 req/s, columns: {columns}}}\n")
    assert load_workload(path).arrivals.rate_per_s == pytest.approx(4.0)


def test_a_trace_on_the_command_line_replaces_the_named_process(tmp_path, file, monkeypatch):
    file(TRACE, "elsewhere/t.csv")
    monkeypatch.chdir(tmp_path)
    workload = load_workload("azure-conversation", ["arrivals.trace=elsewhere/t.csv"])
    assert isinstance(workload.arrivals, Replay)
    assert workload.arrivals.rate_per_s == pytest.approx(0.5)
    assert len(workload.replay) == 3
    assert (workload.name, workload.source) == ("t", "")
    named = load_workload("azure-conversation", ["arrivals.trace=elsewhere/t.csv", "name=mine"])
    assert named.name == "mine"
    rescaled = load_workload("azure-conversation", ["arrivals.trace=elsewhere/t.csv", "arrivals.rate=2 req/s"])
    assert rescaled.arrivals.rate_per_s == pytest.approx(2.0)


def test_a_rate_on_the_command_line_replaces_an_interval_and_the_other_way_round(file):
    by_interval = file(GOOD.replace("{process: poisson, rate: 2 req/s}", "{process: deterministic, interval: 10 ms}"))
    assert load_workload(by_interval, ["arrivals.rate=4/s"]).arrivals == Deterministic(4.0)
    by_rate = file(GOOD.replace("poisson", "deterministic"), "r.yaml")
    assert load_workload(by_rate, ["arrivals.interval=1 s"]).arrivals == Deterministic(1.0)
    [both] = faults(by_rate, "arrivals.interval=1 s", "arrivals.rate=4/s")
    assert "give either rate or interval" in both


def test_an_override_changes_one_value_and_leaves_the_file_alone(file):
    path = file(GOOD)
    before = path.read_bytes()
    assert load_workload(path, ["arrivals.rate=9 req/s"]).arrivals == Renewal(9.0)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD.replace("poisson", "poison"), "w.yaml:2:21: arrivals.process: 'poison' is not accepted; expected"),
        (GOOD.replace("process: poisson, ", ""), "w.yaml:2:11: arrivals.process: missing key 'process'; accepted"),
        (GOOD.replace("2 req/s", "2"), "w.yaml:2:36: arrivals.rate: 2 has no unit; write a number with 'req/s'"),
        (GOOD.replace("2 req/s", "2 GB"), "w.yaml:2:36: arrivals.rate: '2 GB' is a size in bytes, but a rate of"),
        (GOOD.replace("2 req/s", "-2 req/s"), "w.yaml:2:36: arrivals.rate: '-2 req/s' is negative"),
        (GOOD.replace("2 req/s", "0 req/s"), "w.yaml:2:36: arrivals.rate: must be more than 0"),
        (GOOD.replace("rate:", "rat:"), "w.yaml:2:30: arrivals.rat: unknown key 'rat' (did you mean 'rate'?)"),
        (GOOD.replace("nemotron-h-8b", "nemotron-h-8"), "w.yaml:1:8: model: no bundled model called 'nemotron-h-8' ("),
        (GOOD.replace("nemotron-h-8b", "x/config.json"), "w.yaml:1:8: model: 'x/config.json': no such file"),
        (GOOD.replace("nemotron-h-8b", "../config.json"), "w.yaml:1:8: model: '../config.json' leaves the folder"),
        (GOOD.replace("nemotron-h-8b", "/etc/passwd"), "w.yaml:1:8: model: '/etc/passwd' leaves the folder"),
        (GOOD.replace("prompt: 100", "prompt: 0"), "w.yaml:3:19: lengths.prompt: must be at least 1, got 0"),
        (GOOD.replace("prompt: 100", "prompt: 1.5"), "w.yaml:3:19: lengths.prompt: expected a whole number, got 1.5"),
        (
            GOOD.replace("prompt: 100", "prompt: {mean: 100}"),
            "w.yaml:3:19: lengths.prompt.cv: missing key 'cv'",
        ),
        (
            GOOD.replace("prompt: 100", "prompt: {mean: 100, cv: 9, maximum: 150}"),
            "w.yaml:3:19: lengths.prompt: no lognormal between 1 and 150 tokens has mean 100 and cv 9",
        ),
        (
            GOOD.replace("prompt: 100", "prompt: {quantiles: {min: 1, median: 5, max: 9}}"),
            "w.yaml:3:31: lengths.prompt.quantiles: 'median' is not a percentile; expected min, max, or p50",
        ),
        (
            GOOD.replace("prompt: 100", "prompt: {mean: 50, quantiles: {min: 1, p50: 5, max: 9}}"),
            "w.yaml:3:19: lengths.prompt: the mean must lie between 3 and 7 for these quantiles, got 50",
        ),
        (GOOD.replace("{prompt: 100, output: 20}", "azure-cod"), "w.yaml:3:10: lengths: no bundled length called"),
        (GOOD[: GOOD.index("lengths")], "w.yaml:1:1: lengths: missing key 'lengths'; give lengths, or classes"),
        (GOOD[GOOD.index("arr") :], "w.yaml:1:1: model: missing key 'model'; give a bundled name or a config.json"),
        (GOOD + "slo: {ttft: 0 s}\n", "w.yaml:4:13: slo.ttft: must be more than 0"),
        (GOOD + "slo: {percentile: 1.5}\n", "w.yaml:4:19: slo.percentile: must be at most 1, got 1.5"),
        (GOOD + "classes: [{name: a}, {name: a}]\n", "w.yaml:4:10: classes: two classes share a name; got a, a"),
        (GOOD + "classes: [{name: a, share: -1}]\n", "w.yaml:4:28: classes[0].share: must be at least 0, got -1"),
        (GOOD + "classes: [{name: a, share: 0}]\n", "w.yaml:4:10: classes: the shares sum to 0"),
        (GOOD + "shifts: [{at: 1 s, shares: {x: 1}}]\n", "w.yaml:4:9: shifts: no class called 'x'; classes: none"),
        (GOOD + "shifts: [{at: 9 s}, {at: 1 s}]\n", "w.yaml:4:9: shifts: shifts must ascend in time"),
        (GOOD + "model: x\n", "w.yaml:4:1: model: duplicate key 'model' (first at line 1, column 1)"),
        (
            "model: nemotron-h-8b\narrivals: {trace: none.csv}\n",
            "w.yaml:2:19: arrivals.trace: 'none.csv': no such file",
        ),
        ("model: nemotron-h-8b\narrivals: {trace: ../t.csv}\n", "w.yaml:2:19: arrivals.trace: '../t.csv' leaves the"),
        (
            "model: nemotron-h-8b\narrivals: {process: mmpp, phases: []}\n",
            "w.yaml:2:35: arrivals.phases: needs at least",
        ),
        (
            "model: nemotron-h-8b\narrivals: {process: deterministic}\nlengths: azure-code\n",
            "w.yaml:2:11: arrivals.rate: give either rate or interval",
        ),
        ("model: nemotron-h-8b\narrivals: 3\nlengths: azure-code\n", "w.yaml:2:11: arrivals"),
    ],
)
def test_a_wrong_workload_is_refused_with_line_column_key_and_value(file, text, expected):
    path = file(text)
    before = path.read_bytes()
    found = faults(path)
    assert any(fault.startswith(expected) for fault in found), found
    assert path.read_bytes() == before


def test_faults_of_all_files_are_reported_together(file):
    file(TRACE.replace("1,11,21", "1,0,21"), "t.csv")
    found = faults(file("model: nemotron\narrivals: {trace: t.csv}\n"))
    assert any(fault.startswith("t.csv:3: prompt_tokens: '0'") for fault in found)
    assert any(fault.startswith("w.yaml:1:8: model:") for fault in found)


def test_a_fault_of_an_override_names_the_override(file):
    assert faults(file(GOOD), "arrivals.rate=2 GB")[0].startswith(
        "--set arrivals.rate: arrivals.rate: '2 GB' is a size"
    )
    assert faults(file(GOOD), "arrivals.trace=none.csv")[0].startswith("--set arrivals.trace: arrivals.trace:")
    assert faults(file(GOOD), "arival.rate=2 req/s")[0].startswith(
        "--set arival.rate: arival: unknown key 'arival' (did"
    )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("rate", "is not an override; write key.subkey=value"),
        ("=3", "is not an override"),
        ("a..b=3", "is not an override"),
        ("arrivals.rate.x=3", "which has no key 'x'"),
        ("arrivals.rate=[1", "not valid YAML"),
    ],
)
def test_a_malformed_override_is_refused(file, override, words):
    assert words in faults(file(GOOD), override)[0]


def test_a_folder_of_servegen_clients_is_a_trace(tmp_path, file):
    file("0,2.0,1.0,Gamma,1.0,0.5\n", "clients/chunk-0-trace.csv")
    file('{"0": {"input_tokens": {"5": 1}, "output_tokens": {"7": 1}}}', "clients/chunk-0-dataset.json")
    workload = load_workload(file("model: nemotron-h-8b\narrivals: {trace: clients}\n"))
    assert set(workload.replay.output_tokens.tolist()) == {7}


def test_workloads_are_hashable_and_equal_by_content(file):
    file(TRACE, "t.csv")
    path = file("model: nemotron-h-8b\narrivals: {trace: t.csv}\n")
    assert load_workload(path) == load_workload(path)
    assert len({load_workload(path), load_workload(path), load_workload("hydra-mix")}) == 2


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path, file):
    file(TRACE, "outside/t.csv")
    path = file("model: nemotron-h-8b\narrivals: {trace: t.csv}\n", "inside/w.yaml")
    (tmp_path / "inside" / "t.csv").symlink_to(tmp_path / "outside" / "t.csv")
    assert "leaves the folder" in faults(path)[0]


def test_a_link_inside_the_folder_is_followed(tmp_path, file):
    file(TRACE, "data/t.csv")
    path = file("model: nemotron-h-8b\narrivals: {trace: t.csv}\n")
    (tmp_path / "t.csv").symlink_to(tmp_path / "data" / "t.csv")
    assert len(load_workload(path).replay) == 3


def test_a_workload_reached_through_a_link_reads_files_beside_the_link_target_or_not_at_all(tmp_path, file):
    file(TRACE, "real/t.csv")
    file("model: nemotron-h-8b\narrivals: {trace: t.csv}\n", "real/w.yaml")
    (tmp_path / "alias").symlink_to(tmp_path / "real", target_is_directory=True)
    assert len(load_workload(tmp_path / "alias" / "w.yaml").replay) == 3


@pytest.mark.parametrize("name", bundled("workloads"))
def test_every_bundled_workload_loads_and_tells_its_source(name):
    workload = load_workload(name)
    assert workload.name == name
    assert workload.source
    drawn = requests(workload, 50, derive(1, name))
    assert min(drawn.prompt_tokens.min(), drawn.output_tokens.min()) >= 1


@pytest.mark.parametrize("name", bundled("workloads"))
def test_plain_data_of_a_workload_loads_to_the_same_workload(name, tmp_path):
    loaded = build_workload(load_yaml(Path(__file__).parents[2] / "workloads" / f"{name}.yaml"), name)
    path = tmp_path / "plain.yaml"
    path.write_text(yaml.safe_dump(loaded.plain, sort_keys=False))
    again = build_workload(load_yaml(path), "other")
    assert again.workload == loaded.workload
    assert again.plain == loaded.plain


def test_the_published_statistics_of_azure_are_shipped():
    conversation, code = (arrival_statistics(load_workload(f"azure-{name}")) for name in ("conversation", "code"))
    assert (conversation.rate_per_s, conversation.cv) == (5.53, 1.094)
    assert code.rate_per_s == pytest.approx(2.567, abs=0.001)
    assert code.cv == pytest.approx(13.15, abs=0.01)


def test_a_model_is_found_by_name_file_and_folder(tmp_path):
    source = Path(__file__).parents[2] / "workloads" / "models" / "nemotron-h-8b.json"
    shutil.copy(source, tmp_path / "config.json")
    named = load_model("nemotron-h-8b")
    assert load_model(tmp_path / "config.json").blocks == named.blocks
    assert load_model(tmp_path).blocks == named.blocks
    with pytest.raises(InputError, match="did you mean 'nemotron-h-8b'"):
        load_model("nemotron-h-8")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=12), st.integers(0, 140), st.integers(0, 12))
def test_a_mutated_workload_gives_a_workload_or_an_input_error(tmp_path, junk, position, removed):
    path = tmp_path / "w.yaml"
    path.write_text(GOOD[:position] + junk + GOOD[position + removed :])
    try:
        assert load_workload(path).classes
    except InputError as error:
        assert error.faults
