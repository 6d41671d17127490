"""A folder of small input files, a small finished run, and the command line called in this process."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from hydra_dse.cli import main
from hydra_dse.config import load_experiment
from hydra_dse.studies import sweep, validate

ROOT = Path(__file__).resolve().parents[2]
DESIGN = ROOT / "search_spaces" / "designs" / "hydra-24-nemotron-chat.yaml"

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
EXPERIMENT = """\
name: mine
purpose: a test
model: model/config.json
workload: workload.yaml
space: space.yaml
objectives: [saturation_tokens_per_s, ttft_mean_s]
constraints:
  - {metric: load, at_most: 0.95}
search: {sampler: nsga2, trials: 24, population: 8, seed: 0}
validation: {top: 2, requests: 60, replications: 2}
"""

WORKLOAD = """\
name: steady
model: model/config.json
arrivals: {process: poisson, rate: 1 req/s}
lengths: {prompt: 400, output: 80}
slo: {ttft: 2 s, tpot: 50 ms, percentile: 0.9}
"""

TRACE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:15:51.2224670,879,55
"""


@dataclass(frozen=True)
class Answer:
    """How a command ended."""

    code: int
    out: str
    err: str


def call(capsys: pytest.CaptureFixture[str], *words: object) -> Answer:
    """Run `hydra-dse` with these words in this process."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["hydra-dse", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    out, err = capsys.readouterr()
    assert not CONTROL.search(out + err), "control characters where there is no terminal"
    return Answer(int(ended.value.code or 0), out, err)


def write_inputs(folder: Path) -> None:
    """One small file of every kind; all of them are right."""
    (folder / "experiment.yaml").write_text(EXPERIMENT)
    (folder / "workload.yaml").write_text(WORKLOAD)
    (folder / "trace.csv").write_text(TRACE)
    (folder / "space.yaml").write_text((ROOT / "search_spaces" / "small-9.yaml").read_text())
    (folder / "design.yaml").write_text(DESIGN.read_text())
    (folder / "model").mkdir()
    config = (ROOT / "workloads" / "models" / "nemotron-h-8b.json").read_text()
    (folder / "model" / "config.json").write_text(config)


def write_run(folder: Path) -> Path:
    """A finished and validated run, small but real; returns its directory."""
    experiment = load_experiment(folder / "experiment.yaml")
    sweep(experiment, folder / "run")
    validate(folder / "run")
    return folder / "run"


def small_run(folder: Path, **changes: object) -> Path:
    """A finished run of 16 designs with its inputs below `folder`; `changes` replace keys of its search."""
    folder.mkdir(exist_ok=True)
    write_inputs(folder)
    overrides = [f"search.{key}={value}" for key, value in {"trials": 16, **changes}.items()]
    sweep(load_experiment(folder / "experiment.yaml", overrides), folder / "run")
    return folder / "run"


def replace(file: Path, old: str, new: str) -> None:
    """Change a text that stands in a file."""
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
