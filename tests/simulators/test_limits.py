"""Closed batches, a limited waiting room, orders and priorities: worked out by hand, and against queueing theory."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from serving_pieces import PLENTY, Log, one_second, requests, serve, system
from test_queueing_theory import ANY_LENGTH, UNIT_S, covers, exponential, one_by_one, service

from hydra_dse.errors import InputError
from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload import check_order
from hydra_dse.workload.nouns import RequestClass, Requests, Slo, Workload
from simulators.serving import CacheShape, Composition, run
from simulators.serving.metrics import latencies, saturation_in_batches
from simulators.serving.waiting import ClassRules


def static(**more: object) -> Policy:
    return Policy(serving="colocated", batching="static", memory_watermark=0.0, **more)  # type: ignore[arg-type]


def alone(**more: object) -> Policy:
    """One prompt an iteration, one second each."""
    more = {"batching": "prefill_first", "token_budget": 1, "max_batch": 1} | more
    return Policy(serving="colocated", memory_watermark=0.0, **more)  # type: ignore[arg-type]


def of_classes(offered: Requests, *classes: int) -> Requests:
    return replace(offered, class_index=np.array(classes))


def order(log: Log) -> list[int]:
    return [visit.request for visit in log.visits]


# -- static batches -------------------------------------------------------------------------------------------------


def test_a_static_batch_takes_who_waits_and_nobody_joins_until_its_last_member_ends() -> None:
    policy = static(token_budget=8, max_batch=2)
    log, _ = serve(system(policy, one_second), requests((0.0, 4, 2), (0.5, 4, 2), (0.6, 4, 4), (1.5, 4, 2)))
    # 0: request 0 starts alone, without waiting for company.  2: requests 1 and 2; 3 decodes of 2, the last of them
    # alone.  6: request 3, though a slot was free from 4 on.
    assert log.steps() == [(0, 4, 0), (1, 0, 1), (2, 8, 0), (3, 0, 2), (4, 0, 1), (5, 0, 1), (6, 4, 0), (7, 0, 1)]
    assert log.dates() == [(0, 0, 1, 2), (1, 2, 3, 4), (2, 2, 3, 6), (3, 6, 7, 8)]


def test_a_static_batch_computes_all_prompts_in_chunks_before_it_decodes() -> None:
    log, _ = serve(system(static(token_budget=4, max_batch=4), one_second), requests((0.0, 3, 2), (0.0, 6, 2)))
    assert log.steps() == [(0, 4, 0), (1, 4, 0), (2, 1, 0), (3, 0, 2)]
    assert log.dates() == [(0, 0, 1, 4), (1, 0, 3, 4)]


def test_a_finished_member_of_a_static_batch_frees_its_memory_but_not_its_slot() -> None:
    cache = CacheShape(100.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = static(token_budget=100, max_batch=2, block_tokens=1)
    _, server = serve(system(policy, one_second, cache), requests((0.0, 40, 2), (0.0, 40, 9), (0.0, 40, 1)))
    # 80, 82, then 40 + 2 … 40 + 8, and at last 40: never 40 + 40 + 9 at once.
    assert server.memory.peak_bytes == 82.0


def test_memory_closes_a_static_batch_as_its_limit_does() -> None:
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = static(token_budget=100, max_batch=8, block_tokens=1)
    log, _ = serve(system(policy, one_second, cache), requests((0.0, 4, 1), (0.0, 4, 1), (0.0, 4, 1)))
    assert log.steps() == [(0, 8, 0), (1, 4, 0)]


def test_a_preempted_member_of_a_static_batch_leads_the_next_one() -> None:
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = static(token_budget=100, max_batch=8, block_tokens=1)
    log, server = serve(system(policy, one_second, cache), requests((0.0, 3, 4), (0.0, 3, 3), (0.5, 1, 1)))
    assert log.steps() == [(0, 6, 0), (1, 0, 2), (2, 0, 1), (3, 0, 1), (4, 6, 0)]
    assert server.preemptions == 1


def test_a_disaggregated_decode_pool_runs_closed_batches() -> None:
    policy = Policy(serving="disaggregated", batching="static", token_budget=4, max_batch=2, memory_watermark=0.0)
    log, _ = serve(system(policy, one_second), requests((0.0, 4, 3), (0.0, 4, 3), (0.0, 4, 3)))
    # Request 0 is ready at 1 and decodes alone to 3; 1 and 2 are ready at 2 and 3 and decode together.
    assert log.steps("decode") == [(1, 0, 1), (2, 0, 1), (3, 0, 2), (4, 0, 2)]


def test_saturation_of_static_batches_is_their_tokens_over_their_time() -> None:
    policy = static(token_budget=100, max_batch=2)
    outcome = run(system(policy, one_second), requests(*[(0.0, 4, 3)] * 10))
    # Batches of 2 take a prefill and two steps: 6 tokens in 3 s.
    assert saturation_in_batches(outcome.visits) == pytest.approx(2.0)


# -- refused requests -----------------------------------------------------------------------------------------------


def test_an_arrival_that_finds_the_waiting_room_full_is_refused_and_recorded() -> None:
    policy = alone(max_waiting=1)
    log, server = serve(system(policy, one_second), requests((0.0, 1, 1), (0.1, 1, 1), (0.2, 1, 1), (1.5, 1, 1)))
    visits = server.recorder.visits()
    assert visits.rejected.tolist() == [False, False, True, False]
    assert [visit.request for visit in log.visits] == [2, 0, 1, 3]
    assert math.isnan(log.visits[0].scheduled_s) and math.isnan(log.visits[0].last_token_s)
    assert latencies(visits, 0)["ttft"].tolist() == pytest.approx([1.0, 1.9, 1.5])


def test_a_preempted_request_is_never_refused() -> None:
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = Policy(serving="colocated", memory_watermark=0.0, token_budget=100, max_batch=8, block_tokens=1)
    offered = requests((0.0, 3, 4), (0.0, 3, 3), (1.5, 1, 1))
    _, server = serve(system(replace(policy, max_waiting=2), one_second, cache), offered)
    assert server.preemptions == 1
    assert server.recorder.rejected == 0


@pytest.mark.slow
@pytest.mark.parametrize(("load", "room"), [(0.8, 3), (1.5, 5)])
def test_a_limited_waiting_room_gives_the_refusals_and_the_wait_of_an_m_m_1_k_queue(load: float, room: int) -> None:
    """K = 1 in service + `room` waiting: `p_n ∝ ρ^n`, refused `p_K`, and Little over those served."""
    weight = load ** np.arange(room + 2)
    weight /= weight.sum()
    waiting = float((np.arange(room + 2) - 1).clip(0) @ weight)
    refused, waits = [], []
    for replication in range(20):
        rng = derive(7, "room", replication)
        arrival = np.cumsum(rng.exponential(1.0 / load, 4000))
        tokens = np.maximum(np.rint(exponential(rng, 4000) / UNIT_S), 1.0).astype(np.int64)
        ones = np.ones(4000, dtype=np.int64)
        offered = Requests(arrival, tokens, ones, 0 * ones)
        outcome = run(system(replace(one_by_one(1), max_waiting=room), service, ANY_LENGTH), offered, 0.1)
        visits = outcome.visits
        refused.append(float(visits.rejected[outcome.first :].mean()))
        waits.append(float(np.nanmean((visits.scheduled_s - visits.arrival_s)[outcome.first :])))
    assert covers(refused, float(weight[-1]))
    assert covers(waits, waiting / (load * (1.0 - float(weight[-1]))))


# -- orders ---------------------------------------------------------------------------------------------------------


def test_highest_response_ratio_next_weighs_the_wait_against_the_prompt() -> None:
    offered = requests((0.0, 10, 1), (0.0, 8, 1), (9.0, 2, 1), (9.5, 4, 1))

    def by_tokens(batch: Composition) -> float:
        return float(batch.prefill_tokens)

    log, _ = serve(system(alone(scheduling="hrrn"), by_tokens), offered)
    # At 10: 10/8 for request 1, 1/2 and 0.5/4 for the others.  At 18: 9/2 and 8.5/4.
    assert order(log) == [0, 1, 2, 3]
    early, _ = serve(system(alone(scheduling="hrrn"), by_tokens), requests((0.0, 3, 1), (0.1, 8, 1), (0.2, 2, 1)))
    assert order(early) == [0, 2, 1]


def test_earliest_deadline_first_goes_by_arrival_plus_the_bound_of_the_class() -> None:
    offered = of_classes(requests((0.0, 1, 1), (0.1, 1, 1), (0.2, 1, 1), (0.3, 1, 1)), 0, 2, 0, 1)
    what = system(alone(scheduling="edf"), one_second, classes=(ClassRules(0, 5.0), ClassRules(0, 1.0), ClassRules()))
    log, _ = serve(what, offered)
    assert order(log) == [0, 3, 2, 1]


def test_least_slack_takes_the_time_of_the_prompt_off_its_deadline() -> None:
    offered = requests((0.0, 1, 1), (0.1, 1, 1), (0.2, 9, 1))

    def by_tokens(batch: Composition) -> float:
        return float(batch.prefill_tokens)

    rules = (ClassRules(0, 20.0),)
    edf, _ = serve(system(alone(scheduling="edf"), by_tokens, classes=rules), offered)
    slack, _ = serve(system(alone(scheduling="least_slack"), by_tokens, classes=rules), offered)
    assert order(edf) == [0, 1, 2]
    assert order(slack) == [0, 2, 1]


def test_an_order_by_deadline_without_a_deadline_is_refused() -> None:
    kind = RequestClass("a", lengths=None)  # type: ignore[arg-type]
    without = Workload("w", (), None, (kind,))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="TTFT bound"):
        check_order(Policy(scheduling="edf"), without)
    check_order(Policy(scheduling="edf"), replace(without, classes=(replace(kind, slo=Slo(ttft_s=1.0)),)))
    check_order(Policy(scheduling="hrrn"), without)


# -- priorities -----------------------------------------------------------------------------------------------------

CLASSES = (ClassRules(0), ClassRules(1))


def test_a_class_of_higher_priority_goes_first_whatever_the_order_within() -> None:
    offered = of_classes(requests((0.0, 1, 1), (0.1, 1, 1), (0.2, 5, 1), (0.3, 2, 1)), 1, 1, 0, 0)
    fcfs, _ = serve(system(alone(), one_second, classes=CLASSES), offered)
    assert order(fcfs) == [0, 2, 3, 1]
    sjf, _ = serve(system(alone(scheduling="sjf"), one_second, classes=CLASSES), offered)
    assert order(sjf) == [0, 3, 2, 1]


def test_ageing_bounds_how_many_may_overtake() -> None:
    """With a tick every 4 s the low class is overtaken by those that come before the second tick after it."""
    stream = [(float(second) + 0.5, 1, 1) for second in range(20)]
    offered = of_classes(requests((0.0, 1, 1), (0.2, 1, 1), *stream), 0, 1, *[0] * 20)
    starving, _ = serve(system(alone(), one_second, classes=CLASSES), offered)
    assert order(starving)[-1] == 1
    ageing, _ = serve(system(alone(ageing_s=4.0), one_second, classes=CLASSES), offered)
    # Requests 2 … 5 come before 4 s (level 0); from request 6 on they have level 1 as request 1 has, but came later.
    assert order(ageing) == [0, 2, 3, 4, 5, 1, *range(6, 22)]


def test_class_preemption_takes_the_slot_of_the_newest_of_the_lowest_class() -> None:
    policy = Policy(serving="colocated", memory_watermark=0.0, max_batch=2, token_budget=20)
    offered = of_classes(requests((0.0, 2, 9), (0.0, 2, 9), (2.5, 2, 2)), 1, 1, 0)
    plain, _ = serve(system(policy, one_second, classes=CLASSES), offered)
    assert [visit.preemptions for visit in plain.visits] == [0, 0, 0]
    log, server = serve(system(replace(policy, class_preemption=True), one_second, classes=CLASSES), offered)
    # At 3 request 2 takes the slot of request 1, which has 3 tokens; its 5 tokens are computed again from 5 on.
    assert server.preemptions == 1
    assert (2, 3, 4, 5) in log.dates()
    assert (5, 5, 1) in log.steps()
    assert [v.preemptions for v in sorted(log.visits, key=lambda v: v.request)] == [0, 1, 0]


def test_class_preemption_takes_memory_only_where_that_suffices() -> None:
    cache = CacheShape(13.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = Policy(
        serving="colocated", memory_watermark=0.0, max_batch=8, token_budget=20, block_tokens=1, class_preemption=True
    )
    three = (ClassRules(0), ClassRules(1), ClassRules(1))
    offered = of_classes(requests((0.0, 5, 3), (0.0, 4, 3), (0.5, 6, 1)), 0, 1, 0)
    _, server = serve(system(policy, one_second, cache, classes=three), offered)
    # At 1 the two hold 9 and are due 2 more: request 2 fits with its 6 when the 4 of request 1 are free.
    assert server.preemptions == 1
    # With 9 it would not: nothing is preempted for nothing.
    offered = of_classes(requests((0.0, 5, 3), (0.0, 4, 3), (0.5, 9, 1)), 0, 1, 0)
    _, server = serve(system(policy, one_second, cache, classes=three), offered)
    assert server.preemptions == 0


def test_the_same_class_never_preempts() -> None:
    policy = Policy(serving="colocated", memory_watermark=0.0, max_batch=1, token_budget=20, class_preemption=True)
    _, server = serve(system(policy, one_second), requests((0.0, 2, 5), (0.5, 2, 5)))
    assert server.preemptions == 0


@pytest.mark.slow
def test_priorities_give_the_waits_of_cobham() -> None:
    """Two classes of exponential services of mean 1, loads 0.3 and 0.4: `W_k = W₀/((1 − σ_{k−1})(1 − σ_k))`."""
    residual = 0.7
    expected = (residual / 0.7, residual / (0.7 * 0.3))
    measured: tuple[list[float], list[float]] = ([], [])
    for replication in range(20):
        rng = derive(11, "cobham", replication)
        count = 6000
        arrival = np.cumsum(rng.exponential(1.0 / 0.7, count))
        tokens = np.maximum(np.rint(rng.exponential(1.0, count) / UNIT_S), 1.0).astype(np.int64)
        kinds = (rng.random(count) >= 3.0 / 7.0).astype(np.int64)
        what = system(one_by_one(1), service, ANY_LENGTH, classes=CLASSES)
        outcome = run(what, Requests(arrival, tokens, np.ones(count, dtype=np.int64), kinds), 0.1)
        wait = (outcome.visits.scheduled_s - outcome.visits.arrival_s)[outcome.first :]
        for number in (0, 1):
            measured[number].append(float(wait[kinds[outcome.first :] == number].mean()))
    assert covers(measured[0], expected[0])
    assert covers(measured[1], expected[1])


def test_handed_over_requests_take_decode_slots_by_priority() -> None:
    policy = Policy(serving="disaggregated", token_budget=4, max_batch=2, memory_watermark=0.0)

    def duration(batch: Composition) -> float:
        return 1.0 if batch.prefill_tokens else 10.0

    offered = of_classes(requests((0.0, 4, 3), (0.1, 4, 2), (4.5, 4, 2)), 1, 1, 0)
    log, _ = serve(system(policy, duration, PLENTY, classes=CLASSES), offered)
    # Request 0 decodes from 1 to 21.  Both others wait for the slot that is free at 11: request 2 takes it.
    assert log.dates() == [(0, 0, 1, 21), (2, 4.5, 5.5, 21), (1, 1, 2, 31)]
