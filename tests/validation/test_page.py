"""The page of the validation says what the estimator does now, and how it was judged."""

from __future__ import annotations

import re

import numpy as np
import pytest

from benchmarks.validation import targets
from benchmarks.validation.cases import BANDS
from benchmarks.validation.errors import Comparison, comparisons, coverage
from benchmarks.validation.ranking import spearman
from benchmarks.validation.report import DOCS
from benchmarks.validation.top import kendall
from benchmarks.validation.widths import SHARE, _features, _regression
from hydra_dse.estimator.intervals import LOADS, ErrorModel, intervals_of, pressure

PAGE = (DOCS / "validation.md").read_text()


@pytest.fixture(scope="module")
def rows() -> list[Comparison]:
    return comparisons("test")


@pytest.mark.slow
def test_the_test_set_has_forty_configurations_in_every_band(rows: list[Comparison]) -> None:
    for band in range(len(BANDS)):
        assert len({row.name for row in rows if row.band == band}) >= 40


@pytest.mark.slow
@pytest.mark.parametrize("target", targets.TARGETS, ids=lambda target: target.metric)
def test_median_errors_are_those_that_the_page_states(target: targets.Target, rows: list[Comparison]) -> None:
    [line] = [line for line in PAGE.splitlines() if line.startswith(f"| {target.metric} |") and "asked" in line][:1]
    stated = [float(value) / 100 for value in re.findall(r"\| ([0-9.]+) \(asked", line)]
    found = [cell.median for cell in targets.by_band(rows, target.metric)]
    assert found == pytest.approx(stated, abs=5e-3)


@pytest.mark.slow
def test_saturation_is_within_what_is_asked_on_unseen_configurations(rows: list[Comparison]) -> None:
    errors = np.abs([row.error for row in rows if row.metric == "saturation_requests_per_s"])
    assert np.median(errors) <= 0.02
    assert np.quantile(errors, 0.9) <= 0.06


def test_a_missed_target_is_said_to_be_missed() -> None:
    def one(error: float) -> Comparison:
        return Comparison("a", "chunked", "Poisson", 0.5, False, "ttft_mean_s", 1.0 + error, 1.0, 0.0, True, "")

    [met] = [line for line in targets.table([one(0.01)]) if line.startswith("| ttft_mean_s")]
    [missed] = [line for line in targets.table([one(0.2)]) if line.startswith("| ttft_mean_s")]
    assert "1.0 (asked 5: met)" in met
    assert "20.0 (asked 5: **missed**)" in missed


def test_coverage_counts_simulated_values_inside_the_interval() -> None:
    def one(covered: bool) -> Comparison:
        return Comparison("a", "chunked", "Poisson", 0.5, False, "ttft_mean_s", 1.0, 1.0, 0.0, covered, "")

    table = coverage([one(True), one(True), one(False), one(True)], lambda row: row.policy)
    assert "| ttft_mean_s | 75 % of 4 | 75 % of 4 |" in table


def test_fitted_widths_hold_nine_tenths_of_what_they_are_fitted_to() -> None:
    rng = np.random.default_rng(6)
    loads = rng.uniform(0.3, 0.95, 400)
    features = np.array([_features(load, 0.0, 0.0, 0.0) for load in loads])
    widths = rng.exponential(0.05 + 0.2 * loads)
    found = _regression(features, widths, np.ones(400))
    covered = widths <= np.interp(loads, LOADS, found.at_loads)
    assert covered.mean() == pytest.approx(SHARE, abs=0.02)
    assert list(found.at_loads) == sorted(found.at_loads)


def test_features_at_a_node_give_the_value_there() -> None:
    # Values at the loads are sums of increments: at a node all up to it count in full.
    assert _features(LOADS[2], 0.0, 0.0, 0.0)[: len(LOADS)].tolist() == [1.0, 1.0, 1.0, 0.0, 0.0]


def test_intervals_widen_with_load_burstiness_and_full_memory() -> None:
    def width(load: float, scv: float, used: float) -> float:
        metrics = {name: np.array([1.0]) for name in ("ttft_mean_s",)} | {"load": np.array([load])}
        low, high = intervals_of(metrics | {"kv_occupancy": np.array([used])}, scv, 0.0)
        assert low["ttft_mean_s"][0] == pytest.approx(1.0 / high["ttft_mean_s"][0])
        return float(high["ttft_mean_s"][0]) - 1.0

    assert width(0.5, 1.0, 0.0) < width(0.9, 1.0, 0.0) < width(0.9, 4.0, 0.0)
    assert width(0.9, 1.0, 0.0) < width(0.9, 1.0, 0.9)
    assert pressure({"load": np.array([0.5]), "kv_occupancy": np.array([0.5])})[0] == pytest.approx(0.5)
    assert ErrorModel((0.1,) * 5).per_dispersion == 0.0


def test_rank_correlations_are_those_of_small_cases() -> None:
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 90.0])) == pytest.approx(1.0)
    assert spearman(np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])) == pytest.approx(-1.0)


def test_order_at_the_top_counts_only_pairs_that_simulation_tells_apart() -> None:
    # Runs share their requests: the second is 1 % above the first in every run, though each alone is ±20 %.
    noise = np.array([0.9, 1.1, 0.95, 1.05])
    rates = np.array([noise, 1.01 * noise, 10.0 + noise])
    right, swapped = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 3.0])
    assert kendall(rates, right, paired=False) == (1.0, 2)
    assert kendall(rates, swapped, paired=False) == (1.0, 2)
    assert kendall(rates, right, paired=True) == (1.0, 3)
    assert kendall(rates, swapped, paired=True) == (pytest.approx(1.0 / 3.0), 3)
