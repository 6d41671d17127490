"""Requests refused where the waiting room is full: closed forms, conservation, and runs of the request simulator."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.chain import Burstiness
from hydra_dse.estimator.estimate import ClassSlo
from hydra_dse.estimator.nodes import nodes_of
from hydra_dse.estimator.rooms import RoomState, pool_with_room, prompt_room
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints, Requests, Slo
from simulators.serving import CacheShape, Composition, FixedCost, run
from simulators.serving import System as Served
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points

ONE = np.ones(1)
EXPONENTIAL = Burstiness(ONE, ONE, ONE, ONE, 0 * ONE, 0 * ONE)


def servers(load: float, count: int, room: float) -> RoomState:
    """M/M/c/(c + room) with services of mean 1."""
    limit = np.array([float(count)])
    nodes = nodes_of(limit)
    offered = np.array([load * count])
    residence = np.ones_like(nodes.batch)
    return pool_with_room(offered, nodes, residence, limit, EXPONENTIAL, np.array([load]), np.array([room]))


@pytest.mark.parametrize(("load", "count", "room"), [(0.7, 1, 3), (1.4, 1, 5), (0.9, 4, 6), (1.3, 4, 2), (2.5, 3, 40)])
def test_a_pool_with_exponential_work_is_an_m_m_c_k_queue(load: float, count: int, room: int) -> None:
    offered = load * count
    weight = [offered**n / math.factorial(n) for n in range(count + 1)]
    weight += [weight[-1] * load**j for j in range(1, room + 1)]
    probability = np.array(weight) / sum(weight)
    found = servers(load, count, float(room))
    assert found.refused[0] == pytest.approx(probability[-1], rel=1e-6)
    waiting = probability[count:] @ np.arange(room + 1)
    assert found.beyond(np.zeros(1))[0] == pytest.approx(waiting, rel=1e-6)
    busy = probability @ np.minimum(np.arange(len(probability)), count)
    assert found.in_service[0] == pytest.approx(busy, rel=1e-6)
    assert found.exceeds(np.zeros(1))[0] == pytest.approx(
        probability[count:-1].sum() / (1.0 - probability[-1]), rel=1e-6
    )


@pytest.mark.parametrize(("load", "room"), [(0.5, 2), (0.9, 4), (1.0, 3), (1.6, 10)])
def test_prompts_of_exponential_work_are_an_m_m_1_k_queue(load: float, room: int) -> None:
    probability = load ** np.arange(room + 2)
    probability /= probability.sum()
    found = prompt_room(np.array([load]), ONE, 2.0 * ONE, 1.0, np.array([float(room)]))
    assert found.refused[0] == pytest.approx(probability[-1], rel=1e-6)
    wait = probability[1:] @ np.arange(room + 1) / (load * (1.0 - probability[-1]))
    assert found.waits[0] * found.wait_s[0] == pytest.approx(wait, rel=1e-6)


def test_long_rooms_are_counted_in_units() -> None:
    for load in (0.8, 1.2):
        fine, coarse = servers(load, 2, 500.0), servers(load, 2, 5000.0)
        expected = max(0.0, 1.0 - 1.0 / load)
        assert fine.refused[0] == pytest.approx(expected, abs=1e-6)
        assert coarse.refused[0] == pytest.approx(expected, abs=1e-3)


POOLS = {"serve": [System(tw=6e-3, tc=8e-5, tssm=4e-5)]}
APART = {"prefill": [System(tc=1.2e-4)], "decode": [System(tw=7e-3, tc=3e-4)]}


@pytest.mark.parametrize("pools", [POOLS, APART], ids=["colocated", "disaggregated"])
@pytest.mark.parametrize("cv", [0.5, 1.0, 1.5])
def test_what_is_not_refused_is_served_and_never_above_saturation(
    pools: dict[str, list[System]], cv: float, chat: LengthPoints
) -> None:
    refused, waits = [], []
    for rate in (1.0, 2.0, 4.0, 8.0, 16.0):
        found = estimate(profile_of(pools, max_batch=16, max_waiting=8), ArrivalStatistics(rate, cv), chat).metrics
        served = found["throughput_requests_per_s"][0]
        assert served == pytest.approx(rate * (1.0 - found["rejected_share"][0]))
        assert served <= found["saturation_requests_per_s"][0] * 1.03
        refused.append(found["rejected_share"][0])
        waits.append(found["ttft_mean_s"][0])
        assert all(np.isfinite(found[f"{kind}_p99_s"][0]) for kind in ("ttft", "tpot", "tbt", "e2e"))
    assert refused == sorted(refused)
    assert refused[-1] > 0.4


@pytest.mark.parametrize("pools", [POOLS, APART], ids=["colocated", "disaggregated"])
def test_a_room_that_is_never_full_changes_nothing(pools: dict[str, list[System]], chat: LengthPoints) -> None:
    free = estimate(profile_of(pools, max_batch=16), ArrivalStatistics(0.6), chat)
    roomy = estimate(profile_of(pools, max_batch=16, max_waiting=400), ArrivalStatistics(0.6), chat)
    for name, values in free.metrics.items():
        assert roomy.metrics[name][0] == pytest.approx(values[0], rel=0.01, abs=1e-6), name
    assert roomy.violations == free.violations


def test_refused_requests_miss_their_promise(chat: LengthPoints) -> None:
    promise = (ClassSlo(1.0, Slo(ttft_s=1e6)),)
    profile = profile_of(POOLS, max_batch=16, max_waiting=8)
    found = estimate(profile, ArrivalStatistics(8.0), chat, class_slos=promise).metrics
    assert found["slo_attainment"][0] == pytest.approx(1.0 - found["rejected_share"][0])
    assert found["goodput_requests_per_s"][0] == pytest.approx(found["throughput_requests_per_s"][0])


def duration(system: System) -> Callable[[Composition], float]:
    def seconds(batch: Composition) -> float:
        attended = batch.attended
        return system.time(batch.decode_sequences, attended.decode_tokens, batch.prefill_tokens, attended.prefill_pairs)

    return seconds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pools", "batching", "load", "room"),
    [(POOLS, "chunked", 1.4, 10), (POOLS, "prefill_first", 1.2, 30), (APART, "chunked", 1.3, 5)],
    ids=["chunked", "prefill_first", "disaggregated"],
)
def test_refusals_and_latencies_agree_with_the_simulator(
    pools: dict[str, list[System]], batching: str, load: float, room: int
) -> None:
    """One run of 10,000 requests; bounds are two to three times the median errors of the concept page.

    Where both pools of a disaggregated design are overloaded the wait for a slot is up to 15 % of E2E too long.
    """
    rng, count = np.random.default_rng(12), 10_000
    prompt, output = lognormal(rng, 600.0, 0.8, count), lognormal(rng, 120.0, 0.7, count)
    lengths, size = points(prompt, output), 8
    free = profile_of(pools, batching=batching, max_batch=size, shared=False)
    probe = estimate(free, ArrivalStatistics(1e-3), lengths, percentiles=False)
    rate = load * float(probe.metrics["saturation_requests_per_s"][0])
    gaps = rng.exponential(1.0, count)
    offered = Requests(np.cumsum(gaps / gaps.mean()) / rate, prompt, output, np.zeros(count, dtype=np.int64))
    policy = Policy(
        serving="disaggregated" if "decode" in pools else "colocated",
        batching=batching,
        max_batch=size,
        memory_watermark=0.0,
        max_waiting=room,
    )
    costs = {name: FixedCost(duration(systems[0])) for name, systems in pools.items()}
    outcome = run(Served(policy, CacheShape(1e13, 1.0, 1.0, watermark=0.0), costs), offered, 0.1)
    refused = float(outcome.visits.rejected[outcome.first :].mean())
    served = outcome.visits.served
    profile = profile_of(pools, batching=batching, max_batch=size, shared=False, max_waiting=room)
    found = {
        name: float(values[0]) for name, values in estimate(profile, ArrivalStatistics(rate), lengths).metrics.items()
    }
    bound = 0.2 if "decode" in pools else 0.12
    ttft = served.first_token_s - served.arrival_s
    assert found["rejected_share"] == pytest.approx(refused, abs=0.03)
    assert found["ttft_mean_s"] == pytest.approx(ttft.mean(), rel=0.18)
    assert found["ttft_p90_s"] == pytest.approx(np.quantile(ttft, 0.9), rel=0.2)
    assert found["e2e_mean_s"] == pytest.approx((served.last_token_s - served.arrival_s).mean(), rel=bound)
