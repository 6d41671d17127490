"""Every estimate has an interval, and the intervals agree with each other."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.derived_intervals import derive_bounds
from hydra_dse.estimator.table import EstimateTable

# What is offered and built is known; counts of rare events have no error model.
EXACT = {
    "offered_requests_per_s",
    "area_mm2",
    "interposer_mm2",
    "unit_cost_usd",
    "rejected_share",
    "preemptions_per_request",
}


@pytest.fixture(scope="module")
def table() -> EstimateTable:
    overrides = ["arrivals.rate=2 req/s", "slo.ttft=1 s", "slo.tpot=30 ms"]
    workload = load_workload("azure-conversation", overrides)
    design = load_design("hydra-24-nemotron-chat")
    return estimate_designs([design], workload, load_calibration("default"), max_rate=True)


def test_every_metric_that_is_no_given_has_an_interval_that_holds_it(table: EstimateTable) -> None:
    for name, values in table.metrics.items():
        if name not in EXACT:
            assert table.low[name] <= values <= table.high[name], name


def test_no_share_has_an_upper_bound_above_one(table: EstimateTable) -> None:
    for name, high in table.high.items():
        if name.endswith("_occupancy") or name.startswith("utilization_") or "_utilization" in name:
            assert high <= 1.0, name


def test_below_saturation_what_is_served_is_what_is_offered_and_load_carries_the_doubt(table: EstimateTable) -> None:
    assert table.low["throughput_requests_per_s"] == table.high["throughput_requests_per_s"] == pytest.approx(2.0)
    assert table.low["load"] == pytest.approx(2.0 / table.high["saturation_requests_per_s"])


def test_in_overload_the_throughput_is_as_doubtful_as_the_saturation() -> None:
    metrics = {name: np.array([value]) for name, value in _overloaded().items()}
    low, high = {"saturation_requests_per_s": np.array([3.0])}, {"saturation_requests_per_s": np.array([5.0])}
    derive_bounds(metrics, low, high, 0.05)
    assert (low["throughput_requests_per_s"][0], high["throughput_requests_per_s"][0]) == (3.0, 5.0)
    assert (low["throughput_tokens_per_s"][0], high["throughput_tokens_per_s"][0]) == (300.0, 500.0)
    assert (low["load"][0], high["load"][0]) == (2.0, pytest.approx(10.0 / 3.0))


def _overloaded() -> dict[str, float]:
    return {
        "offered_requests_per_s": 10.0,
        "saturation_requests_per_s": 4.0,
        "throughput_requests_per_s": 4.0,
        "throughput_tokens_per_s": 400.0,
    }


def test_attainment_is_lower_were_latencies_longer(table: EstimateTable) -> None:
    for name in ("slo_attainment", "goodput_requests_per_s"):
        assert table.low[name] < table.metrics[name] < table.high[name]
