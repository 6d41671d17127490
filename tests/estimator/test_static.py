"""Closed batches: the embedded chain against closed forms, and estimates against engines of their own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.bulk import BatchTimes, bulk_queue
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.static_tables import static_tables, steps_of
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points
from tests.estimator.reference_static import static

SYSTEM = System(tw=6e-3, tc=8e-5, tssm=4e-5)


def exponential(points_count: int = 400) -> BatchTimes:
    """Times of mean 1 in slices of equal chance, the same for one and two members."""
    cuts = np.linspace(0.0, 1.0, points_count + 1)
    left = 1.0 - cuts
    area = np.where(left > 0, left * (1.0 - np.log(np.where(left > 0, left, 1.0))), 0.0)
    means = -np.diff(area) * points_count
    return BatchTimes(np.array([1.0, 2.0]), np.vstack((means, means)), np.full((2, points_count), 1.0 / points_count))


def fixed(size: int) -> BatchTimes:
    return BatchTimes(np.array([1.0, float(size)]), np.ones((2, 1)), np.ones((2, 1)))


@pytest.mark.parametrize(("load", "room"), [(0.4, 2), (0.8, 3), (1.0, 4), (1.5, 5), (3.0, 8)])
def test_single_services_and_a_room_are_an_m_m_1_k_queue(load: float, room: int) -> None:
    weight = load ** np.arange(room + 2)
    expected = weight / weight.sum()
    found = bulk_queue(load, 1.0, exponential(), 1.0, float(room))
    assert found.rejected == pytest.approx(expected[-1], rel=0.01)
    # Throughput: busy share over the mean service of 1.
    assert found.mean_size / found.cycle_s == pytest.approx(1.0 - expected[0], rel=0.01)


def test_single_services_without_a_limit_are_an_m_m_1_queue_at_its_departures() -> None:
    found = bulk_queue(0.9, 1.0, exponential(), 1.0)
    assert found.probability[:6] == pytest.approx(0.1 * 0.9 ** np.arange(6), rel=0.02)
    assert found.rejected == 0.0


def test_fixed_batch_times_give_the_bulk_queue_of_bailey() -> None:
    """Batches of up to 2, one second each: states of the chain solved densely from Poisson counts."""
    rate, states = 1.2, 120
    count = np.array([np.exp(-rate) * rate**k / float(np.prod(np.arange(1, k + 1), dtype=float)) for k in range(60)])
    matrix = np.zeros((states, states))
    for q in range(states):
        left = max(q - 2, 0)
        for k, chance in enumerate(count):
            matrix[q, min(left + k, states - 1)] += chance
    values, vectors = np.linalg.eig(matrix.T)
    dense = np.real(vectors[:, np.argmax(np.real(values))])
    dense /= dense.sum()
    found = bulk_queue(rate, 1.0, fixed(2), 2.0)
    assert found.probability[:8] == pytest.approx(dense[:8], rel=1e-3)


@pytest.mark.parametrize("scv", [0.25, 1.0, 2.25])
def test_every_arrival_is_served_or_refused(scv: float) -> None:
    found = bulk_queue(1.7, scv, fixed(4), 4.0, 6.0)
    assert found.mean_size / found.cycle_s == pytest.approx(1.7 * (1.0 - found.rejected), rel=1e-9)
    free = bulk_queue(1.7, scv, fixed(4), 4.0)
    assert float(free.probability @ free.seconds) <= free.cycle_s * (1.0 + 1e-6)


def test_more_room_refuses_less_and_load_refuses_more() -> None:
    by_room = [bulk_queue(3.0, 1.0, fixed(4), 4.0, room).rejected for room in (1.0, 2.0, 4.0, 8.0, 32.0)]
    assert by_room == sorted(by_room, reverse=True)
    by_rate = [bulk_queue(rate, 1.0, fixed(4), 4.0, 4.0).rejected for rate in (1.0, 2.0, 4.0, 8.0)]
    assert by_rate == sorted(by_rate)
    assert by_rate[-1] == pytest.approx(0.5, abs=0.02)


def test_long_queues_in_units_agree_with_single_states() -> None:
    """Above the number of states a batch is counted in units: the same mean batch within 2 %."""
    times = BatchTimes(np.array([1.0, 256.0]), np.array([[1.0], [8.0]]), np.ones((2, 1)))
    found = bulk_queue(20.0, 1.0, times, 256.0)
    assert found.mean_size == pytest.approx(20.0 * found.cycle_s, rel=1e-9)
    # n = 20·T(n) with T(n) = 1 + 7(n − 1)/255: the fluid limit of the batch size.
    assert found.mean_size == pytest.approx(20.0 * (1.0 - 7.0 / 255.0) / (1.0 - 140.0 / 255.0), rel=0.02)


def test_fixed_lengths_make_a_batch_of_equal_members_last_as_long_as_its_iterations() -> None:
    lengths = LengthPoints(np.array([100.0]), np.array([11.0]), np.array([1.0]))
    tables = static_tables(profile_of({"serve": [SYSTEM]}, batching="static", max_batch=4), moments_of(lengths))
    size = np.array([1.0, 4.0])
    prompts = [SYSTEM.time(0, 0.0, 100, 100 * 50.0), SYSTEM.time(0, 0.0, 400, 4 * 100 * 50.0)]
    steps = [sum(SYSTEM.time(b, b * (100 + j), 0, 0.0) for j in range(1, 11)) for b in (1, 4)]
    assert tables.times(0).mean(size) == pytest.approx(np.add(prompts, steps), rel=0.01)


def test_slices_of_steps_keep_the_mean_and_the_requests_of_one_token() -> None:
    lengths = LengthPoints(np.full(4, 9.0), np.array([1.0, 3.0, 5.0, 21.0]), np.full(4, 0.25))
    steps = steps_of(moments_of(lengths))
    assert steps.chance.sum() == pytest.approx(1.0)
    assert steps.chance @ steps.steps == pytest.approx((2 + 4 + 20) / 4)
    assert steps.chance[0] == pytest.approx(0.25)
    assert steps.longest(np.array([3.0])).sum() == pytest.approx(1.0)


@dataclass(frozen=True)
class Case:
    name: str
    max_batch: int
    load: float
    prompt: float = 600.0
    output: float = 150.0
    budget: int = 1024
    cv: float = 1.0
    room: float | None = None


CASES = (
    Case("small batches", 4, 0.6),
    Case("large batches", 32, 0.5),
    Case("near saturation", 16, 0.85),
    Case("long prompts", 8, 0.7, prompt=1500.0, output=60.0, budget=512),
    Case("bursty arrivals", 16, 0.6, cv=1.5),
    Case("a room of five, overloaded", 8, 1.4, room=5.0),
    Case("a room of forty", 16, 1.1, room=40.0),
)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_static_batches_agree_with_the_engine(case: Case) -> None:
    """Bounds are two to three times the median errors of docs/concepts/estimator.md."""
    rng, count = np.random.default_rng(2025), 16_000
    prompt, output = lognormal(rng, case.prompt, 0.9, count), lognormal(rng, case.output, 0.8, count)
    profile = profile_of(
        {"serve": [SYSTEM]},
        batching="static",
        max_batch=case.max_batch,
        token_budget=case.budget,
        max_waiting=case.room,
    )
    few = 3000
    flood = static(np.zeros(few), prompt[:few], output[:few], SYSTEM.time, case.max_batch, case.budget)
    rate = case.load * few / flood.end_s
    table = estimate(profile, ArrivalStatistics(rate, case.cv), points(prompt, output))
    found = {name: float(values[0]) for name, values in table.metrics.items()}
    assert found["saturation_requests_per_s"] == pytest.approx(few / flood.end_s, rel=0.06)
    gaps = rng.gamma(1 / case.cv**2, case.cv**2, count)
    arrival = np.cumsum(gaps / gaps.mean()) / rate
    room = np.inf if case.room is None else case.room
    log = static(arrival, prompt, output, SYSTEM.time, case.max_batch, case.budget, room)
    served = np.isfinite(log.first_s) & (np.arange(count) > count // 10)
    ttft, e2e = (log.first_s - arrival)[served], (log.last_s - arrival)[served]
    decoded = served & (output > 1)
    tpot = (log.last_s - log.first_s)[decoded] / (output[decoded] - 1)
    assert found["rejected_share"] == pytest.approx(log.refused / count, rel=0.08, abs=0.003)
    assert found["throughput_requests_per_s"] == pytest.approx((count - log.refused) / log.end_s, rel=0.03)
    assert found["ttft_mean_s"] == pytest.approx(ttft.mean(), rel=0.12)
    assert found["ttft_p90_s"] == pytest.approx(np.quantile(ttft, 0.9), rel=0.15)
    assert found["tpot_mean_s"] == pytest.approx(tpot.mean(), rel=0.06)
    assert found["e2e_mean_s"] == pytest.approx(e2e.mean(), rel=0.1)


def test_a_batch_of_designs_gives_what_each_gives_alone(chat: LengthPoints) -> None:
    systems = [SYSTEM, System(tw=3e-3, tc=2e-4), System(tc=1e-4)]
    sizes = [4.0, 16.0, 48.0]
    load = ArrivalStatistics(1.0, 1.2)
    together = estimate(profile_of({"serve": systems}, batching="static", max_batch=sizes), load, chat)
    for row, (one, size) in enumerate(zip(systems, sizes, strict=True)):
        alone = estimate(profile_of({"serve": [one]}, batching="static", max_batch=size), load, chat)
        for name, values in alone.metrics.items():
            assert together.metrics[name][row] == pytest.approx(values[0], rel=1e-9, nan_ok=True), name


def test_static_batches_never_beat_continuous_ones(chat: LengthPoints) -> None:
    systems = {"serve": [SYSTEM]}
    for size in (2, 8, 32):
        closed = estimate(profile_of(systems, batching="static", max_batch=size), ArrivalStatistics(0.5), chat)
        open_ = estimate(profile_of(systems, batching="prefill_first", max_batch=size), ArrivalStatistics(0.5), chat)
        name = "saturation_requests_per_s"
        assert closed.metrics[name][0] < open_.metrics[name][0]


def test_overloaded_static_batches_have_no_latency_without_a_room_and_have_one_with_it(chat: LengthPoints) -> None:
    load = ArrivalStatistics(50.0)
    free = estimate(profile_of({"serve": [SYSTEM]}, batching="static", max_batch=8), load, chat)
    assert np.isnan(free.metrics["ttft_mean_s"][0])
    assert [violation.constraint for violation in free.violations[0]] == ["offered load"]
    limited = estimate(profile_of({"serve": [SYSTEM]}, batching="static", max_batch=8, max_waiting=20), load, chat)
    assert np.isfinite(limited.metrics["ttft_mean_s"][0])
    assert limited.violations[0] == ()
    assert limited.metrics["rejected_share"][0] == pytest.approx(
        1.0 - limited.metrics["saturation_requests_per_s"][0] / 50.0, abs=0.01
    )


def test_disaggregated_static_batches_have_finite_metrics_and_less_saturation(chat: LengthPoints) -> None:
    pools = {"prefill": [System(tc=8e-5)], "decode": [System(tw=7e-3, tc=3e-4)]}
    closed = estimate(profile_of(pools, batching="static", max_batch=16), ArrivalStatistics(1.0), chat)
    running = estimate(profile_of(pools, max_batch=16), ArrivalStatistics(1.0), chat)
    for name in ("ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "tbt_p99_s", "e2e_p99_s", "hbm_utilization"):
        assert np.isfinite(closed.metrics[name][0]), name
    assert closed.metrics["saturation_requests_per_s"][0] < running.metrics["saturation_requests_per_s"][0]
    assert closed.metrics["tpot_mean_s"][0] > running.metrics["tpot_mean_s"][0]
