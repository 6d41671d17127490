"""Every mistake of a user: exit code 2, one message that says where and what, no traceback, nothing changed on disk."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.pieces import replace

SWEEP = ("sweep", "experiment.yaml", "--out", "new-run", "--quiet")
ESTIMATE = ("estimate", "design.yaml", "--workload", "workload.yaml")
SIMULATE = ("simulate", *ESTIMATE[1:])
BOMB = "\n".join(
    ["a: &a [x, x, x, x, x, x, x, x, x]"]
    + [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefg", "bcdefgh", strict=True)]
)


@dataclass(frozen=True)
class Case:
    """A mistake: how it is made, the command that meets it, and what the message must say."""

    name: str
    make: Callable[[Path], object]
    words: tuple[str, ...]
    says: tuple[str, ...]


def edit(file: str, old: str, new: str) -> Callable[[Path], None]:
    return lambda folder: replace(folder / file, old, new)


def write(file: str, text: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / file).write_text(text)

    return make


def cut(file: str, share: float) -> Callable[[Path], None]:
    """Keep the first part of a file."""

    def make(folder: Path) -> None:
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[: int(share * len(data))])

    return make


def nothing(folder: Path) -> None:
    pass


def link_out(folder: Path) -> None:
    """A link inside the folder that leads to a file outside."""
    outside = folder.parent / "outside.yaml"
    outside.write_text((folder / "workload.yaml").read_text())
    (folder / "workload.yaml").unlink()
    (folder / "workload.yaml").symlink_to(outside)


def dot_dot(folder: Path) -> None:
    (folder.parent / "outside.yaml").write_text((folder / "workload.yaml").read_text())
    replace(folder / "experiment.yaml", "workload: workload.yaml", "workload: ../outside.yaml")


def report_link(folder: Path) -> None:
    (folder / "run" / "report.html").symlink_to(folder.parent / "elsewhere.html")


CASES = [
    # Experiments and what they name.
    Case("an unknown key", edit("experiment.yaml", "objectives:", "objektives:"), SWEEP,
         ("experiment.yaml:6:1: objektives: unknown key 'objektives' (did you mean 'objectives'?); accepted: ",)),
    Case("a key that a terminal would obey",
         edit("experiment.yaml", "objectives:", '"\\e[31mred": 1\nobjectives:'), SWEEP,
         (r"experiment.yaml:6:1: \x1b[31mred: unknown key '\x1b[31mred'",)),
    Case("a misspelt choice", edit("experiment.yaml", "nsga2", "nsga22"), SWEEP,
         ("experiment.yaml:9:19: search.sampler: 'nsga22' is not accepted; expected ", "(did you mean 'nsga2'?)")),
    Case("an unknown metric", edit("experiment.yaml", "ttft_mean_s]", "ttft_men_s]"), SWEEP,
         ("experiment.yaml:6:39: objectives[1]: unknown metric 'ttft_men_s' (did you mean 'ttft_mean_s'?)",)),
    Case("a metric without a better direction", edit("experiment.yaml", "ttft_mean_s]", "batch_mean]"), SWEEP,
         ("experiment.yaml:6:39: objectives[1]: 'batch_mean' has no better direction",)),
    Case("a misspelt bundled name", edit("experiment.yaml", "workload: workload.yaml", "workload: shargpt"), SWEEP,
         ("experiment.yaml:4:11: workload: no bundled workload called 'shargpt' (did you mean 'sharegpt'?)",)),
    Case("a file that is not there", edit("experiment.yaml", "space: space.yaml", "space: none.yaml"), SWEEP,
         ("experiment.yaml:5:8: space: 'none.yaml': no such file",)),
    Case("a path that leaves its folder", dot_dot, SWEEP,
         ("experiment.yaml:4:11: workload: '../outside.yaml' leaves the folder of the file",)),
    Case("a link that leaves its folder", link_out, SWEEP,
         ("experiment.yaml:4:11: workload: 'workload.yaml' leaves the folder of the file",)),
    Case("no trials", nothing, (*SWEEP, "--set", "search.trials=0"),
         ("--set search.trials: search.trials: must be at least 1, got 0",)),
    Case("truncated YAML", cut("experiment.yaml", 0.6), SWEEP,
         ("experiment.yaml:9:1: not valid YAML: ", "the file ends too early")),
    Case("a duplicate key", edit("experiment.yaml", "purpose:", "name:"), SWEEP,
         ("experiment.yaml:2:1: name: duplicate key 'name' (first at line 1, column 1)",)),
    Case("a tab", edit("experiment.yaml", "  - {metric", "\t- {metric"), SWEEP, ("experiment.yaml:8:1: ", "tab")),
    Case("a YAML bomb", write("experiment.yaml", BOMB), SWEEP, ("experiment.yaml:", "expands to more than")),
    Case("bytes that are no text", lambda folder: (folder / "experiment.yaml").write_bytes(b"name: \xff\xfe"), SWEEP,
         ("experiment.yaml:1:7: is not UTF-8 text (byte 0xff)",)),
    Case("an empty file", write("experiment.yaml", ""), SWEEP, ("experiment.yaml:1:1: is empty",)),
    Case("an object tag", write("experiment.yaml", "name: !!python/object/apply:os.system [ls]\n"), SWEEP,
         ("experiment.yaml:1:7: ", "python/object/apply:os.system' is not supported")),
    Case("an unknown experiment", nothing, ("sweep", "quikstart"),
         ("'quikstart' (did you mean 'quickstart'?); bundled: ",)),
    # Workloads.
    Case("a bad unit", edit("workload.yaml", "1 req/s", "1 parsec"), ESTIMATE,
         ("workload.yaml:3:36: arrivals.rate: '1 parsec' has an unknown unit 'parsec'", "req/s")),
    Case("a unit of another dimension", edit("workload.yaml", "ttft: 2 s", "ttft: 2 GB"), ESTIMATE,
         ("workload.yaml:5:13: slo.ttft: '2 GB' is a size in bytes, but a time is needed", "ms")),
    Case("a number without its unit", edit("workload.yaml", "1 req/s", "1"), ESTIMATE,
         ("workload.yaml:3:36: arrivals.rate: 1 has no unit", "req/s")),
    Case("a negative length", edit("workload.yaml", "prompt: 400", "prompt: -400"), ESTIMATE,
         ("workload.yaml:4:19: lengths.prompt: must be at least 1, got -400",)),
    Case("an unknown process", edit("workload.yaml", "poisson", "poison"), ESTIMATE,
         ("workload.yaml:3:21: arrivals.process: 'poison' is not accepted", "(did you mean 'poisson'?)")),
    Case("a misspelt --set", nothing, (*ESTIMATE, "--set", "workload.arrivals.rat=2/s"),
         ("--set workload.arrivals.rat: arrivals.rat: unknown key 'rat' (did you mean 'rate'?); accepted: ",)),
    Case("a --set without a value", nothing, (*ESTIMATE, "--set", "workload.arrivals.rate"),
         ("'workload.arrivals.rate' is not an override; write key.subkey=value",)),
    Case("a --set of something else", nothing, (*ESTIMATE, "--set", "arrivals.rate=2/s"),
         ("--set arrivals.rate: must start with 'workload.': workload.arrivals.rate",)),
    Case("more batches than sequences", nothing, (*SIMULATE, "--set", "design.policy.batches_in_flight=1000"),
         ("policy.batches_in_flight: 1000 batches cannot share max_batch = ", "at most")),
    Case("an unknown target metric", nothing, (*SIMULATE, "--target-ci", "5%", "--target-metric", "tpot_mean"),
         ("--target-metric: unknown metric 'tpot_mean' (did you mean 'tpot_mean_s'?)",)),
    Case("a trace without its bundle", nothing, (*SIMULATE, "--trace-window", "4"),
         ("--trace-window: says how a bundle is written; give --bundle DIR as well",)),
    # Traces.
    Case("NaN in a trace", edit("trace.csv", "396", "nan"), (*ESTIMATE, "--set", "workload.arrivals.trace=trace.csv"),
         ("trace.csv:3: ContextTokens: 'nan'", "expected a whole number")),
    Case("an unsorted trace", edit("trace.csv", "18:15:50", "18:15:12"), ("check", "trace.csv"),
         ("trace.csv:3: arrives 33.6854 s before the row above it; sort by arrival",)),
    Case("an empty trace", write("trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n"), ("check", "trace.csv"),
         ("trace.csv", "no requests")),
    Case("a truncated row", edit("trace.csv", "879,55\n", "87"), ("check", "trace.csv"), ("trace.csv:4: ",)),
    Case("negative tokens", edit("trace.csv", "109", "-109"), ("check", "trace.csv"),
         ("trace.csv:3: GeneratedTokens: '-109'",)),
    Case("a trace that is not there", nothing, (*ESTIMATE, "--set", "workload.arrivals.trace=none.csv"),
         ("--set workload.arrivals.trace: arrivals.trace: 'none.csv': no such file",)),
    # Models.
    Case("an unknown model type", edit("model/config.json", '"nemotron_h"', '"nemotrom_h"'),
         ("model", "show", "model/config.json"),
         ("model/config.json:", "model_type", "'nemotrom_h'", "did you mean 'nemotron_h'?")),
    Case("a missing model key", edit("model/config.json", '"ssm_state_size": 128,', ""),
         ("model", "show", "model/config.json"), ("model/config.json:", "ssm_state_size")),
    Case("a pattern with an unknown letter", edit("model/config.json", '"M-M-M-M*-', '"M-M-M-X*-'),
         ("model", "show", "model/config.json"), ("model/config.json:", "hybrid_override_pattern", "'X'")),
    Case("heads that do not divide", edit("model/config.json", '"num_key_value_heads": 8', '"num_key_value_heads": 7'),
         ("model", "show", "model/config.json"), ("model/config.json:", "num_key_value_heads", "7")),
    Case("an unknown model", nothing, ("model", "show", "nemotron-h-8"), ("did you mean 'nemotron-h-8b'?",)),
    # Spaces and designs.
    Case("a space without a point", edit("space.yaml", "tiles: 9", "tiles: 4"), SWEEP, ("space.yaml:",)),
    Case("a parameter without choices", edit("space.yaml", "choices: [1, 2]", "choices: []"), SWEEP,
         ("space.yaml:9:17: parameters.Ap.choices: needs at least 1 entries, got 0")),
    Case("an unknown parameter", edit("space.yaml", "$link_gb_per_s", "$link_gb_per_z"), SWEEP,
         ("space.yaml:", "package.link.bandwidth: ", "'link_gb_per_z'", "did you mean 'link_gb_per_s'?")),
    Case("an unknown die", edit("design.yaml", "hydra-marca-decode-22nm", "hydra-marca-decod-22nm"), ESTIMATE,
         ("design.yaml:17:17: dies.Md.chiplet: ", "hydra-marca-decod-22nm", "did you mean 'hydra-marca-decode-22nm'?")),
    Case("a negative size", edit("design.yaml", "[11.1 mm, 11.1 mm]", "[-11.1 mm, 11.1 mm]"), ESTIMATE,
         ("design.yaml:8:", "package.topology.tile[0]: '-11.1 mm' is negative",)),
    Case("a negative count", edit("design.yaml", "count: 11", "count: -11"), ESTIMATE,
         ("design.yaml:17:49: dies.Md.count: must be at least 0, got -11",)),
    Case("a misspelt policy", edit("design.yaml", "batching: chunked", "batching: chunk"), ESTIMATE,
         ("design.yaml:", "policy.batching: 'chunk' is not accepted; expected ", "(did you mean 'chunked'?)")),
    Case("an unknown design", nothing, ("estimate", "h10", "--workload", "workload.yaml"),
         ("'h10' (did you mean 'h100'?)",)),
    # Command lines.
    Case("an unknown command", nothing, ("swep", "quickstart"), ("no command 'swep' (did you mean 'sweep'?)",)),
    Case("an unknown option", nothing, (*SWEEP, "--trails", "3"), ("--trails", "--trials")),
    Case("a negative option", nothing, (*SWEEP, "--workers", "-2"), ("--workers", "-2")),
    Case("a missing option", nothing, ("estimate", "design.yaml"), ("--workload",)),
    Case("an unknown simulator", nothing, ("simulate", *ESTIMATE[1:], "--simulator", "srving"),
         ("no simulator 'srving' (did you mean 'serving'?)",)),
    Case("an unknown kind", nothing, ("list", "modles"), ("no kind 'modles' (did you mean 'models'?)",)),
    Case("a value that is no number", edit("workload.yaml", "percentile: 0.9", "percentile: .nan"), ESTIMATE,
         ("workload.yaml:5:43: slo.percentile: nan is not a finite number",)),
    Case("two mistakes at once", lambda folder: [edit("workload.yaml", "1 req/s", "1 parsec")(folder),
                                                 edit("workload.yaml", "output: 80", "output: 0")(folder)], ESTIMATE,
         ("workload.yaml:3:36: arrivals.rate: ", "workload.yaml:4:32: lengths.output: must be at least 1, got 0")),
]  # fmt: skip

# Commands that read a run, and the ways in which a run can be wrong.
RUNS = [
    Case("no run", nothing, ("validate", "none"), ("none: no such run directory",)),
    Case("a folder that is no run", nothing, ("report", "model"), ("model/provenance.json: not a run directory",)),
    Case("an occupied directory", nothing, ("sweep", "experiment.yaml", "--out", "model"),
         ("model: holds 'config.json' but no provenance.json: not a run directory",)),
    Case("a run that is there", nothing, ("sweep", "{finished}/experiment.yaml", "--out", "run"),
         ("run: holds a finished run of 'mine': add --resume, or name another --out",)),
    Case("a resumed run of another experiment", nothing,
         ("sweep", "{finished}/experiment.yaml", "--out", "run", "--resume", "--seed", "9"),
         ("run/experiment.yaml", "seed")),
    Case("truncated designs", cut("run/designs.parquet", 0.5), ("validate", "run"),
         ("run/designs.parquet: not a readable table of designs",)),
    Case("a part of designs that is empty", write("run/designs.parquet", ""), ("report", "run"),
         ("run/designs.parquet: not a readable table of designs",)),
    Case("garbage provenance", write("run/provenance.json", "}{"), ("validate", "run"),
         ("run/provenance.json: not a readable provenance of a run",)),
    Case("provenance of something else", write("run/provenance.json", "[]"), ("report", "run"),
         ("run/provenance.json: not a readable provenance of a run",)),
    Case("a deleted experiment", lambda folder: (folder / "run/experiment.yaml").unlink(), ("validate", "run"),
         ("run/experiment.yaml: no such file",)),
    Case("an experiment with a new space", edit("run/experiment.yaml", "- 256", "- 300"), ("validate", "run"),
         ("link_gb_per_s = 256 is not a choice of space",)),
    Case("garbage validation", write("run/validation.csv", "a,b\n1,2\n"), ("report", "run"),
         ("run/validation.csv: not a readable validation table",)),
    Case("an unknown design of a run", nothing, ("estimate", "run:zzz", "--workload", "workload.yaml"),
         ("run/designs.parquet: 'zzz' names no design of this run",)),
    Case("a design of no run", nothing, ("estimate", "none:abc", "--workload", "workload.yaml"),
         ("none: no such run directory",)),
    Case("a wrong change to a design of a run", nothing,
         ("estimate", "run:{best}", "--workload", "workload.yaml", "--set", "design.policy.max_btch=3"),
         ("--set design.policy.max_btch: policy.max_btch: unknown key 'max_btch' (did you mean 'max_batch'?)",)),
    Case("a run in place of a design", nothing, ("estimate", "run", "--workload", "workload.yaml"),
         ("run: is a run of many designs; name one as run:ID",)),
    Case("a run of a later version", edit("run/provenance.json", '"schema_version": 1', '"schema_version": 9'),
         ("report", "run"), ("run/provenance.json: was written by a later version of hydra-dse (schema 9",)),
    Case("an experiment in place of a run", nothing, ("validate", "experiment.yaml"),
         ("experiment.yaml: is a file; expected the directory of a run",)),
    Case("a report that is a link out of the run", report_link, ("report", "run"),
         ("run/report.html: is a link out of the run directory",)),
]  # fmt: skip


def tree(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Everything below a folder: what it is, and its content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        content = str(path.readlink()).encode() if kind == "link" else path.read_bytes() if kind == "file" else b""
        found[str(path.relative_to(folder))] = (kind, content)
    return found


def check(folder: Path, hydra, case: Case, finished: object = "") -> None:
    case.make(folder)
    before, beside = tree(folder), sorted(folder.parent.iterdir())
    front = folder / "run" / "pareto.csv"
    best = front.read_text().splitlines()[1].split(",")[0] if front.exists() else ""
    answer = hydra(*(word.format(finished=finished, best=best) for word in case.words))
    assert answer.code == 2, answer
    assert answer.out == ""
    for part in case.says:
        assert part in answer.err
    assert "Traceback" not in answer.err
    assert (tree(folder), sorted(folder.parent.iterdir())) == (before, beside)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_input_is_told_in_one_message_and_changes_nothing(inputs, hydra, case):
    check(inputs, hydra, case)


@pytest.mark.slow
@pytest.mark.parametrize("case", RUNS, ids=lambda case: case.name)
def test_a_wrong_run_is_told_in_one_message_and_changes_nothing(workplace, hydra, case, finished):
    check(workplace, hydra, case, finished)


def test_there_are_more_than_twenty_mistakes():
    assert len({case.name for case in (*CASES, *RUNS)}) == len(CASES) + len(RUNS) > 20


@pytest.mark.slow
def test_a_foreign_package_called_simulators_is_named(inputs):
    (inputs / "simulators").mkdir()
    (inputs / "simulators" / "__init__.py").write_text("")
    before = tree(inputs)
    words = [sys.executable, "-m", "hydra_dse.cli", "simulate", "design.yaml", "--workload", "workload.yaml"]
    done = subprocess.run(words, cwd=inputs, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    stranger = re.escape(str(inputs / "simulators"))
    assert re.fullmatch(rf"error: .*{stranger} is not the one of hydra-dse.*\n", done.stderr)
    assert tree(inputs) == before
