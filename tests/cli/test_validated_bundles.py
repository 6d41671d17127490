"""Bundles of validated designs, and designs of a run simulated under the run's own workload."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.pieces import Answer
from hydra_dse.bundle.writing import check_traces

Hydra = Callable[..., Answer]
FEW = ("--top", 1, "--outside", 0, "--requests", 30, "--replications", 1, "--max-replications", 1)


def _rows(run: Path) -> dict[str, float]:
    with (run / "validation.csv").open() as stream:
        return {row["metric"]: float(row["simulated"] or "nan") for row in csv.DictReader(stream)}


def _block(bundle: Path) -> dict[str, Any]:
    block = yaml.safe_load((bundle / f"{bundle.name}.yaml").read_text())["x_chiplet"]
    assert isinstance(block, dict)
    return block


@pytest.mark.slow
def test_a_validated_design_leaves_a_bundle_that_its_script_makes_again(workplace: Path, hydra: Hydra) -> None:
    answer = hydra("validate", "run", *FEW, "--bundles", "--trace-window", "4", "--quiet")
    assert answer.code == 0 and "run/bundles/<design>" in answer.out
    [bundle] = (workplace / "run" / "bundles").iterdir()
    assert check_traces(bundle) == []
    metrics = json.loads((bundle / "metrics.json").read_text())["metrics"]
    for name, simulated in _rows(workplace / "run").items():
        if simulated == simulated:
            assert metrics[name] == pytest.approx(simulated, rel=1e-12)
    moved = workplace / "moved"
    (workplace / "run").rename(moved)
    tool = {"HYDRA_DSE": f"{sys.executable} -m hydra_dse"}
    bundle = moved / "bundles" / bundle.name
    subprocess.run(
        [bundle / "run.sh", workplace / "again"], check=True, env={**os.environ, **tool}, capture_output=True
    )
    assert _block(workplace / "again")["trace_sha256"] == _block(bundle)["trace_sha256"]


@pytest.mark.slow
def test_designs_of_an_earlier_validation_get_their_bundles_too(workplace: Path, hydra: Hydra) -> None:
    assert hydra("validate", "run", *FEW, "--quiet").code == 0
    before = (workplace / "run" / "validation.csv").read_bytes()
    assert not (workplace / "run" / "bundles").exists()
    assert hydra("validate", "run", *FEW, "--bundles", "--trace-limit", "1 kB", "--quiet").code == 0
    [bundle] = (workplace / "run" / "bundles").iterdir()
    assert _block(bundle)["window"]["cut"] and _block(bundle)["run"]["workload"] is None
    assert (workplace / "run" / "validation.csv").read_bytes() == before
    written = (bundle / "metrics.json").stat().st_mtime_ns
    assert hydra("validate", "run", *FEW, "--bundles", "--quiet").code == 0
    assert (bundle / "metrics.json").stat().st_mtime_ns == written


@pytest.mark.slow
def test_a_design_of_a_run_is_simulated_under_the_workload_of_the_run_or_changes_of_it(
    workplace: Path, hydra: Hydra
) -> None:
    with (workplace / "run" / "pareto.csv").open() as stream:
        identity = next(csv.DictReader(stream))["design"]
    few = ("--requests", 20, "--replications", 1, "--json")
    own = json.loads(hydra("simulate", f"run:{identity}", *few).out)
    named = json.loads(hydra("simulate", f"run:{identity}", "--workload", "workload.yaml", *few).out)
    faster = json.loads(hydra("simulate", f"run:{identity}", "--set", "workload.arrivals.rate=3/s", *few).out)
    assert own["metrics"] == named["metrics"]
    assert faster["metrics"]["offered_requests_per_s"] == pytest.approx(3.0, rel=0.7)
    assert faster["metrics"] != own["metrics"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("simulate", "h100"), "--workload: is missing; only a design of a run"),
        (("simulate", "run:x"), "run: no such run directory"),
        (("validate", "run", "--bundles", "--trace-window", "4"), "run: no such run directory"),
        (("simulate", "h100", "--workload", "hydra-chat", "--bundle", "b", "--trace-limit", "4"), "--trace-limit: '4'"),
    ],
)
def test_what_cannot_be_is_said_in_one_message(
    words: tuple[str, ...], told: str, hydra: Hydra, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = hydra(*words)
    assert answer.code == 2 and told in answer.err and "Traceback" not in answer.err
