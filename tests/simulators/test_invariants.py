"""What must hold in every run: nothing lost, memory never above capacity, leaps that change nothing, same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving_pieces import PLENTY, Log, serve, system

from hydra_dse.errors import InvariantBroken
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, run
from simulators.serving.decoding import DecodeSet, WindowedSum
from simulators.serving.memory import CacheMemory
from simulators.serving.sequence import Sequence
from simulators.serving.waiting import ClassRules


def cost(batch: Composition) -> float:
    """About 5 ms, with every term of a composition in it."""
    context = batch.attended.decode_tokens + batch.attended.prefill_tokens
    return 5e-3 + 1e-4 * batch.prefill_tokens + 1e-4 * batch.decode_sequences + 3e-8 * context


def drawn(seed: int, count: int = 60, rate_per_s: float = 6.0) -> Requests:
    rng = np.random.default_rng(seed)
    return Requests(
        np.cumsum(rng.exponential(1 / rate_per_s, count)),
        rng.integers(1, 400, count),
        rng.integers(1, 120, count),
        rng.integers(0, 3, count),
    )


CLASSES = (ClassRules(1, 2.0), ClassRules(0, 0.5), ClassRules(1))
policies = st.builds(
    Policy,
    serving=st.sampled_from(("colocated", "disaggregated")),
    batching=st.sampled_from(("chunked", "prefill_first", "static")),
    scheduling=st.sampled_from(("fcfs", "sjf", "hrrn", "edf", "least_slack")),
    max_batch=st.integers(1, 20),
    token_budget=st.integers(20, 600),
    batches_in_flight=st.integers(1, 3),
    block_tokens=st.sampled_from((1, 7, 16)),
    max_waiting=st.sampled_from((None, None, 3)),
    ageing_s=st.sampled_from((None, 2.0)),
    class_preemption=st.booleans(),
)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(policies, st.integers(0, 10**6), st.integers(560, 2500))
@example(Policy(serving="disaggregated", max_batch=1, batches_in_flight=2, token_budget=20, block_tokens=7), 2, 600)
def test_no_request_is_lost_and_memory_stays_below_capacity_under_any_policy(
    policy: Policy, seed: int, capacity: int
) -> None:
    """Capacity for two requests to a dozen: with preemptions.  The recorder raises where tokens are lost."""
    offered = drawn(seed)
    cache = CacheShape(float(capacity), 1.0, 10.0, policy.block_tokens, policy.memory_watermark)
    log, server = serve(system(policy, cost, cache, classes=CLASSES), offered)
    assert server.memory.peak_bytes <= capacity
    assert sorted(visit.request for visit in log.visits) == list(range(60))
    served = ~server.recorder.visits().rejected
    assert served.all() or policy.max_waiting is not None
    assert server.recorder.tokens == int(offered.output_tokens[served].sum())
    computed = sum(record.prefill_tokens for record in log.iterations)
    assert computed >= int(offered.prompt_tokens[served].sum())
    if server.preemptions == 0:
        assert computed == int(offered.prompt_tokens[served].sum())
        decoded = sum(record.decode_sequences for record in log.iterations)
        assert decoded == int((offered.output_tokens[served] - 1).sum())


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(policies, st.integers(0, 10**6), st.integers(600, 20000), st.sampled_from((1.0, 6.0, 1000.0)))
@example(Policy(serving="colocated", max_batch=1, token_budget=392, block_tokens=1), 2, 600, 1.0)
@example(Policy(serving="disaggregated", max_batch=2, token_budget=23, block_tokens=1), 1, 600, 6.0)
@example(Policy(serving="colocated", scheduling="sjf", max_batch=5, token_budget=20, block_tokens=1), 0, 600, 1000.0)
def test_leaping_over_unchanging_stretches_changes_no_bit_of_any_record(
    policy: Policy, seed: int, capacity: int, rate: float
) -> None:
    offered = drawn(seed, rate_per_s=rate)
    cache = CacheShape(float(capacity), 1.0, 10.0, policy.block_tokens, policy.memory_watermark)
    runs = [
        serve(system(policy, cost, cache, classes=CLASSES), offered, marks=(7, 59), fast=fast) for fast in (True, False)
    ]
    (fast_log, fast), (slow_log, slow) = runs
    assert repr(fast_log.visits) == repr(slow_log.visits)  # a refused request has dates that are NaN
    assert fast_log.iterations == slow_log.iterations
    assert fast.marks == slow.marks
    assert [each.tolist() for each in fast.recorder.gaps.values()] == [
        each.tolist() for each in slow.recorder.gaps.values()
    ]


def test_leaps_are_taken_where_little_happens() -> None:
    policy = Policy(serving="colocated", max_batch=8, token_budget=512)
    _, server = serve(system(policy, cost), drawn(3, rate_per_s=0.5))
    assert server.leaper.steps > 2000


def test_the_same_requests_give_the_same_bytes() -> None:
    policy = Policy(max_batch=6, token_budget=300, scheduling="sjf")
    cache = CacheShape(1500.0, 1.0, 10.0)
    first, second = (serve(system(policy, cost, cache), drawn(11))[0] for _ in range(2))
    assert repr(first) == repr(second)


def test_time_never_runs_backwards_in_any_engine() -> None:
    log, _ = serve(system(Policy(batches_in_flight=2), cost), drawn(5))
    for pool in ("prefill", "decode"):
        for engine in (0, 1):
            starts = [r.start_s for r in log.iterations if (r.pool, r.engine) == (pool, engine)]
            assert starts == sorted(starts)


def test_time_in_decode_adds_up_over_requests() -> None:
    """Little's law without noise: the integral of the number decoding is the sum of the times spent decoding."""
    offered = drawn(2, count=80)
    log, server = serve(system(Policy(serving="colocated", max_batch=6), cost), offered)
    server.mark()
    spent = sum(visit.last_token_s - visit.first_token_s for visit in log.visits)
    assert server.marks[-1].decoding_seconds == pytest.approx(spent, rel=1e-12)


