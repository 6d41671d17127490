"""The simulator as an evaluator: metrics, intervals, violations, common random numbers, same bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design, Placement
from hydra_dse.errors import InputError
from hydra_dse.mapping import map_design
from hydra_dse.policy import Policy
from hydra_dse.results import Evaluation, metric
from hydra_dse.workload import RequestClass, Slo, Workload, fixed, poisson
from simulators.iteration import Attended, Composition
from simulators.noi import fair_speeds
from simulators.package import PackageCost, PlacedHardware
from simulators.serving import ServingSimulator

# On the 3 × 3 mesh: dies in a cross, stacks in the corners.
SLOTS = (4, 1, 3, 5, 7, 0, 2, 6, 8)
OPTIONS = EvaluationOptions(requests=60, replications=2, rate_per_s=0.5)


@cache
def design(max_batch: int = 8) -> Design:
    space = load_space("small-9")
    point = space.complete({"hbm": 4, "Ap": 1, "Ad": 1, "Mp": 1, "link_gb_per_s": 512, "max_batch": max_batch})
    assert point is not None
    return replace(space.build(point), placement=Placement(SLOTS))


@cache
def workload() -> Workload:
    chat = load_workload("azure-conversation")
    return replace(chat, models=(load_model("nemotron-h-4b"),))


def evaluate(
    *designs: Design, options: EvaluationOptions = OPTIONS, seed: int = 1, load: Workload | None = None
) -> list[Evaluation]:
    return ServingSimulator().evaluate(designs, load or workload(), load_calibration("default"), options, seed)


def test_every_metric_has_a_registered_name_and_a_sane_value() -> None:
    [result] = evaluate(design())
    assert result.feasible
    assert result.source == "simulated"
    for name, value in result.metrics.items():
        metric(name)
        assert value is None or (np.isfinite(value) and value >= 0.0), name
    shares = [name for name in result.metrics if "utilization" in name or "occupancy" in name]
    assert {"utilization_Ap", "utilization_Md", "hbm_utilization", "noi_utilization_max", "kv_occupancy"} <= set(shares)
    assert all((result.metrics[name] or 0.0) <= 1.0 for name in shares)
    assert (result.metrics["ttft_scheduled_mean_s"] or 0) <= (result.metrics["ttft_mean_s"] or 0)
    assert (
        (result.metrics["ttft_p50_s"] or 0)
        <= (result.metrics["ttft_p90_s"] or 0)
        <= (result.metrics["ttft_p99_s"] or 0)
    )


@pytest.mark.slow
def test_intervals_hold_their_metric() -> None:
    [result] = evaluate(design(), options=replace(OPTIONS, requests=200, replications=3))
    assert {"ttft_mean_s", "tpot_mean_s", "saturation_requests_per_s", "load"} <= set(result.intervals)
    for name, (low, high) in result.intervals.items():
        value = result.metrics[name]
        assert value is not None
        assert low <= value <= high, name


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not() -> None:
    assert repr(evaluate(design())) == repr(evaluate(design()))
    assert repr(evaluate(design())) != repr(evaluate(design(), seed=2))


@pytest.mark.slow
def test_designs_meet_the_same_requests_whatever_their_company() -> None:
    together = evaluate(design(4), design(8))
    assert repr(together) == repr([*evaluate(design(4)), *evaluate(design(8))])
    assert together[0].metrics["offered_requests_per_s"] == together[1].metrics["offered_requests_per_s"]


def test_sampled_arrivals_are_offered_at_exactly_the_stated_rate() -> None:
    [result] = evaluate(design(), options=replace(OPTIONS, saturate=False))
    assert result.metrics["offered_requests_per_s"] == pytest.approx(0.5, rel=1e-9)


@pytest.mark.slow
def test_a_larger_batch_limit_sustains_more() -> None:
    small, large = evaluate(design(2), design(16), options=replace(OPTIONS, requests=128))
    assert (small.metrics["saturation_requests_per_s"] or 0) < (large.metrics["saturation_requests_per_s"] or 0)


def test_weights_that_do_not_fit_are_a_violation_without_metrics() -> None:
    heavy = replace(workload(), models=(load_model("nemotron-h-56b"),))
    [result] = evaluate(design(), load=heavy)
    assert not result.feasible
    assert not result.metrics
    assert any(v.demand > v.bound and v.levers for v in result.violations)


def test_a_request_larger_than_the_cache_is_a_violation_with_its_demand() -> None:
    lengths = fixed(10_000_000, 10)
    huge = replace(workload(), classes=(RequestClass("huge", lengths),), replay=None)
    [result] = evaluate(design(), load=huge)
    [violation] = result.violations
    assert "request" in violation.constraint
    assert violation.demand > violation.bound > 0


def test_an_overloaded_run_is_reported_as_measured_and_says_so() -> None:
    [result] = evaluate(design(), options=replace(OPTIONS, rate_per_s=200.0))
    assert (result.metrics["load"] or 0) > 1
    assert result.metrics["ttft_mean_s"] is not None
    assert any("overloaded" in note for note in result.notes)


def test_arrivals_so_dense_that_none_ends_while_they_come_say_that_their_rates_are_of_no_busy_system() -> None:
    few = EvaluationOptions(requests=60, replications=1)
    [result] = evaluate(design(), options=replace(few, rate_per_s=1e6))
    [usual] = evaluate(design(), options=few)
    assert result.metrics["throughput_requests_per_s"] == 0.0
    assert any("no request ends between the first counted arrival and the last" in note for note in result.notes)
    assert not any("no request ends" in note for note in usual.notes)


def test_a_design_without_placement_is_refused() -> None:
    with pytest.raises(InputError, match="placement"):
        evaluate(replace(design(), placement=None))


def test_service_levels_count_the_requests_that_met_both_bounds() -> None:
    lengths = workload().classes[0].lengths
    easy = RequestClass("easy", lengths, slo=Slo(ttft_s=1e6, tpot_s=1e6))
    never = RequestClass("never", lengths, slo=Slo(ttft_s=0.0))
    kept, missed = (evaluate(design(), load=replace(workload(), classes=(kind,)))[0] for kind in (easy, never))
    assert kept.metrics["slo_attainment"] == 1.0
    assert kept.metrics["goodput_requests_per_s"] == kept.metrics["throughput_requests_per_s"]
    assert missed.metrics["slo_attainment"] == 0.0


def test_equal_requests_at_a_low_rate_see_the_time_of_their_own_iterations() -> None:
    """No queue: TTFT is one prefill iteration, TPOT the mean of the decode steps of a single sequence."""
    alone = replace(workload(), arrivals=poisson(1e-4), classes=(RequestClass("one", fixed(300, 20)),), replay=None)
    [result] = evaluate(design(), load=alone, options=replace(OPTIONS, rate_per_s=None, saturate=False))
    model, placed = alone.models[0], design()
    hardware = PlacedHardware(placed, map_design(placed, model), load_calibration("default"), model.precision)
    prefill, decode = PackageCost(hardware, "prefill"), PackageCost(hardware, "decode")
    first = prefill.work(Composition(300, 1, 0, 1, Attended(0, 300 * 150.0, 300, 0))).duration_s
    steps = [decode.work(Composition(0, 0, 1, 1, Attended(300 + j, 0.0, 0, 1))).duration_s for j in range(1, 20)]
    assert result.metrics["ttft_mean_s"] == pytest.approx(first, rel=1e-6)
    assert result.metrics["tpot_mean_s"] == pytest.approx(np.mean(steps), rel=1e-6)
    assert result.metrics["e2e_mean_s"] == pytest.approx(first + np.sum(steps), rel=1e-6)
    assert result.metrics["tbt_mean_s"] == pytest.approx(np.mean(steps), rel=1e-6)


@pytest.mark.parametrize("batches", [2, 3])
def test_batches_in_flight_on_a_package_advance_at_the_pace_of_its_busiest_resource(batches: int) -> None:
    model, placed = workload().models[0], design()
    hardware = PlacedHardware(placed, map_design(placed, model), load_calibration("default"), model.precision)
    cost = PackageCost(hardware, "decode")
    work = cost.work(Composition(0, 0, 4, 4, Attended(2000, 0.0, 0, 4)))
    usage = work.usage()
    assert usage is not None
    period = work.duration_s / fair_speeds(np.stack([usage] * batches))
    busiest = float(usage.max()) * work.duration_s
    assert period == pytest.approx([max(work.duration_s, batches * busiest)] * batches)


def test_colocated_policies_run_on_one_pool_of_all_dies() -> None:
    for batching in ("chunked", "prefill_first"):
        policy = Policy(serving="colocated", batching=batching, max_batch=8, token_budget=1024)
        [result] = evaluate(replace(design(), policy=policy))
        assert result.feasible
        assert (result.metrics["batch_mean"] or 0) > 0


def test_a_workload_that_promises_nothing_has_no_attainment() -> None:
    lengths = workload().classes[0].lengths
    [result] = evaluate(design(), load=replace(workload(), classes=(RequestClass("free", lengths),)))
    assert "slo_attainment" not in result.metrics and "goodput_requests_per_s" not in result.metrics


def test_a_run_too_long_for_the_clock_is_refused_in_one_line() -> None:
    rare = replace(OPTIONS, rate_per_s=1e-10, saturate=False)
    with pytest.raises(InputError, match="not resolved to a microsecond; raise the arrival rate"):
        ServingSimulator().evaluate([design()], workload(), load_calibration("default"), rare, 0)


def test_latencies_of_lone_requests_do_not_depend_on_how_rare_they_are() -> None:
    rates = (1e-6, 5e-8)
    found = [
        ServingSimulator()
        .evaluate(
            [design()],
            workload(),
            load_calibration("default"),
            replace(OPTIONS, rate_per_s=rate, replications=1, saturate=False),
            0,
        )[0]
        .metrics
        for rate in rates
    ]
    for name in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s"):
        assert found[0][name] == pytest.approx(found[1][name], rel=1e-4)
