"""Several models in the estimator: coupling against closed forms and limits, conservation, and the simulator."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.presence import at_level, decoding, prompting, seen
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.placement import place_design
from hydra_dse.policy import Policy
from hydra_dse.results import metric
from hydra_dse.workload import (
    Piecewise,
    RequestClass,
    Slo,
    Workload,
    at_rate,
    poisson,
)
from hydra_dse.workload.by_model import thinned
from hydra_dse.workload.nouns import ArrivalStatistics

CALIBRATION = load_calibration("default")
HYBRID, TRANSFORMER = "nemotron-h-8b", "llama-3.1-8b"
COLOCATED = Policy(serving="colocated", max_batch=16, token_budget=1024)
SPLIT = Policy(serving="disaggregated", max_batch=16, token_budget=1024)


@cache
def mixed(shares: tuple[float, float] = (0.5, 0.5), names: tuple[str, str] = (HYBRID, TRANSFORMER)) -> Workload:
    lengths = load_workload("hydra-chat").classes[0].lengths
    slo = Slo(ttft_s=2.0, tpot_s=0.05)
    classes = tuple(RequestClass(f"c{at}", lengths, share, slo, model_index=at) for at, share in enumerate(shares))
    return Workload("mix", tuple(load_model(name) for name in names), poisson(1.0), classes)


def alone(load: Workload, model: int) -> Workload:
    kind = replace(load.classes[model], share=1.0, model_index=0)
    return replace(load, models=(load.models[model],), classes=(kind,))


@cache
def design(policy: Policy = COLOCATED) -> Design:
    name = "h100" if policy.serving == "colocated" else "hydra-24-nemotron-chat"
    return replace(load_design(name), policy=policy)


def solve(load: Workload, *designs: Design, **options: bool) -> EstimateTable:
    return estimate_designs(designs or (design(),), load, CALIBRATION, **options)


def saturation(load: Workload, *designs: Design) -> float:
    return float(solve(load, *designs, percentiles=False).metrics["saturation_requests_per_s"][0])


# -- when both have work -------------------------------------------------------------------------------------------


def test_two_prompt_queues_of_equal_speed_are_busy_together_as_under_processor_sharing() -> None:
    """Two classes in M/M/1-PS of loads a and b: P(none) = 1 − a − b, P(no first) = 1 − a/(1 − b)."""
    a, b = 0.36, 0.36
    rates = (np.array([a]), np.array([b]))
    found = prompting(rates, rates, (np.array([2 * a]), np.array([2 * b])))[0]
    assert found[0, 0] == pytest.approx(1.0 - a - b)
    assert found[0].sum() == pytest.approx((1.0 - a - b) / (1.0 - b) * 1.0, rel=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_models_that_do_not_slow_each_other_are_independent() -> None:
    """Two M/M/∞: the joint distribution is the product of two Poisson ones."""
    rates = (np.array([1.0]), np.array([3.0]))
    numbers = (np.array([0.7]), np.array([1.1]))
    found = decoding(rates, numbers, numbers)[0]
    first, second = found.sum(axis=1), found.sum(axis=0)
    assert np.allclose(found, np.outer(first, second))
    assert first[0] == pytest.approx(np.exp(-0.7), rel=1e-5)
    assert second[0] == pytest.approx(np.exp(-1.1), rel=1e-4)


def test_models_that_slow_each_other_have_work_together_more_often_than_by_chance() -> None:
    rates = (np.array([0.44]), np.array([0.73]))
    found = decoding(rates, (np.array([0.7]), np.array([0.9])), (np.array([1.9]), np.array([1.5])))[0]
    busy = found[1:].sum(), found[:, 1:].sum()
    assert found[1:, 1:].sum() > 1.05 * busy[0] * busy[1]
    shares = seen(found[None], True)[0]
    assert shares[0] < shares[1] < shares[4]


def test_shares_are_interpolated_between_numbers_of_requests() -> None:
    shares = np.array([[0.1, 0.3, 0.5]])
    found = at_level(shares, np.array([[0.0, 0.5, 1.75, 9.0]]))[0]
    assert found.tolist() == pytest.approx([0.1, 0.2, 0.45, 0.5])


def test_thinned_arrivals_keep_the_part_of_the_burstiness_that_their_share_leaves() -> None:
    """Squared CV of a geometric sum of gaps: s·c² + 1 − s; a deterministic process thinned to nothing is Poisson."""
    assert thinned(ArrivalStatistics(4.0, 2.0), 0.25).cv ** 2 == pytest.approx(0.25 * 4.0 + 0.75)
    assert thinned(ArrivalStatistics(4.0, 0.0), 1e-9).cv == pytest.approx(1.0)
    assert thinned(ArrivalStatistics(4.0, 1.0), 0.25) == ArrivalStatistics(1.0, 1.0)


# -- limits and conservation ---------------------------------------------------------------------------------------


def test_two_equal_models_share_weights_and_equal_one_model_at_the_full_rate() -> None:
    double = mixed(names=(HYBRID, HYBRID))
    one, two = solve(alone(double, 0)), solve(double)
    for name, values in one.metrics.items():
        assert np.allclose(values, two.metrics[name], rtol=1e-3, equal_nan=True), name


@pytest.mark.slow
@pytest.mark.parametrize("policy", [COLOCATED, SPLIT], ids=["colocated", "disaggregated"])
def test_a_model_with_hardly_any_requests_leaves_the_other_as_if_alone(policy: Policy) -> None:
    """No weights in SRAM, of which the other model would take its part, and the same placement."""
    load = at_rate(mixed((1.0 - 1e-6, 1e-6)), 1.0)
    streaming = replace(design(policy), mapping=replace(design(policy).mapping, sram_weight_share=0.0))
    placed, _ = place_design(streaming, load.models, 0)
    both = solve(load, placed).metrics
    single = solve(at_rate(alone(load, 0), 1.0), placed).metrics
    for name in ("ttft_mean_s", "tpot_mean_s", "e2e_p90_s", "saturation_requests_per_s"):
        assert both[name] == pytest.approx(single[name], rel=0.02), name


@pytest.mark.slow
@pytest.mark.parametrize("policy", [COLOCATED, SPLIT], ids=["colocated", "disaggregated"])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_time_sharing_saturates_no_higher_than_each_alone_weighted_by_its_work(policy: Policy, share: float) -> None:
    load = mixed((share, 1.0 - share))
    rates = [saturation(alone(load, model), design(policy)) for model in (0, 1)]
    bound = 1.0 / (share / rates[0] + (1.0 - share) / rates[1])
    found = saturation(load, design(policy))
    assert 0.5 * bound < found <= 1.02 * bound


def test_requests_and_tokens_are_conserved_over_the_models() -> None:
    load = at_rate(mixed((0.3, 0.7)), 2.0)
    found = {name: float(values[0]) for name, values in solve(load).metrics.items()}
    for name in ("throughput_requests_per_s", "throughput_tokens_per_s", "offered_requests_per_s", "batch_mean"):
        assert found[f"{name}@{HYBRID}"] + found[f"{name}@{TRANSFORMER}"] == pytest.approx(found[name]), name
    assert found["throughput_requests_per_s"] == pytest.approx(2.0)
    assert found[f"load@{HYBRID}"] == pytest.approx(found["load"])
    own = 0.3 * found[f"ttft_mean_s@{HYBRID}"] + 0.7 * found[f"ttft_mean_s@{TRANSFORMER}"]
    assert own == pytest.approx(found["ttft_mean_s"])
    for name in found:
        metric(name)


@pytest.mark.slow
def test_one_design_and_a_batch_of_designs_are_estimated_alike() -> None:
    load = at_rate(mixed(), 1.5)
    designs = [design(replace(COLOCATED, max_batch=batch)) for batch in (8, 16, 32)]
    together = solve(load, *designs).metrics
    single = solve(load, designs[1]).metrics
    for name, values in single.items():
        assert values[0] == pytest.approx(together[name][1], rel=1e-3, nan_ok=True), name


@pytest.mark.slow
def test_waits_grow_with_the_rate_and_overload_is_a_violation() -> None:
    load = mixed()
    limit = saturation(load)
    waits = [float(solve(at_rate(load, part * limit)).metrics["ttft_mean_s"][0]) for part in (0.2, 0.5, 0.8)]
    assert waits == sorted(waits)
    over = solve(at_rate(load, 1.2 * limit))
    [violation] = over.violations[0]
    assert violation.demand == pytest.approx(1.2 * limit)
    assert np.isnan(over.metrics["ttft_mean_s"][0])


@pytest.mark.slow
def test_attainment_and_the_highest_rate_cover_the_promises_to_both_models() -> None:
    found = solve(at_rate(mixed(), 1.0), max_rate=True).metrics
    assert 0.0 < found["max_rate_requests_per_s"][0] <= found["saturation_requests_per_s"][0]
    both = [float(found[f"slo_attainment@{name}"][0]) for name in (HYBRID, TRANSFORMER)]
    assert float(np.mean(both)) == pytest.approx(float(found["slo_attainment"][0]))


# -- dies, memory, refusals ----------------------------------------------------------------------------------------


def apart() -> Design:
    whole = replace(design(SPLIT), policy=COLOCATED)
    plain = tuple(replace(group, families=(), phase="any") for group in whole.package.dies)
    own = {HYBRID: ("Mp", "Md"), TRANSFORMER: ("Ap", "Ad")}
    return replace(whole, package=replace(whole.package, dies=plain), mapping=replace(whole.mapping, models=own))


@pytest.mark.slow
def test_models_on_dies_of_their_own_are_paced_by_the_slower_one_for_its_share() -> None:
    """Two dies for half of the requests: they limit the mix, slowed by what the stacks are shared for."""
    load = mixed()
    limits = [saturation(alone(load, model), apart()) for model in (0, 1)]
    found = saturation(load, apart())
    assert found <= 2.0 * min(limits) * 1.001
    assert found > min(limits)


@pytest.mark.slow
def test_weights_that_do_not_fit_together_are_a_violation_with_demand_and_capacity() -> None:
    one = design(SPLIT)
    group = one.package.memories[0]
    few = replace(group, count=1, stack=replace(group.stack, capacity_bytes=20e9))
    tight = replace(one, package=replace(one.package, memories=(few,)))
    table = solve(mixed(), tight)
    [violation] = table.violations[0]
    assert violation.demand > violation.bound == pytest.approx(few.stack.capacity_bytes)
    assert HYBRID in violation.constraint and TRANSFORMER in violation.constraint
    assert np.isnan(table.metrics["ttft_mean_s"][0])


def test_several_models_under_a_load_that_changes_in_time_are_refused() -> None:
    changing = replace(mixed(), arrivals=Piecewise((1.0, 2.0), (60.0, 60.0)))
    with pytest.raises(InputError, match="changes in time and mixes the models"):
        solve(changing)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [COLOCATED, SPLIT], ids=["colocated", "disaggregated"])
def test_estimates_are_near_the_simulator(policy: Policy) -> None:
    """At half of saturation; the package simulator has no part of the coupling in common."""
    from hydra_dse.design.evaluator import EvaluationOptions
    from simulators.serving import ServingSimulator

    load = mixed((0.4, 0.6))
    placed, _ = place_design(design(policy), load.models, 0)
    load = at_rate(load, 0.5 * saturation(load, placed))
    options = EvaluationOptions(requests=2500, replications=2)
    [simulated] = ServingSimulator().evaluate([placed], load, CALIBRATION, options, 1)
    estimated = solve(load, placed).metrics
    for name, bound in (("saturation_requests_per_s", 0.06), ("tpot_mean_s", 0.08), ("ttft_mean_s", 0.25)):
        assert float(estimated[name][0]) == pytest.approx(simulated.metrics[name] or 0.0, rel=bound), name