def test_memory_refuses_to_go_above_its_capacity() -> None:
    memory = CacheMemory(CacheShape(100.0, 1.0, 0.0, block_tokens=10))
    memory.grow(10, 0.0)
    with pytest.raises(InvariantBroken, match="110 of 100"):
        memory.grow(1, 0.0)


def test_memory_refuses_to_run_back_in_time() -> None:
    memory = CacheMemory(PLENTY)
    memory.integrate(2.0)
    with pytest.raises(InvariantBroken, match="backwards"):
        memory.integrate(1.0)


class NaiveDecodeSet:
    """A decode set that touches every sequence in every step."""

    def __init__(self, block: int, window: int) -> None:
        self.block, self.window = block, window
        self.contexts: dict[int, int] = {}
        self.left: dict[int, int] = {}

    def totals(self) -> tuple[int, int, int, int]:
        return (
            sum(self.contexts.values()),
            sum(min(context, self.window) for context in self.contexts.values()),
            sum(context < self.window for context in self.contexts.values()),
            sum((context - 1) % self.block == 0 for context in self.contexts.values()),
        )

    def step(self) -> list[int]:
        for key in self.contexts:
            self.contexts[key] += 1
            self.left[key] -= 1
        ended = [key for key, left in self.left.items() if left == 0]
        for key in ended:
            del self.contexts[key], self.left[key]
        return ended


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 60))
def test_the_decode_set_counts_like_one_that_touches_every_sequence(seed: int, block: int, window: int) -> None:
    rng = np.random.default_rng(seed)
    fast, naive = DecodeSet(block, (window,)), NaiveDecodeSet(block, window)
    members: dict[int, Sequence] = {}
    for step in range(80):
        action = rng.random()
        if action < 0.4:
            sequence = Sequence(step, 0, int(rng.integers(1, 50)), int(rng.integers(2, 30)))
            sequence.emitted, sequence.last_token_s = 1, float(step)
            fast.join(sequence)
            members[step] = sequence
            naive.contexts[step], naive.left[step] = sequence.prompt + 1, sequence.output - 1
        elif action < 0.5 and members:
            key = int(rng.choice(list(members)))
            sequence = members.pop(key)
            fast.leave(sequence)
            assert sequence.target == naive.contexts.pop(key) - 1
            assert sequence.output - sequence.emitted == naive.left.pop(key)
        else:
            ended = fast.advance(float(step))
            for sequence in ended:
                fast.leave(sequence)
                assert sequence.emitted == sequence.output
                del members[sequence.request]
            assert sorted(s.request for s in ended) == sorted(naive.step())
        growth = fast.attended_in_windows()[0]
        assert (fast.context, growth.decode_tokens, growth.decode_growth, fast.blocks_due) == naive.totals()


def test_a_windowed_sum_stops_growing_where_the_window_is_full() -> None:
    total = WindowedSum(window=10)
    total.join(8, step=0)
    total.join(30, step=0)
    seen = [total.total]
    for step in (1, 2, 3, 4):
        total.advance(step)
        seen.append(total.total)
    assert seen == [18, 19, 20, 20, 20]


def test_a_run_reports_its_window_between_the_first_counted_and_the_last_arrival() -> None:
    offered = drawn(4)
    outcome = run(system(Policy(), cost), offered, warmup_share=0.25)
    assert outcome.first == 15
    assert outcome.start.time_s == pytest.approx(offered.arrival_s[15], rel=1e-12)
    assert outcome.end.time_s == pytest.approx(offered.arrival_s[59], rel=1e-12)


def test_a_sink_sees_every_visit_and_iteration_once() -> None:
    log = Log()
    what = system(Policy(serving="colocated"), cost)
    run(what, drawn(6), sink=log)
    assert len(log.visits) == 60
    assert len(log.iterations) == what.costs["serve"].snapshot()
