"""Estimates under workloads that change in time, against closed forms, plain loops and separate estimates."""

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.estimate import ClassSlo
from hydra_dse.estimator.lengths import Bins
from hydra_dse.estimator.pieces import estimate_pieces
from hydra_dse.estimator.transient import Transient, dispersion_of, follow, ramp, reflect, settled_load, sliced
from hydra_dse.model.blocks import Model
from hydra_dse.workload import (
    Empirical,
    Replay,
    RequestClass,
    Requests,
    Workload,
    arrival_statistics,
    length_points,
    pieces,
)
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints, Slo
from hydra_dse.workload.pieces import Path, Piece
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal
from tests.estimator.reference_disaggregated import disaggregated
from tests.estimator.reference_engine import Rules

LIFE, HALVES = np.array([50.0]), (0.0, 0.5, 1.0)
NONE = (ClassSlo(1.0, Slo()),)


def apart(count=1, **options):
    return profile_of({"prefill": [System()] * count, "decode": [System()] * count}, **options)


def together(**options):
    return profile_of({"serve": [System()]}, **options)


def fixed(prompt, output):
    return LengthPoints(np.array([float(prompt)]), np.array([float(output)]), np.ones(1))


def course(*steps):
    """Pieces from (rate, duration, lengths)."""
    total = sum(rate * duration for rate, duration, _ in steps)
    return [Piece(rate * t / total, t, ArrivalStatistics(rate, 1.0), lengths) for rate, t, lengths in steps]


def record(times, prompt, output):
    rows = Requests(times, prompt, output, np.zeros(len(prompt), dtype=np.int64))
    kinds = (RequestClass("all", Empirical(prompt, output)),)
    return Workload("record", (Model("m", "test", 64, 100, ()),), Replay(times), kinds, replay=rows)


def solved(profile, parts, slos=NONE, **options):
    table = estimate_pieces(profile, parts, lambda piece: slos, **options)
    return {name: float(values[0]) for name, values in table.metrics.items()}, table


@pytest.mark.parametrize("profile", [apart(), together()], ids=["apart", "together"])
def test_long_equal_pieces_are_one_stationary_workload(profile, chat):
    whole = estimate(profile, ArrivalStatistics(2.0, 1.0), chat)
    found, _ = solved(profile, course((2.0, 1e6, chat), (2.0, 1e6, chat)))
    assert set(found) == set(whole.metrics)
    for name, values in whole.metrics.items():
        if not name.startswith("slo") and name != "goodput_requests_per_s":
            assert found[name] == pytest.approx(values[0], rel=0.01), name


@pytest.mark.parametrize("profile", [apart(), together()], ids=["apart", "together"])
def test_long_light_pieces_are_separate_estimates_weighed_by_requests_and_time(profile, chat):
    first, second = (1.0, 3e5, chat), (3.0, 1e5, fixed(500, 100))
    found, _ = solved(profile, course(first, second))
    alone = [estimate(profile, ArrivalStatistics(rate, 1.0), lengths).metrics for rate, _, lengths in (first, second)]
    for name in ("ttft_mean_s", "e2e_mean_s", "tpot_mean_s"):
        assert found[name] == pytest.approx(sum(one[name][0] for one in alone) / 2, rel=0.01), name
    for name in ("power_w", "batch_mean", "kv_occupancy", "hbm_utilization"):
        assert found[name] == pytest.approx(0.75 * alone[0][name][0] + 0.25 * alone[1][name][0], rel=0.01), name
    assert found["offered_requests_per_s"] == pytest.approx(1.5)
    assert found["energy_j_per_token"] == pytest.approx(found["power_w"] / found["throughput_tokens_per_s"])


def test_saturation_is_the_time_that_all_requests_take_in_their_order():
    profile = apart()
    long, short = fixed(4000, 20), fixed(100, 400)
    found, _ = solved(profile, course((0.5, 1000.0, long), (1.5, 1000.0, short)))
    rates = [
        estimate(profile, ArrivalStatistics(0.5, 1.0), lengths).metrics["saturation_requests_per_s"][0]
        for lengths in (long, short)
    ]
    assert found["saturation_requests_per_s"] == pytest.approx(1 / (0.25 / rates[0] + 0.75 / rates[1]))
    assert found["load"] == pytest.approx(1.0 / found["saturation_requests_per_s"])


