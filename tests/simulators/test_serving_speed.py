"""The stated load of the speed benchmark: both modes give the same records, few events stand for many iterations."""

from __future__ import annotations

import pytest

from benchmarks.serving_speed import OUTPUT, POINTS, Case, case, naive


@pytest.fixture(
    scope="module", params=[(point, serving) for point in POINTS for serving in ("colocated", "disaggregated")]
)
def busy(request: pytest.FixtureRequest) -> Case:
    return case(*request.param, requests=250)


@pytest.mark.slow
def test_both_modes_give_the_same_records_on_packages_at_85_percent_load(busy: Case) -> None:
    fast, stepped = busy.run(), busy.run(fast=False)
    assert fast.visits == stepped.visits
    assert fast.records() == stepped.records()
    assert fast.count == len(fast.records())


@pytest.mark.slow
def test_a_run_takes_far_fewer_events_than_tokens(busy: Case) -> None:
    assert busy.events() < 0.1 * 250 * OUTPUT


@pytest.mark.slow
def test_the_naive_model_serves_the_same_requests() -> None:
    assert naive(case("small", "colocated", requests=40)) == 40
