"""Properties that every estimate must have, over both serving policies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.estimator import EstimateTable, estimate
from hydra_dse.estimator.estimate import ClassSlo
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.results import metric
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints, Slo
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points

FAST, SLOW = System(tc=4e-5), System(tw=9e-3, tc=2e-4, tssm=3e-5)
POLICIES = ("disaggregated", "chunked", "prefill_first")


def profile(policy: str, systems: list[System] | None = None, **keywords: object) -> ServiceProfile:
    systems = systems or [FAST]
    if policy == "disaggregated":
        return profile_of({"prefill": systems, "decode": systems}, **keywords)  # type: ignore[arg-type]
    return profile_of({"serve": systems}, batching=policy, **keywords)  # type: ignore[arg-type]


def at_load(policy: str, load: float, lengths: LengthPoints, cv: float = 1.0, **keywords: object) -> EstimateTable:
    built = profile(policy, **keywords)
    saturation = estimate(built, ArrivalStatistics(0.01), lengths, percentiles=False).metrics
    rate = load * float(saturation["saturation_requests_per_s"][0])
    return estimate(built, ArrivalStatistics(rate, cv), lengths)


def value(table: EstimateTable, name: str) -> float:
    return float(table.metrics[name][0])


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cv", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_no_metric_is_missing_or_negative_below_saturation(policy: str, cv: float, chat: LengthPoints) -> None:
    for load in (0.001, 0.2, 0.6, 0.9, 0.97, 0.9999):
        table = at_load(policy, load, chat, cv)
        for name, values in table.metrics.items():
            assert np.isfinite(values).all(), (name, load)
            assert (values >= 0).all(), (name, load)
        assert table.violations == ((),)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_overloaded_design_names_demand_and_bound_and_has_no_latency(policy: str, chat: LengthPoints) -> None:
    table = at_load(policy, 1.5, chat)
    violation = table.violations[0][0]
    assert violation.constraint == "offered load"
    assert violation.excess == pytest.approx(0.5, rel=1e-6)
    assert violation.unit == "req/s"
    assert np.isnan(value(table, "ttft_mean_s"))
    assert value(table, "throughput_requests_per_s") == value(table, "saturation_requests_per_s")
    assert table.evaluation(0).metrics["ttft_p99_s"] is None
    assert value(table, "batch_mean") > 0
    assert value(table, "power_w") > 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("cv", [1.0, 2.0])
def test_latencies_do_not_depend_on_overloaded_designs_beside(policy: str, cv: float, chat: LengthPoints) -> None:
    arrivals, slo = ArrivalStatistics(1.1 * float(_saturation(policy, [SLOW], chat)[0]), cv), Slo(1.0, 0.05)
    both = estimate(profile(policy, [SLOW, FAST, SLOW]), arrivals, chat, slo)
    alone = estimate(profile(policy, [FAST]), arrivals, chat, slo)
    assert both.metrics["load"][0] > 1.0 > both.metrics["load"][1]
    for name, values in alone.metrics.items():
        assert both.metrics[name][1] == pytest.approx(values[0], rel=1e-9), name
    for kind in ("ttft", "tpot", "tbt", "e2e"):
        assert np.isnan(both.metrics[f"{kind}_p99_s"][[0, 2]]).all()
    assert (both.metrics["slo_attainment"][[0, 2]] == 0.0).all()
    crowded = estimate(profile(policy, [SLOW, SLOW]), arrivals, chat, slo)
    assert list(crowded.metrics) == list(both.metrics)


def _saturation(policy: str, systems: list[System], lengths: LengthPoints) -> np.ndarray:
    slow = estimate(profile(policy, systems), ArrivalStatistics(0.01), lengths, percentiles=False)
    return slow.metrics["saturation_requests_per_s"]


@pytest.mark.parametrize("policy", POLICIES)
def test_throughput_equals_the_offered_rate_below_saturation(policy: str, chat: LengthPoints) -> None:
    table = at_load(policy, 0.8, chat)
    assert value(table, "throughput_requests_per_s") == value(table, "offered_requests_per_s")
    assert value(table, "load") == pytest.approx(0.8, rel=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("load", [0.3, 0.8])
def test_littles_law_joins_batch_and_decode_time(policy: str, load: float, chat: LengthPoints) -> None:
    table = at_load(policy, load, chat)
    decoding_s = value(table, "e2e_mean_s") - value(table, "ttft_mean_s")
    held = value(table, "batch_mean") / value(table, "offered_requests_per_s")
    # Beside decoding itself a request may wait for a slot and for its first iteration.
    assert held <= decoding_s * (1 + 1e-9)
    assert held == pytest.approx(decoding_s, rel=0.06)


@pytest.mark.parametrize("policy", POLICIES)
def test_metric_names_are_known(policy: str, chat: LengthPoints) -> None:
    table = at_load(policy, 0.5, chat)
    for name in table.metrics:
        assert metric(name).name == name


@pytest.mark.parametrize("policy", POLICIES)
def test_percentiles_are_ordered_and_enclose_the_mean(policy: str, chat: LengthPoints) -> None:
    table = at_load(policy, 0.7, chat)
    for kind in ("ttft", "tpot", "tbt", "e2e"):
        p50, p90, p99 = (value(table, f"{kind}_{name}_s") for name in ("p50", "p90", "p99"))
        assert 0 < p50 <= p90 <= p99
        assert value(table, f"{kind}_mean_s") < p99


@pytest.mark.parametrize("policy", POLICIES)
def test_a_batch_of_designs_gives_what_single_designs_give(policy: str) -> None:
    rng = np.random.default_rng(8)
    lengths = points(lognormal(rng, 900, 1.0, 500), lognormal(rng, 150, 0.8, 500))
    systems = [System(tw=rng.uniform(3e-3, 2e-2), tc=10 ** rng.uniform(-4.6, -3.6)) for _ in range(12)]
    batches = [float(b) for b in rng.choice([2, 4, 8, 16, 32, 64, 200], 12)]
    together = estimate(profile(policy, systems, max_batch=batches), ArrivalStatistics(0.8), lengths)
    for i, system in enumerate(systems):
        alone = estimate(profile(policy, [system], max_batch=batches[i]), ArrivalStatistics(0.8), lengths)
        for name, values in together.metrics.items():
            assert np.allclose(values[i], alone.metrics[name][0], rtol=1e-9, atol=1e-15, equal_nan=True), name


@pytest.mark.parametrize("policy", POLICIES)
def test_latencies_grow_with_the_rate(policy: str, chat: LengthPoints) -> None:
    loads = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95)
    tables = [at_load(policy, load, chat) for load in loads]
    for name in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s", "batch_mean"):
        found = [value(table, name) for table in tables]
        assert (np.diff(found) > -1e-9 * np.array(found[1:])).all(), (name, found)


@pytest.mark.parametrize("policy", POLICIES)
def test_saturation_grows_with_batch_limit_speed_and_memory(policy: str, chat: LengthPoints) -> None:
    def saturation(**keywords: object) -> float:
        return value(estimate(profile(policy, **keywords), ArrivalStatistics(0.1), chat), "saturation_requests_per_s")

    by_batch = [saturation(max_batch=b) for b in (1, 2, 4, 8, 16, 32, 64)]
    assert (np.diff(by_batch) > 0).all()
    assert saturation(systems=[FAST]) > saturation(systems=[SLOW])
    by_memory = [saturation(memory_tokens=m, max_batch=32) for m in (8e3, 2e4, 5e4, 1e6)]
    assert (np.diff(by_memory) > -1e-9).all()
    assert by_memory[0] < 0.8 * by_memory[-1]


@pytest.mark.parametrize("policy", POLICIES)
def test_bursty_arrivals_wait_longer_and_regular_ones_shorter(policy: str, chat: LengthPoints) -> None:
    waits = [value(at_load(policy, 0.8, chat, cv), "ttft_mean_s") for cv in (0.0, 0.5, 1.0, 1.5, 2.5)]
    assert (np.diff(waits) > 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_of_one_output_token_have_no_decode_phase(policy: str) -> None:
    lengths = LengthPoints(np.array([500.0, 900.0]), np.ones(2), np.array([0.5, 0.5]))
    table = at_load(policy, 0.5, lengths)
    assert value(table, "e2e_mean_s") == pytest.approx(value(table, "ttft_mean_s"), rel=1e-9)
    assert value(table, "batch_mean") == pytest.approx(0.0, abs=1e-6)
    assert np.isfinite(value(table, "energy_j_per_token"))
    assert np.isnan(value(table, "tpot_mean_s")) and np.isnan(value(table, "tbt_p90_s"))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_lone_request_of_fixed_length_takes_what_its_iterations_take(policy: str) -> None:
    lengths = LengthPoints(np.array([1000.0]), np.array([101.0]), np.array([1.0]))
    table = estimate(profile(policy), ArrivalStatistics(1e-5), lengths)
    prompt_s = FAST.time(0, 0.0, 1000, 1000 * 500.0)
    assert value(table, "ttft_mean_s") == pytest.approx(prompt_s, rel=1e-3)
    assert value(table, "ttft_p99_s") == pytest.approx(prompt_s, rel=1e-2)
    step_s = FAST.time(1, 1000 + 50.5, 0, 0.0)
    assert value(table, "tpot_mean_s") == pytest.approx(step_s, rel=1e-3)
    assert value(table, "e2e_mean_s") == pytest.approx(prompt_s + 100 * step_s, rel=1e-3)


def test_long_prompts_take_as_many_chunks_as_the_budget_asks_for() -> None:
    lengths = LengthPoints(np.array([5000.0]), np.array([11.0]), np.array([1.0]))
    table = estimate(profile("disaggregated", token_budget=2048), ArrivalStatistics(1e-5), lengths)
    chunks = [(2048, 2048 * 1024.0), (2048, 2048 * (2048 + 1024.0)), (904, 904 * (4096 + 452.0))]
    expected = sum(FAST.time(0, 0.0, tokens, pairs) for tokens, pairs in chunks)
    assert value(table, "ttft_mean_s") == pytest.approx(expected, rel=1e-3)


def test_the_saturation_of_a_lone_decode_slot_is_the_inverse_of_its_service_time() -> None:
    lengths = LengthPoints(np.array([10.0]), np.array([1001.0]), np.array([1.0]))
    table = estimate(profile("disaggregated", max_batch=1, shared=False), ArrivalStatistics(1e-3), lengths)
    service_s = 1000 * FAST.time(1, 10 + 500.5, 0, 0.0)
    assert value(table, "saturation_requests_per_s") == pytest.approx(1 / service_s, rel=0.02)


def test_a_prefill_pool_far_slower_than_decode_bounds_saturation_by_its_packed_rate() -> None:
    lengths = LengthPoints(np.array([1024.0]), np.array([5.0]), np.array([1.0]))
    table = estimate(profile("disaggregated", token_budget=2048, shared=False), ArrivalStatistics(1e-3), lengths)
    full_s = FAST.time(0, 0.0, 2048, 2 * 1024 * 512.0)
    assert value(table, "saturation_requests_per_s") == pytest.approx(2 / full_s, rel=0.01)


def test_contention_lowers_saturation(chat: LengthPoints) -> None:
    apart, shared = (
        estimate(profile("disaggregated", shared=shared), ArrivalStatistics(0.1), chat) for shared in (False, True)
    )
    assert value(shared, "saturation_requests_per_s") < value(apart, "saturation_requests_per_s")


def test_a_handoff_adds_to_the_time_between_first_and_second_token(chat: LengthPoints) -> None:
    plain, moved = (estimate(profile("disaggregated", handoff_s=h), ArrivalStatistics(0.1), chat) for h in (0.0, 0.2))
    assert value(moved, "ttft_mean_s") == pytest.approx(value(plain, "ttft_mean_s"), rel=1e-6)
    assert value(moved, "e2e_mean_s") - value(plain, "e2e_mean_s") == pytest.approx(0.2, rel=1e-3)


def test_memory_that_does_not_hold_one_request_is_a_violation(chat: LengthPoints) -> None:
    table = estimate(profile("disaggregated", memory_tokens=500), ArrivalStatistics(0.1), chat)
    assert table.violations[0][0].constraint == "cache memory of one request"
    assert np.isnan(value(table, "ttft_mean_s"))
    assert np.isfinite(value(table, "area_mm2"))


@pytest.mark.parametrize("policy", POLICIES)
def test_occupancies_never_exceed_the_memory(policy: str, chat: LengthPoints) -> None:
    for load in (0.3, 0.9, 1.7):
        table = at_load(policy, load, chat, memory_tokens=3e4, state_tokens=500.0, max_batch=64)
        total = value(table, "kv_occupancy") + value(table, "state_occupancy")
        assert 0 < total <= 1 + 1e-12


def test_goodput_is_the_share_that_meets_the_slo(chat: LengthPoints) -> None:
    built, arrivals = profile("disaggregated"), ArrivalStatistics(2.0)
    plain = estimate(built, arrivals, chat)
    slo = Slo(ttft_s=value(plain, "ttft_p90_s"))
    table = estimate(built, arrivals, chat, slo)
    assert value(table, "slo_attainment") == pytest.approx(0.9, abs=0.01)
    assert value(table, "goodput_requests_per_s") == pytest.approx(2.0 * value(table, "slo_attainment"))


def test_attainment_of_classes_is_weighted_with_their_shares(chat: LengthPoints) -> None:
    slos = (ClassSlo(0.25, Slo(ttft_s=1e-9)), ClassSlo(0.75, Slo(ttft_s=1e9)))
    table = estimate(profile("chunked"), ArrivalStatistics(1.0), chat, class_slos=slos)
    assert value(table, "slo_attainment") == pytest.approx(0.75)


def test_the_highest_rate_attains_the_slo_just_so(chat: LengthPoints) -> None:
    built, slo = profile("disaggregated"), Slo(ttft_s=0.5, tpot_s=0.02, percentile=0.9)
    highest = value(estimate(built, ArrivalStatistics(1.0), chat, slo, max_rate=True), "max_rate_requests_per_s")
    attained = [
        value(estimate(built, ArrivalStatistics(highest * f), chat, slo), "slo_attainment") for f in (0.98, 1.02)
    ]
    assert attained[0] >= 0.9 > attained[1]


def test_sjf_shortens_the_mean_wait_of_prompts(chat: LengthPoints) -> None:
    fcfs = at_load("disaggregated", 0.85, chat, max_batch=64, systems=[System(tc=4e-4)])
    sjf = at_load("disaggregated", 0.85, chat, max_batch=64, systems=[System(tc=4e-4)], scheduling="sjf")
    assert value(sjf, "ttft_mean_s") < value(fcfs, "ttft_mean_s")
    assert value(sjf, "saturation_requests_per_s") == value(fcfs, "saturation_requests_per_s")


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_no_rate_is_an_input_error(rate: float, chat: LengthPoints) -> None:
    with pytest.raises(InputError, match="arrival rate"):
        estimate(profile("chunked"), ArrivalStatistics(rate), chat)


def test_arrivals_outside_the_validated_range_are_noted(chat: LengthPoints) -> None:
    assert "CV 13" in estimate(profile("chunked"), ArrivalStatistics(0.1, 13.0), chat).notes[0]
    assert not estimate(profile("chunked"), ArrivalStatistics(0.1, 2.0), chat).notes


def test_intervals_enclose_the_estimate_and_widen_with_load(chat: LengthPoints) -> None:
    widths = []
    for load in (0.3, 0.8, 0.93):
        table = at_load("disaggregated", load, chat)
        for name in table.low:
            assert table.low[name][0] <= value(table, name) <= table.high[name][0], name
        widths.append(table.high["ttft_mean_s"][0] / table.low["ttft_mean_s"][0])
    assert widths[0] < widths[1] < widths[2]


@pytest.mark.parametrize("policy", POLICIES)
def test_one_design_that_cannot_serve_leaves_its_neighbours_as_they_are(policy: str, chat: LengthPoints) -> None:
    broken = System(t0=float("nan"))
    both = estimate(profile(policy, [FAST, broken]), ArrivalStatistics(0.5), chat)
    alone = estimate(profile(policy, [FAST]), ArrivalStatistics(0.5), chat)
    for name, values in alone.metrics.items():
        assert both.metrics[name][0] == pytest.approx(values[0], rel=1e-9), name
    assert np.isnan(both.metrics["ttft_mean_s"][1])


def test_a_cache_smaller_than_one_block_is_infeasible(chat: LengthPoints) -> None:
    room = profile("chunked")
    whole = replace(room, block_tokens=np.full(1, 1e13))
    table = estimate(whole, ArrivalStatistics(0.01), chat)
    [violation] = table.violations[0]
    assert violation.constraint == "cache memory of one request"
    assert violation.demand == pytest.approx(
        float(whole.kv_bytes_per_token[0] * 1e13 + whole.state_bytes_per_sequence[0]), rel=1e-9
    )