def test_percentiles_are_those_of_the_mixture_of_pieces():
    profile = apart()
    found, _ = solved(profile, course((0.05, 1e5, fixed(200, 50)), (0.05, 1e5, fixed(8000, 50))))
    slow = estimate(profile, ArrivalStatistics(0.05, 1.0), fixed(8000, 50)).metrics
    fast = estimate(profile, ArrivalStatistics(0.05, 1.0), fixed(200, 50)).metrics
    # 90 % of all is 80 % of the slow half (a cell of the mixture is 1.6 % wide).
    assert fast["ttft_p99_s"][0] < found["ttft_p90_s"]
    assert slow["ttft_p50_s"][0] * 0.98 <= found["ttft_p90_s"] <= slow["ttft_p90_s"][0] * 1.02


def test_where_every_answer_is_one_token_there_is_no_time_between_tokens():
    found, _ = solved(apart(), course((0.05, 1e5, fixed(200, 1)), (0.05, 1e5, fixed(400, 1))))
    assert np.isnan([found[f"{kind}_{name}_s"] for kind in ("tpot", "tbt") for name in ("mean", "p50", "p99")]).all()
    assert found["e2e_mean_s"] == pytest.approx(found["ttft_mean_s"])


def test_a_rush_that_the_long_run_can_carry_is_feasible_and_waits_as_a_fluid():
    profile = apart(max_batch=256.0)
    lengths = fixed(2048, 2)
    [most] = estimate(profile, ArrivalStatistics(1.0, 1.0), lengths).metrics["saturation_requests_per_s"]
    rush, calm, seconds, rest = 1.5 * most, 0.2 * most, 200.0, 800.0
    found, table = solved(profile, course((rush, seconds, lengths), (calm, rest, lengths)))
    assert table.violations == ((),)
    assert found["load"] == pytest.approx((1.5 * 200 + 0.2 * 800) / 1000, rel=1e-6)
    # Requests wait for those ahead: on average half the peak over the rush; the peak drains at (1 − 0.2)·μ.
    peak_s = 0.5 * seconds
    drain_s = peak_s / 0.8
    area = rush * seconds * peak_s / 2 + calm * drain_s * peak_s / 2
    wait = area / (rush * seconds + calm * rest)
    own = estimate(profile, ArrivalStatistics(calm, 1.0), lengths).metrics["ttft_mean_s"][0]
    # Chance adds no less than nothing and no more than the queue of a load of 1 over the rush, σ√T/2 of a service.
    service = 1 / most
    share = rush * seconds / (rush * seconds + calm * rest)
    chance = share * np.sqrt(service * seconds) / 2 * 1.5
    assert wait < found["ttft_mean_s"] < wait + own + chance
    assert chance < 0.1 * wait


def test_a_rush_of_long_outputs_waits_for_the_decode_pool_as_a_fluid():
    profile = apart(max_batch=8.0, shared=False)
    lengths = fixed(16, 400)
    [most] = estimate(profile, ArrivalStatistics(1.0, 1.0), lengths).metrics["saturation_requests_per_s"]
    rush, calm, seconds, rest = 1.6 * most, 0.2 * most, 400.0, 1600.0
    found, table = solved(profile, course((rush, seconds, lengths), (calm, rest, lengths)))
    assert table.violations == ((),)
    peak = 0.6 * most * seconds
    area = peak * seconds / 2 + peak**2 / (0.8 * most) / 2
    wait = area / (rush * seconds + calm * rest)
    life = estimate(profile, ArrivalStatistics(calm, 1.0), lengths).metrics["e2e_mean_s"][0]
    assert found["e2e_mean_s"] == pytest.approx(wait + life, rel=0.1)


def test_a_long_run_that_is_offered_too_much_is_infeasible(chat):
    profile = apart()
    [most] = estimate(profile, ArrivalStatistics(1.0, 1.0), chat).metrics["saturation_requests_per_s"]
    found, table = solved(profile, course((1.5 * most, 100.0, chat), (0.8 * most, 100.0, chat)))
    assert found["load"] == pytest.approx(1.15)
    assert np.isnan(found["ttft_mean_s"])
    assert [violation.constraint for violation in table.violations[0]] == ["offered load"]


def test_what_a_rush_leaves_is_served_later_and_energy_counts_all_of_it(chat):
    profile = apart()
    [most] = estimate(profile, ArrivalStatistics(1.0, 1.0), chat).metrics["saturation_requests_per_s"]
    found, _ = solved(profile, course((1.4 * most, 100.0, chat), (0.3 * most, 300.0, chat)))
    assert found["throughput_requests_per_s"] == pytest.approx(found["offered_requests_per_s"])
    # 40 full seconds wait and drain at 0.7 of the rate: the pools run full for 100 + 57 s.
    full = estimate(profile, ArrivalStatistics(0.998 * most, 1.0), chat).metrics["power_w"][0]
    rest = estimate(profile, ArrivalStatistics((0.3 + 0.4 / 3) * most, 1.0), chat).metrics["power_w"][0]
    assert found["power_w"] == pytest.approx(0.25 * full + 0.75 * rest, rel=0.01)


