"""Published findings on bundles of our own simulations: overlap that ranks nothing, and work that is not equal."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bundles import ONE_DIE, written
from click.testing import CliRunner, Result
from systems import write_ring

from hydra_dse.cli.app import app
from hydra_dse.studies.design_simulation import DesignSimulation

BATCH = (
    "workload.arrivals={process: poisson, rate: 100/s}",
    "workload.lengths={prompt: 128, output: 32}",
    "design.policy.batching=static",
)

SINGLES = (
    "workload.arrivals={process: deterministic, rate: 150/s}",
    "workload.lengths={prompt: 256, output: 4}",
    "design.policy.token_budget=1024",
)


def _explain(*words: str) -> Result:
    return CliRunner().invoke(app, ["explain", *words])


def _json(answer: Result) -> dict[str, Any]:
    assert answer.exit_code == 0, answer.output
    found = json.loads(answer.output)
    assert isinstance(found, dict)
    return found


@pytest.mark.slow
def test_the_design_that_hides_a_fifth_of_its_communication_has_the_longer_steps(tmp_path: Path) -> None:
    """Two batches in flight, executed by operators: each computes under the other's communication, and waits for it."""
    for flight in (1, 2):
        overrides = (*SINGLES, f"design.policy.max_batch={flight}", f"design.policy.batches_in_flight={flight}")
        run = DesignSimulation(
            write_ring(tmp_path, "gpu", 50.0), "hydra-chat", model="nemotron-h-4b", requests=16, replications=1,
            detail="operators", overrides=overrides,
        )  # fmt: skip
        written(tmp_path / f"in-flight-{flight}", run, "10:8")
    found = _json(_explain(str(tmp_path / "in-flight-2"), str(tmp_path / "in-flight-1"), "--json"))
    assert found["equal_work"] == {"equal": True, "reasons": [], "normalised_by": None}
    assert found["overlap"]["a"] > 0.1 and found["overlap"]["b"] == pytest.approx(0.0, abs=1e-9)
    assert set(found["order"]["faster"].values()) == {"in-flight-1"}
    waits = {row["phase"]: row["a_s"] for row in found["segments"] if row["name"] == "wait"}
    for phase, total in found["totals"].items():
        assert total["a_s"] - total["b_s"] == pytest.approx(waits[phase], rel=0.1)


@pytest.mark.slow
def test_a_simulated_batch_of_one_is_not_compared_with_one_of_32(tmp_path: Path) -> None:
    """The small batch has the shorter step and the longer time a token: the order is that of the work."""
    for batch in (1, 32):
        overrides = (*BATCH, f"design.policy.max_batch={batch}")
        written(tmp_path / f"batch-{batch}", replace(ONE_DIE, requests=60, overrides=overrides), "40:8")
    one, many = str(tmp_path / "batch-1"), str(tmp_path / "batch-32")
    refused = _explain(one, many)
    assert refused.exit_code != 0
    assert "sequences a decode step" in str(refused.exception) and "--normalise" in str(refused.exception)
    found = _json(_explain(one, many, "--normalise", "--json"))
    assert found["equal_work"]["equal"] is False and found["equal_work"]["normalised_by"] == "token processed"
    per_token = found["totals"]["decode step"]
    assert per_token["a_s"] > 5.0 * per_token["b_s"]
    steps = [json.loads((tmp_path / f"batch-{batch}" / "metrics.json").read_text())["metrics"] for batch in (1, 32)]
    assert steps[0]["tpot_mean_s"] < steps[1]["tpot_mean_s"]
