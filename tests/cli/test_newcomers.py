"""What a newcomer tries in the first hour: names half remembered, the wrong command, a table from a spreadsheet."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cli.pieces import replace
from hydra_dse.config import load_experiment, load_workload
from hydra_dse.studies import design_of_run

LOAD = ("--workload", "workload.yaml")
HELD = """
import os, sys
from hydra_dse.results.parquet import read_table
from hydra_dse.studies.run_directory import existing_run

def threads():
    return len(os.listdir("/proc/self/task"))

import numpy, pyarrow, pyarrow.parquet
before = threads()
assert len(existing_run(sys.argv[1]).designs()) > 0
assert read_table(open(sys.argv[1] + "/latencies.parquet", "rb").read()).num_rows > 0
print(threads() - before)
"""


def test_part_of_a_name_is_answered_with_the_names_that_hold_it(hydra):
    answer = hydra("model", "show", "granite")
    assert answer.code == 2
    assert "(did you mean 'granite-4-h-small' or 'granite-4.0-h-small'?)" in answer.err


def test_dies_are_listed_under_the_name_that_files_give_them(hydra):
    assert hydra("list", "dies").out == hydra("list", "chiplets").out != ""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("compare", "quickstart"), "has no section 'compare'; its command is hydra-dse sweep quickstart"),
        (("variance", "hydra-headline"), "has no section 'variance'; its command is hydra-dse compare hydra-headline"),
        (("compare", "prior-art", "--quick", "--set", "search.trials=x"), "search.trials"),
        (("validate", "quickstart"), "no such run directory; hydra-dse sweep EXPERIMENT writes one"),
        (("estimate", "model", *LOAD), "no design file or bundled design called 'model'"),
        (("estimate", "design.yaml", "--workload", "model/"), "model/: is a folder; expected a file"),
        (("estimate", "design.yaml", *LOAD, "--set", "rate=2/s"), "here it is workload.arrivals.rate"),
        (("estimate", "design.yaml", *LOAD, "--set", "slo.ttft=2 s"), "must start with 'workload.': workload.slo.ttft"),
        (("estimate", "design.yaml", *LOAD, "--set", "policy.max_batch=2"), "'design.': design.policy.max_batch"),
        (("estimate", "design.yaml", *LOAD, "--set", "workload.classes[0].share=1"), "the file has no classes to take"),
        (("check", "model"), "is a folder without a ServeGen trace"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "says",
)
def test_the_wrong_command_or_key_is_answered_with_the_right_one(inputs, hydra, words, says):
    answer = hydra(*words)
    assert answer.code == 2
    assert says in answer.err
    assert answer.out == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("arrival_s,prompt_tokens\n1,2\n", ":1: lacks 'output_tokens'; a table of format csv has arrival_s, "),
        ("arrival,prompt_tokens,output_token\n1,2,3\n", "lacks 'arrival_s' (did you mean 'arrival'?), 'output_tokens'"),
        ("TIMESTAMP,ContextTokens\n1,2\n", "lacks 'GeneratedTokens'; a table of format azure"),
        ("1,2,3\n2,3,4\n", ":1: has no header line; expected the names of the columns, e.g. arrival_s,"),
        ("arrival_s;prompt_tokens;output_tokens\n1;2;3\n", ":1: has fields separated by semicolons; expected commas"),
        ("arrival_s\tprompt_tokens\toutput_tokens\n1\t2\t3\n", ":1: has fields separated by tabs"),
    ],
)
def test_a_table_that_is_nearly_a_trace_is_told_what_it_lacks(inputs, hydra, text, says):
    (inputs / "trace.csv").write_text(text)
    answer = hydra("check", "trace.csv")
    assert answer.code == 2
    assert says in answer.err


def test_a_design_of_a_run_can_be_tried_with_another_value(workplace, hydra):
    identity = (workplace / "run" / "pareto.csv").read_text().splitlines()[1].split(",")[0]
    own, changed = (
        json.loads(hydra("estimate", f"run:{identity}", *sets, "--json").out)["metrics"]
        for sets in ((), ("--set", "design.policy.max_batch=1"))
    )
    assert changed["saturation_tokens_per_s"] < own["saturation_tokens_per_s"]
    assert changed["area_mm2"] == own["area_mm2"]


def test_a_design_of_a_run_with_its_own_value_set_is_the_same_hardware_and_policy(workplace):
    from hydra_dse.config.overrides import parse_override

    row = dict(
        zip(*(line.split(",") for line in (workplace / "run/pareto.csv").read_text().splitlines()[:2]), strict=True)
    )
    own = design_of_run("run", row["design"])
    same = design_of_run("run", row["design"], [parse_override(f"policy.max_batch={row['max_batch']}")])
    assert (same.package.dies, same.package.memories, same.package.link_bandwidth_bytes_per_s) == (
        own.package.dies,
        own.package.memories,
        own.package.link_bandwidth_bytes_per_s,
    )
    assert (same.policy, same.mapping, same.placement_algorithm) == (own.policy, own.mapping, own.placement_algorithm)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_reading_a_run_leaves_no_threads_that_could_abort_the_end_of_the_process(finished):
    done = subprocess.run(
        [sys.executable, "-c", HELD, str(finished / "run")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "0\n"


def test_paired_runs_of_a_record_are_of_different_windows_of_it(inputs, hydra):
    rows = "".join(f"{n + 0.15 * (n % 5):.2f},{200 + 137 * (n % 11)},{5 + n % 29}\n" for n in range(120))
    (inputs / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    replace(inputs / "workload.yaml", "{process: poisson, rate: 1 req/s}", "{process: trace, trace: trace.csv}")
    replace(inputs / "workload.yaml", "lengths: {prompt: 400, output: 80}\n", "")
    assert load_workload("workload.yaml").replay is not None
    words = ("whatif", "design.yaml", *LOAD, "--scale", "compute=2", "--requests", 30, "--replications", 2, "--json")
    gain = json.loads(hydra(*words).out)["sensitivities"][0]["gains"]["ttft_mean_s"]
    assert gain["ci95"][0] < gain["mean"] < gain["ci95"][1]


@pytest.mark.slow
def test_a_sweep_under_a_bursty_record_says_what_it_did_and_what_its_estimates_are_worth(inputs, hydra):
    rows = "".join(f"{40 * (n // 20) + 0.05 * (n % 20):.2f},{100 + 37 * (n % 11)},{5 + n % 29}\n" for n in range(200))
    (inputs / "trace.csv").write_text("arrival_s,prompt_tokens,output_tokens\n" + rows)
    counts = {"hbm": 2, "Ap": 1, "Ad": 1, "Mp": 2}
    sets = ["model=nemotron-h-4b", "workload.arrivals.trace=trace.csv", "space=small-9"]
    sets += [f"space.parameters.{name}.choices=[{count}]" for name, count in counts.items()]
    words = [word for text in sets for word in ("--set", text)]
    shown = hydra("sweep", "quickstart", *words, "--trials", 40, "--out", "new", "--quiet")
    assert shown.code == 0, shown.err
    told = " ".join(shown.out.split())
    assert "8 designs scored (no further ones were found; 40 were allowed)" in told
    assert "note: estimates: inter-arrival CV 4." in told
    assert "(changed: model, workload.arrivals.trace, space, space.parameters.hbm.choices" in " ".join(
        (inputs / "new" / "experiment.yaml").read_text().split()
    )
    identity = (inputs / "new" / "pareto.csv").read_text().splitlines()[1].split(",")[0]
    found = json.loads(hydra("estimate", f"new:{identity}", "--json").out)["metrics"]
    assert 0.0 < found["ttft_scheduled_mean_s"] <= found["ttft_mean_s"]


def test_an_experiment_shows_itself_in_a_line():
    shown = repr(load_experiment("quickstart", ["space=small-9", "search.trials=48"]))
    assert shown == (
        "Experiment('quickstart': nemotron-h-8b under 'azure-conversation', space 'small-9', "
        "objectives saturation_tokens_per_s, ttft_mean_s, 48 designs)"
    )


def test_a_wrong_first_choice_is_told_once_at_its_place(inputs, hydra):
    replace(inputs / "space.yaml", "choices: [4, 8, 16, 32]", "choices: [-4, 8, 16, 32]")
    answer = hydra("check", "space.yaml")
    assert answer.code == 2
    assert answer.err.count("must be at least 1, got -4") == 1
    assert "max_batch.choices[0]" in answer.err