def test_estimates_do_not_depend_on_company(chat):
    steps = course((2.0, 100.0, chat), (5.0, 50.0, chat))
    alone = estimate_pieces(apart(), steps, lambda piece: NONE)
    three = estimate_pieces(apart(3), steps, lambda piece: NONE)
    for name, values in alone.metrics.items():
        assert three.metrics[name] == pytest.approx(np.repeat(values, 3), rel=1e-9, nan_ok=True), name


def test_attainment_is_that_of_all_requests_and_the_highest_rate_meets_it(chat):
    profile = apart()
    slos = (ClassSlo(1.0, Slo(ttft_s=1.0, percentile=0.9)),)
    steps = course((2.0, 500.0, chat), (4.0, 500.0, chat))
    found, _ = solved(profile, steps, slos, max_rate=True)
    assert 0 < found["slo_attainment"] < 1
    scale = found["max_rate_requests_per_s"] / 3.0
    again, _ = solved(profile, course((2.0 * scale, 500.0, chat), (4.0 * scale, 500.0, chat)), slos)
    assert again["slo_attainment"] == pytest.approx(0.9, abs=0.01)


def transient(path, duration=100.0, left=0.0, count=1):
    zero, one = np.zeros(count), np.ones(count)
    return Transient(one, duration, path, zero + left, zero, zero, zero, one)


def test_a_path_follows_lindleys_recursion():
    rng = np.random.default_rng(3)
    service, gaps = rng.exponential(0.9, (2, 200)), rng.exponential(1.0, (2, 200))
    found = reflect(np.array([5.0, 0.0]), service, gaps.copy())
    for row in range(2):
        wait = max([5.0, 0.0][row] - gaps[row, 0], 0.0)
        for index in range(200):
            assert found[row, index] == pytest.approx(wait, abs=1e-9)
            if index < 199:
                wait = max(wait + service[row, index] - gaps[row, index + 1], 0.0)


def test_a_poisson_path_waits_as_pollaczek_and_khinchine_say():
    rng = np.random.default_rng(4)
    count = 200_000
    path = Path(rng.exponential(1.0, count), rng.exponential(100.0, count), np.ones(count))
    bins = Bins(np.array([1.0, 1000.0]), np.array([0.5, 0.5]), np.zeros(2))
    # 7 ms a token, with or without company: an M/M/1 queue of load 0.7.
    found = follow(transient(path), np.array([[0.007, 7.0]]), np.array([0.007]), np.array([1.0]), bins, LIFE, HALVES)
    assert found.waits[0] == pytest.approx(0.7, abs=0.01)
    assert found.wait_s[0] == pytest.approx(0.7 / 0.3, rel=0.05)
    # Waits of those that wait are exponential: halves below and above the median have means 1 − ln 2 and 1 + ln 2.
    assert found.points[0] == pytest.approx(np.array([1 - np.log(2), 1 + np.log(2)]) * found.wait_s[0], rel=0.06)
    # Burke: departures of M/M/1 are Poisson.
    assert found.dispersion[0] == pytest.approx(1.0, abs=0.1)


def test_work_left_by_one_path_is_met_by_the_next():
    bins = Bins(np.array([10.0]), np.ones(1), np.zeros(1))
    each, token = np.array([[2.0]]), np.array([0.2])
    whole = Path(np.array([0.0, 1.0, 1.0, 1.0]), np.full(4, 10.0), np.ones(4))
    halves = [Path(whole.gap_s[part], whole.prompt_tokens[part], whole.count[part]) for part in (slice(2), slice(2, 4))]
    full = np.array([5.0])
    once = follow(transient(whole), each, token, full, bins, LIFE, HALVES)
    first = follow(transient(halves[0]), each, token, full, bins, LIFE, HALVES)
    second = follow(transient(halves[1], left=float(first.left_s[0])), each, token, full, bins, LIFE, HALVES)
    # Waits 0, 1, 2, 3 s; 5 s of work after the last arrival.
    assert once.waits[0] * once.wait_s[0] == pytest.approx(1.5)
    assert second.wait_s[0] == pytest.approx(2.5)
    assert second.left_s[0] == once.left_s[0] == pytest.approx(5.0)


