"""Rates that change in time: never a shorter wait than a steady rate, and that wait where they change fast."""

from __future__ import annotations

import pytest

from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.stationary_floor import NOTE
from hydra_dse.estimator.table import EstimateTable


def under(arrivals: str) -> EstimateTable:
    workload = load_workload("azure-conversation", [f"arrivals={arrivals}"])
    return estimate_designs([load_design("hydra-24-nemotron-chat")], workload, load_calibration("default"))


@pytest.fixture(scope="module")
def poisson() -> EstimateTable:
    return under("{process: poisson, rate: 2.3 req/s}")


def wave(period: str) -> str:
    return f"{{process: diurnal, rate: 2.3 req/s, amplitude: 50 %, period: {period}}}"


@pytest.mark.parametrize("period", ["1 s", "2 s"])
def test_a_wave_that_is_shorter_than_a_visit_is_as_good_as_steady(period: str, poisson: EstimateTable) -> None:
    found = under(wave(period))
    for name in ("ttft_mean_s", "ttft_p90_s", "tpot_mean_s", "e2e_mean_s", "batch_mean"):
        assert found.metrics[name] == pytest.approx(poisson.metrics[name], rel=0.02), name
        assert found.low[name] <= found.metrics[name] <= found.high[name]
    assert NOTE in found.notes


@pytest.mark.parametrize("period", ["10 s", "60 s", "600 s"])
def test_no_wave_makes_requests_wait_less_than_a_steady_rate(period: str, poisson: EstimateTable) -> None:
    found = under(wave(period))
    for name in ("ttft_mean_s", "e2e_mean_s"):
        assert found.metrics[name] >= 0.98 * poisson.metrics[name], name


def test_steps_of_milliseconds_are_a_steady_rate(poisson: EstimateTable) -> None:
    steps = "{rate: 2 req/s, duration: 50 ms}, {rate: 2.6 req/s, duration: 50 ms}"
    found = under(f"{{process: piecewise, steps: [{steps}]}}")
    assert found.metrics["ttft_mean_s"] == pytest.approx(poisson.metrics["ttft_mean_s"], rel=0.02)
