"""Experiments: what is stored loads to the same experiment, and every wrong input is named at its place."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hydra_dse.config import bundled, load_comparison, load_experiment, load_variance
from hydra_dse.config.check import kind_of
from hydra_dse.config.loader import load_yaml
from hydra_dse.design.experiment import Bound, SearchSettings, ValidationSettings
from hydra_dse.errors import InputError
from hydra_dse.rng import derive
from hydra_dse.workload import arrival_statistics, requests

ROOT = Path(__file__).resolve().parents[2]
TRACE = "arrival_s,prompt_tokens,output_tokens\n" + "".join(f"{i * 0.5},{10 + i},{20 + i}\n" for i in range(40))
GOOD = (
    "name: small\n"
    "model: nemotron-h-8b\n"
    "workload: azure-conversation\n"
    "space: small-9\n"
    "objectives: [saturation_tokens_per_s, ttft_mean_s]\n"
)


@pytest.fixture
def file(tmp_path):
    def _file(text, name="e.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _file


def store(experiment, folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "experiment.yaml"
    path.write_text(yaml.safe_dump(dict(experiment.resolved), sort_keys=False, allow_unicode=True, width=120))
    return path


def faults(path, *overrides):
    with pytest.raises(InputError) as caught:
        load_experiment(path, overrides)
    return [str(fault).replace(f"{Path(path).parent}{os.sep}", "") for fault in caught.value.faults]


def assert_same(first, second):
    assert second.name == first.name
    assert second.workload == first.workload
    assert second.objectives == first.objectives
    assert second.bounds == first.bounds
    assert (second.search, second.validation) == (first.search, first.validation)
    assert second.calibration == first.calibration
    assert second.resolved == first.resolved
    assert second.inputs == first.inputs
    assert second.space.parameters == first.space.parameters
    one, two = (requests(experiment.workload, 30, derive(1)) for experiment in (first, second))
    assert (one.arrival_s == two.arrival_s).all()
    assert (one.prompt_tokens == two.prompt_tokens).all()
    point = next(iter(first.space.points()))
    assert second.space.build(point) == first.space.build(point)


def test_defaults_are_those_of_the_nouns(file):
    experiment = load_experiment(file(GOOD))
    assert experiment.search == SearchSettings()
    assert experiment.validation == ValidationSettings()
    assert experiment.calibration is not None
    assert experiment.bounds == ()


def test_settings_of_the_file_are_read(file):
    experiment = load_experiment(
        file(
            GOOD + "constraints: [{metric: load, at_most: 0.95}, {metric: slo_attainment, at_least: 0.9}]\n"
            "search: {sampler: tpe, trials: 100, population: 10, seed: 7}\n"
            "validation: {top: 3, requests: 500, replications: 2, warmup_share: 20 %}\nrate: 3 req/s\n"
        )
    )
    assert experiment.bounds == (Bound("load", 0.95, None), Bound("slo_attainment", None, 0.9))
    assert experiment.search == SearchSettings("tpe", 100, 10, 7)
    assert experiment.validation == ValidationSettings(3, 500, 2, 0.2)
    assert arrival_statistics(experiment.workload).rate_per_s == pytest.approx(3.0)


def test_the_model_of_the_experiment_replaces_that_of_the_workload(file):
    experiment = load_experiment(file(GOOD.replace("nemotron-h-8b", "llama-3.1-8b")))
    assert [model.name for model in experiment.workload.models] == ["llama-3.1-8b"]
    mix = load_experiment(file(GOOD.replace("azure-conversation", "hydra-mix")))
    assert [model.name for model in mix.workload.models] == ["nemotron-h-8b"]


@pytest.mark.parametrize("name", bundled("experiments"))
def test_every_bundled_experiment_loads_and_tells_purpose_source_and_run_time(name):
    header = (ROOT / "experiments" / f"{name}.yaml").read_text().split("\nname:")[0].lower()
    assert all(word in header for word in ("purpose:", "source:", "run time:"))
    loaders = {"comparison": load_comparison, "decomposition": load_variance}
    load = loaders.get(kind_of(load_yaml(ROOT / "experiments" / f"{name}.yaml")), load_experiment)
    assert load(name).name == name


@pytest.mark.parametrize(("name", "command"), [("hydra-headline", "compare"), ("variance", "variance")])
def test_a_study_of_another_kind_is_not_searched_and_its_command_is_told(name, command):
    with pytest.raises(InputError, match=f"hydra-dse {command} {name}"):
        load_experiment(name)


@pytest.mark.parametrize(
    ("name", "load"),
    [
        ("hydra-headline", load_comparison),
        ("prior-art", load_comparison),
        ("ablation", load_comparison),
        ("iso-design", load_comparison),
        ("engine-policies", load_comparison),
        ("gpus", load_comparison),
        ("variance", load_variance),
    ],
)
def test_every_study_has_a_quick_variant_of_one_load(name, load):
    assert len(load(name, quick=True).loads) == 1


OVERRIDES = [
    [],
    ["search.seed=5", "search.trials=12", "constraints=[{metric: load, at_most: 0.5}]"],
    ["workload.arrivals.rate=7 req/s", "workload.slo.ttft=123 ms"],
    ["workload=sharegpt", "model=mamba2-2.7b"],
    ["space.policy.token_budget=512"],
    ["workload.arrivals.trace=t.csv"],
    ["workload.arrivals.trace=t.csv", "workload.arrivals.rate=0.5 req/s", "rate=4 req/s"],
    ["workload=hydra-mix", "workload.arrivals.trace=t.csv", "workload.arrivals.lengths=classes"],
]


@pytest.mark.parametrize("overrides", OVERRIDES)
def test_a_stored_experiment_loads_to_the_same_experiment_from_anywhere(tmp_path, file, monkeypatch, overrides):
    file(TRACE, "work/t.csv")
    monkeypatch.chdir(tmp_path / "work")
    first = load_experiment(file(GOOD), overrides)
    stored = store(first, tmp_path / "runs" / "r")
    monkeypatch.chdir("/")
    second = load_experiment(stored)
    assert_same(first, second)
    assert_same(second, load_experiment(store(second, tmp_path / "again")))


def test_relative_paths_of_an_experiment_are_stored_as_absolute_ones(tmp_path, file):
    file(TRACE, "data/t.csv")
    shutil.copy(ROOT / "workloads" / "models" / "nemotron-h-8b.json", tmp_path / "data" / "config.json")
    file("arrivals: {trace: t.csv}\nmodel: config.json\n", "data/w.yaml")
    shutil.copy(ROOT / "search_spaces" / "small-9.yaml", tmp_path / "data" / "s.yaml")
    text = GOOD.replace("azure-conversation", "data/w.yaml").replace("small-9", "data/s.yaml")
    first = load_experiment(file(text.replace("nemotron-h-8b", "data/config.json")))
    paths = {Path(item.path).name for item in first.inputs}
    assert paths == {"e.yaml", "w.yaml", "t.csv", "config.json", "s.yaml"}
    assert_same(first, load_experiment(store(first, tmp_path / "runs" / "r")))


def test_an_inline_workload_keeps_the_lines_of_the_experiment(file):
    text = GOOD.replace(
        "workload: azure-conversation\n",
        "workload:\n  arrivals: {process: poisson, rate: 2}\n  lengths: azure-code\n",
    )
    assert faults(file(text))[0].startswith("e.yaml:4:38: arrivals.rate: 2 has no unit")
    assert load_experiment(file(text.replace("rate: 2", "rate: 2 req/s"))).workload.arrivals.rate_per_s == 2.0


def test_a_stored_experiment_whose_trace_has_changed_is_refused(tmp_path, file, monkeypatch):
    trace = file(TRACE, "t.csv")
    monkeypatch.chdir(tmp_path)
    stored = store(load_experiment(file(GOOD), ["workload.arrivals.trace=t.csv"]), tmp_path / "r")
    trace.write_text(TRACE + "100,1,1\n")
    assert "has changed since the experiment was stored" in faults(stored)[0]


def test_a_stored_experiment_does_not_need_the_files_that_it_holds_itself(tmp_path, file):
    path = file(GOOD)
    first = load_experiment(path)
    stored = store(first, tmp_path / "r")
    path.unlink()
    assert load_experiment(stored).workload == first.workload


def test_inputs_of_an_experiment_have_their_digests(file):
    import hashlib

    experiment = load_experiment(file(GOOD))
    names = [Path(item.path).name for item in experiment.inputs]
    assert {"e.yaml", "azure-conversation.yaml", "small-9.yaml", "nemotron-h-8b.json"} <= set(names)
    for item in experiment.inputs:
        assert hashlib.sha256(Path(item.path).read_bytes()).hexdigest() == item.sha256


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD.replace("workload", "worklod"), "e.yaml:3:1: worklod: unknown key 'worklod' (did you mean 'workload'?)"),
        (GOOD.replace("workload: azure-conversation\n", ""), "e.yaml:1:1: workload: missing key 'workload'"),
        (GOOD.replace("azure-conversation", "azure-conv"), "e.yaml:3:11: workload: no bundled workload called"),
        (GOOD.replace("azure-conversation", "w.yaml"), "e.yaml:3:11: workload: 'w.yaml': no such file"),
        (GOOD.replace("azure-conversation", "../w.yaml"), "e.yaml:3:11: workload: '../w.yaml' leaves the folder"),
        (GOOD.replace("azure-conversation", "3"), "e.yaml:3:11: workload: expected text, got 3"),
        (
            GOOD.replace("small-9", "smal-9"),
            "e.yaml:4:8: space: no bundled space called 'smal-9' (did you mean 'small-9'",
        ),
        (GOOD.replace("nemotron-h-8b", "nemotron"), "e.yaml:2:8: model: no bundled model called 'nemotron'"),
        (GOOD.replace("ttft_mean_s", "ttft_mean"), "e.yaml:5:39: objectives[1]: unknown metric 'ttft_mean' (did you"),
        (GOOD.replace("ttft_mean_s", "batch_mean"), "e.yaml:5:39: objectives[1]: 'batch_mean' has no better direction"),
        (
            GOOD.replace("ttft_mean_s", "saturation_tokens_per_s"),
            "e.yaml:5:39: objectives[1]: 'saturation_tokens_per_s' is listed twice",
        ),
        (GOOD.replace("[saturation_tokens_per_s, ttft_mean_s]", "[]"), "e.yaml:5:13: objectives: needs at least 1"),
        (
            GOOD + "constraints: [{metric: lod, at_most: 1}]\n",
            "e.yaml:6:24: constraints[0].metric: unknown metric 'lod'",
        ),
        (
            GOOD + "constraints: [{metric: load}]\n",
            "e.yaml:6:15: constraints[0].at_most: give at_most, at_least or both",
        ),
        (
            GOOD + "constraints: [{metric: load, at_most: .nan}]\n",
            "e.yaml:6:39: constraints[0].at_most: expected a finite",
        ),
        (
            GOOD + "constraints: [{metric: load, at_most: 90 %}]\n",
            "e.yaml:6:39: constraints[0].at_most: expected a number",
        ),
        (GOOD + "search: {sampler: nsga}\n", "e.yaml:6:19: search.sampler: 'nsga' is not accepted; expected 'nsga2',"),
        (GOOD + "search: {trials: 0}\n", "e.yaml:6:18: search.trials: must be at least 1, got 0"),
        (GOOD + "search: {trials: 1e3}\n", "e.yaml:6:18: search.trials: expected a whole number, got 1000.0"),
        (GOOD + "search: {seed: -1}\n", "e.yaml:6:16: search.seed: must be at least 0, got -1"),
        (GOOD + "validation: {warmup_share: 100 %}\n", "e.yaml:6:28: validation.warmup_share: must be less than 1"),
        (GOOD + "rate: 2\n", "e.yaml:6:7: rate: 2 has no unit; write a number with 'req/s'"),
        (
            GOOD + "calibration: defalt\n",
            "e.yaml:6:14: calibration: no calibration called 'defalt' in the library (did",
        ),
        (GOOD + "schema_version: 2\n", "e.yaml:6:17: schema_version: 2 is not accepted; expected 1"),
        (GOOD + "name: x\n", "e.yaml:6:1: name: duplicate key 'name' (first at line 1, column 1)"),
        (GOOD[:-2], "e.yaml:6:1: not valid YAML: "),
    ],
)
def test_a_wrong_experiment_is_refused_with_line_column_key_and_value(file, text, expected):
    found = faults(file(text))
    assert any(fault.startswith(expected) for fault in found), found


def test_faults_of_the_experiment_its_workload_and_its_space_come_together(file):
    file("arrivals: {process: poisson, rate: 2}\nlengths: azure-code\n", "w.yaml")
    file("name: s\n", "s.yaml")
    text = GOOD.replace("azure-conversation", "w.yaml").replace("small-9", "s.yaml")
    found = faults(file(text + "rat: 2\n"))
    assert {fault.split(":")[0] for fault in found} == {"e.yaml", "w.yaml", "s.yaml"}


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("space.dies.Ap.chiplet=hydra-x", "--set space.dies.Ap.chiplet: dies.Ap.chiplet: no chiplet called 'hydra-x'"),
        ("space.memories.hbm.stack=hydra-hbm3", "--set space.memories.hbm.stack: memories.hbm.count: missing key"),
        ("space.dies.Ap.count=1", "'Ap' is not used; write $Ap where it belongs (did --set space.dies.Ap.count take"),
        ("space.parameters.max_batch.choices=[0]", "--set space.parameters.max_batch.choices: parameters.max_batch"),
    ],
)
def test_a_fault_of_a_space_that_an_option_made_names_the_option(override, expected):
    assert any(expected in str(fault) for fault in faults("quickstart", override))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("search.trails=5", "--set search.trails: search.trails: unknown key 'trails' (did you mean 'trials'?)"),
        ("search.trials=x", "--set search.trials: search.trials: expected a whole number, got 'x'"),
        ("workload.arrivals.rate=2", "--set workload.arrivals.rate: arrivals.rate: 2 has no unit"),
        ("workload.arrivals.trace=none.csv", "--set workload.arrivals.trace: arrivals.trace: 'none.csv': no such file"),
        ("space.policy.max_bath=3", "--set space.policy.max_bath: policy.max_bath: unknown key 'max_bath' (did you"),
        ("space=none", "--set space: space: no space file or bundled space called 'none'"),
        ("objectives[1]=ttft", "--set objectives[1]: objectives[1]: unknown metric 'ttft'"),
        ("objectives[9]=ttft", "--set objectives[9]: objectives[9]: objectives is a list of 2"),
    ],
)
def test_a_wrong_override_is_named_as_it_was_typed(file, override, expected):
    found = faults(file(GOOD), override)
    assert any(fault.startswith(expected) for fault in found), found


def test_help_starts_without_pydantic_and_yaml():
    code = "import sys, hydra_dse.config; print([m for m in ('pydantic', 'yaml', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_workloads_are_sampled_without_pydantic_and_yaml():
    code = (
        "import sys, hydra_dse.workload.traces.read\n"
        "print([m for m in ('pydantic', 'yaml', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("wrong", "place", "says"),
    [
        ("objectives: [ttft_scheduled_p90_s]", "5:14: objectives[0]", "did you mean 'ttft_scheduled_mean_s'?"),
        (
            "objectives: [ttft_mean_s]\nconstraints: [{metric: ttft_scheduled_p99_s, at_most: 1}]",
            "6:24: constraints[0].metric",
            "simulations only",
        ),
        (
            "objectives: [ttft_mean_s]\nconstraints: [{metric: utilization_attentoin, at_most: 1}]",
            "6:24: constraints[0].metric",
            "the space has no such die group",
        ),
        ("objectives: [goodput_requests_per_s]", "5:14: objectives[0]", "needs an SLO"),
    ],
)
def test_a_metric_that_no_search_can_know_is_refused_at_its_place(file, wrong, place, says):
    text = GOOD.replace("objectives: [saturation_tokens_per_s, ttft_mean_s]", wrong)
    workload = file(
        "model: nemotron-h-8b\narrivals: {process: poisson, rate: 1/s}\nlengths: {prompt: 9, output: 9}\n", "w.yaml"
    )
    [fault] = faults(file(text.replace("azure-conversation", workload.name)))
    assert fault.startswith(f"e.yaml:{place}: ")
    assert says in fault
    if "needs" not in says:
        assert "accepted: " in fault


def test_a_metric_of_the_slo_is_an_objective_where_the_workload_states_one(file):
    experiment = load_experiment(
        file(GOOD.replace("saturation_tokens_per_s", "max_rate_requests_per_s")), ["workload.slo.ttft=2 s"]
    )
    assert experiment.objectives[0] == "max_rate_requests_per_s"