def test_a_queue_seen_at_a_late_time_has_settled_and_one_seen_early_has_not():
    load, diffusion = np.array([0.8, 1.5]), np.array([0.4, 0.4])
    late = settled_load(load, diffusion, 1e-9)
    assert late[0] == pytest.approx(0.8)
    # Brownian motion with drift θ observed at rate q: mean (θ + √(θ² + 2qσ²))/2q, here σ²/2(1 − load').
    early = settled_load(load, diffusion, 0.01)
    wanted = (-(1 - load) + np.sqrt((1 - load) ** 2 + 2 * 0.01 * diffusion)) / (2 * 0.01)
    assert diffusion / (2 * (1 - early)) == pytest.approx(wanted)


def test_a_backlog_is_a_ramp_above_a_level():
    start, slope = np.array([10.0, 10.0, 10.0, 0.0]), np.array([-2.0, -0.1, 0.5, 1.0])
    found = ramp(start, slope, 20.0)
    # 10 falls to 0 in 5 s; to 8 in 20 s; 10 grows to 20, 0 to 20.
    assert found.mean == pytest.approx([25 / 20, 9.0, 15.0, 10.0])
    assert found.left == pytest.approx([0.0, 8.0, 20.0, 20.0])
    assert found.share == pytest.approx([0.25, 1.0, 1.0, 1.0])
    above = ramp(start, slope, 20.0, 15.0)
    # 10 passes 15 after 10 s and ends 5 above; 0 passes it after 15 s.
    assert above.mean == pytest.approx([0.0, 0.0, 2.5 * 0.5, 2.5 * 0.25])
    assert above.share == pytest.approx([0.0, 0.0, 0.5, 0.25])


def test_slices_of_samples_keep_their_mean_and_leave_the_zeros_out():
    waits, mean, points = sliced(np.array([[0.0, 4.0, 1.0, 3.0, 2.0, 0.0, 0.0, 0.0]]), (0.0, 0.5, 1.0))
    assert waits == pytest.approx([0.5])
    assert mean == pytest.approx([2.5])
    assert points[0] == pytest.approx([1.5, 3.5])


def test_dispersion_tells_poisson_regular_and_clustered_events_apart():
    rng = np.random.default_rng(6)
    poisson = np.cumsum(rng.exponential(1.0, 40_000))
    regular = np.arange(40_000.0)
    pairs = np.repeat(np.cumsum(rng.exponential(2.0, 20_000)), 2)
    found = dispersion_of(np.stack([poisson, regular, pairs]), np.ones(40_000), np.full(3, 20.0))
    # A Poisson process of pairs has a variance of twice its mean; 2,000 windows: 5 standard errors are 0.16 and 0.32.
    assert found[0] == pytest.approx(1.0, abs=0.16)
    assert found[1] < 0.05
    assert found[2] == pytest.approx(2.0, abs=0.32)


@pytest.mark.slow
def test_a_recorded_rush_waits_as_in_the_engine_that_serves_it():
    """Rate, prompts and outputs change: pieces come within 12 %, one stationary load misses most of the wait."""
    rng = np.random.default_rng(11)
    phases = [(2000, 2.0, 1155, 240), (1500, 4.2, 1300, 140), (2500, 1.5, 900, 220)]
    gaps = np.concatenate([rng.exponential(1 / rate, count) for count, rate, _, _ in phases])
    prompt = np.concatenate([lognormal(rng, mean, 0.9, count) for count, _, mean, _ in phases])
    output = np.concatenate([lognormal(rng, mean, 0.8, count) for count, _, _, mean in phases])
    workload = record(np.cumsum(gaps) - gaps[0], prompt, output)
    systems = System(tw=6e-3, tc=2e-4), System(tw=7e-3, tc=3e-4)
    profile = profile_of(
        {"prefill": systems[:1], "decode": systems[1:]}, max_batch=64.0, shared=False, memory_tokens=1e12
    )
    arrival = workload.replay.arrival_s
    rules = Rules(64, 2048, False, 1e12, 0.0)
    log = disaggregated(arrival, prompt, output, (systems[0].time, systems[1].time), rules, lambda a, b: (1.0, 1.0))
    ttft = log.first_s - arrival
    tpot = ((log.last_s - log.first_s) / np.maximum(output - 1, 1))[output > 1]
    found, _ = solved(profile, pieces(workload))
    whole = estimate(profile, arrival_statistics(workload), length_points(workload)).metrics
    assert found["load"] < 1
    assert found["ttft_mean_s"] == pytest.approx(ttft.mean(), rel=0.12)
    assert found["ttft_p90_s"] == pytest.approx(np.quantile(ttft, 0.9), rel=0.2)
    assert found["tpot_mean_s"] == pytest.approx(tpot.mean(), rel=0.05)
    assert whole["ttft_mean_s"][0] < 0.5 * ttft.mean()
