"""The names of `hydra_dse` itself: light to import, the same results as the command line, faults told."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

import hydra_dse
from hydra_dse import estimate, load_calibration, load_design, load_workload, open_run, simulate, validate
from hydra_dse.cli.app import app
from hydra_dse.errors import InputError

DESIGN, WORKLOAD = "h100", "azure-conversation"
SLOW = ["workload.arrivals.rate=1 req/s"]


def test_importing_the_package_loads_none_of_its_dependencies() -> None:
    code = "import sys, hydra_dse; print([n for n in sys.modules if n.split('.')[0] in sys.argv[1:]])"
    heavy = ["numpy", "scipy", "pandas", "pydantic", "optuna", "matplotlib", "yaml", "click"]
    out = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_every_name_that_is_promised_is_there() -> None:
    assert all(callable(getattr(hydra_dse, name)) for name in hydra_dse.__all__ if name != "__version__")
    with pytest.raises(AttributeError, match="sweeep"):
        hydra_dse.sweeep  # type: ignore[attr-defined]  # noqa: B018


def test_an_estimate_is_that_of_the_command_line() -> None:
    [found] = estimate(DESIGN, WORKLOAD, SLOW)
    words = ["estimate", DESIGN, "--workload", WORKLOAD, "--set", SLOW[0], "--json"]
    told = json.loads(CliRunner().invoke(app, words).stdout)
    assert told["metrics"] == pytest.approx(dict(found.metrics), nan_ok=True)


def test_objects_do_as_well_as_their_names() -> None:
    named = estimate(DESIGN, WORKLOAD, SLOW)
    load = load_workload(WORKLOAD, ["arrivals.rate=1 req/s"])
    built = estimate(load_design(DESIGN), load, calibration=load_calibration("default"))
    assert named[0] == built[0]
    assert named[DESIGN] is named[0]


def test_a_frame_has_a_row_for_each_design_and_metric_with_its_interval() -> None:
    found = estimate([DESIGN, DESIGN], WORKLOAD, SLOW)
    frame = found.frame()
    assert len(frame) == 2 * len(found[0].metrics)
    row = frame.set_index("metric").loc["ttft_mean_s"].iloc[0]
    assert (row["low"], row["high"]) == found[0].intervals["ttft_mean_s"]
    assert (row["unit"], row["source"]) == ("s", "estimated")


def test_a_simulation_takes_the_requests_it_is_given() -> None:
    [found] = simulate(DESIGN, WORKLOAD, SLOW, requests=60, replications=1)
    [again] = simulate(DESIGN, WORKLOAD, SLOW, requests=60, replications=1)
    assert found == again
    assert found.source == "simulated"
    assert found.metrics["ttft_mean_s"] is not None


def test_a_figure_draws_a_bar_for_each_design_and_metric() -> None:
    [axes] = estimate([DESIGN, DESIGN], WORKLOAD, SLOW).figure("tpot_mean_s", "tpot_p99_s").axes
    assert len(axes.patches) == 4
    assert axes.get_xlabel() == "azure-conversation [s]"


def test_keys_without_effect_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hydra_dse"):
        estimate(DESIGN, WORKLOAD, [*SLOW, "design.policy.host_bandwidth=1 GB/s"])
    assert caplog.messages


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: estimate(DESIGN), "name the workload"),
        (lambda: estimate([], WORKLOAD), "at least one design"),
        (lambda: estimate(DESIGN, WORKLOAD, ["rate=1"]), "must start with 'workload.' or 'design.'"),
        (lambda: estimate(load_design(DESIGN), WORKLOAD, ["design.policy.max_batch=2"]), "is an object"),
        (lambda: estimate(DESIGN, load_workload(WORKLOAD), SLOW), "is an object"),
        (lambda: estimate(DESIGN, WORKLOAD, SLOW).figure("load", "power_w"), "one unit"),
        (lambda: simulate(DESIGN, WORKLOAD, simulator="servin"), "did you mean 'serving'"),
        (lambda: open_run("nowhere"), "no such run directory"),
        (lambda: validate("nowhere"), "no such run directory"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_in_one_line(call: object, told: str) -> None:
    with pytest.raises(InputError, match=told):
        call()  # type: ignore[operator]
