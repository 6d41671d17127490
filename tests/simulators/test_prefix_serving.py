"""Serving with a prefix cache and in sessions: schedules by hand, invariants, and exact LRU as a reference."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from serving_pieces import Log, one_second, serve, system

from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, run
from simulators.serving.prefix import PrefixShape
from simulators.serving.reuse_metrics import session_s

CACHED = Policy(serving="colocated", max_batch=8, token_budget=1000, block_tokens=10, prefix_cache=True)
ROOMY = CacheShape(1e9, 1.0, 0.0, 10, 0.0)


def offered(rows: list[tuple[float, int, int, list[int]]], **more: object) -> Requests:
    """Requests as (arrival, prompt, output, ids of blocks of 10 tokens)."""
    time, prompt, output, blocks = zip(*rows, strict=True)
    return Requests(
        np.array(time, dtype=float),
        np.array(prompt),
        np.array(output),
        np.zeros(len(rows), dtype=np.int64),
        tuple(tuple(ids) for ids in blocks),
        10,
        **more,  # type: ignore[arg-type]
    )


def per_token(batch: Composition) -> float:
    return 1.0 + 0.1 * batch.prefill_tokens


def prefills(log: Log) -> list[int]:
    return [record.prefill_tokens for record in log.iterations if record.prefill_tokens]


TWINS = offered([(0.0, 35, 1, [1, 2, 3]), (100.0, 35, 1, [1, 2, 3]), (200.0, 55, 1, [1, 2, 9, 4, 5])])


def test_a_prompt_computes_only_what_is_behind_its_cached_prefix() -> None:
    log, server = serve(system(CACHED, per_token, ROOMY), TWINS)
    assert prefills(log) == [35, 5, 35]
    assert server.recorder.visits().cached_tokens.tolist() == [0, 30, 20]
    assert [round(visit.first_token_s - visit.arrival_s, 9) for visit in log.visits] == [4.5, 1.5, 4.5]


def test_without_the_policy_nothing_is_reused() -> None:
    log, _ = serve(system(replace(CACHED, prefix_cache=False), per_token, ROOMY), TWINS)
    assert prefills(log) == [35, 35, 55]


def test_the_rest_of_a_prompt_attends_to_all_of_it() -> None:
    seen: list[Composition] = []

    def watch(batch: Composition) -> float:
        seen.append(batch)
        return 1.0

    serve(system(CACHED, watch, ROOMY), TWINS)
    assert [(batch.attended.prefill_pairs, batch.attended.prefill_tokens) for batch in seen[:2]] == [
        (35 * 35 / 2, 35),
        (5 * (30 + 5 / 2), 35),
    ]


def test_a_model_with_state_reuses_up_to_its_last_checkpoint() -> None:
    """Checkpoints every 20 tokens: 30 cached tokens are worth 20."""
    cache = CacheShape(1e9, 1.0, 50.0, 10, 0.0)
    log, _ = serve(system(replace(CACHED, state_checkpoint_tokens=20), per_token, cache), TWINS)
    assert prefills(log) == [35, 15, 35]
    log, _ = serve(system(replace(CACHED, state_checkpoint_tokens=0), per_token, cache), TWINS)
    assert prefills(log) == [35, 35, 55]


def test_running_requests_evict_what_is_cached() -> None:
    """35 tokens leave 30 cached of 100; the prompt of 80 in 8 blocks leaves room for 2 of the 3."""
    rows = [(0.0, 35, 1, [1, 2, 3]), (50.0, 80, 1, [21, 22, 23, 24, 25, 26, 27, 28]), (90.0, 35, 1, [1, 2, 3])]
    log, server = serve(system(CACHED, per_token, replace(ROOMY, capacity_bytes=100.0)), offered(rows))
    assert prefills(log) == [35, 80, 15]
    assert server.memory.peak_bytes <= 100.0


def test_requests_that_run_together_hold_a_shared_prefix_once() -> None:
    """Four prompts of 4 blocks, 3 of them shared: 3 + 4 of 9 blocks, where 4·4 would not fit."""
    ids = [[1, 2, 3]] * 4
    rows = [(0.0, 31, 20, ids[0]), *((2.0, 31, 9, shared) for shared in ids[1:])]
    log, server = serve(system(CACHED, one_second, replace(ROOMY, capacity_bytes=90.0)), offered(rows))
    assert server.recorder.visits().cached_tokens.tolist() == [0, 30, 30, 30]
    assert [visit.preemptions for visit in log.visits] == [0, 0, 0, 0]
    assert max(record.decode_sequences for record in log.iterations) == 4


def test_what_comes_back_from_the_host_delays_its_prefill_by_the_transfer() -> None:
    """Of 3 cached blocks 2 lie on the host when the first prompt comes again: 20 bytes at 4 bytes/s."""
    policy = replace(CACHED, host_cache_bytes=1e6, host_bytes_per_s=4.0)
    rows = [(0.0, 35, 1, [1, 2, 3]), (50.0, 90, 1, [*range(21, 30)]), (90.0, 35, 1, [1, 2, 3])]
    log, _ = serve(system(policy, per_token, replace(ROOMY, capacity_bytes=100.0)), offered(rows))
    assert prefills(log) == [35, 90, 5]
    last = log.visits[-1]
    assert last.first_token_s - last.arrival_s == pytest.approx(20.0 / 4.0 + 1.5)


def test_transfers_from_the_host_follow_one_another() -> None:
    policy = replace(CACHED, host_cache_bytes=1e6, host_bytes_per_s=1.0, batching="prefill_first")
    rows = [(0.0, 35, 1, [1, 2, 3]), (10.0, 35, 1, [7, 8, 9]), (50.0, 99, 1, [*range(21, 30)])]
    rows += [(90.0, 35, 1, [1, 2, 3]), (90.0, 35, 1, [7, 8, 9])]
    log, _ = serve(system(policy, one_second, replace(ROOMY, capacity_bytes=100.0)), offered(rows))
    ends = sorted(visit.first_token_s for visit in log.visits)[-2:]
    assert ends == pytest.approx([90.0 + 30.0 + 1.0, 90.0 + 60.0 + 1.0])


SESSION = offered(
    [(0.0, 20, 3, [1, 2]), (5.0, 40, 2, [1, 2, 3, 4]), (11.0, 60, 1, [1, 2, 3, 4, 5, 6]), (12.0, 10, 1, [9])],
    parent=np.array([-1, 0, 1, -1]),
    think_s=np.array([0.0, 5.0, 6.0, 0.0]),
    turn=np.array([0, 1, 2, 0]),
)


def test_a_turn_arrives_a_think_time_after_the_one_before_it_ended() -> None:
    """Iterations of 1 s: turns end at 3, 3 + 5 + 2 = 10 and 10 + 6 + 1 = 17; the lone request comes in between."""
    log, _ = serve(system(CACHED, one_second, ROOMY), SESSION)
    assert sorted((visit.arrival_s, visit.last_token_s) for visit in log.visits) == [
        (0.0, 3.0),
        (8.0, 10.0),
        (12.0, 13.0),
        (16.0, 17.0),
    ]


def test_the_time_of_a_session_counts_its_think_times() -> None:
    """Two sessions begin: one of 17 s, one of 1 s."""
    outcome = run(system(CACHED, one_second, ROOMY), SESSION)
    assert outcome.visits.drawn.tolist() == [0, 1, 3, 2]
    assert session_s(outcome) == pytest.approx((17.0 + 1.0) / 2)


def test_answers_are_cached_where_their_blocks_are_known() -> None:
    """20 + 12 tokens leave three full blocks (the last token is never cached)."""
    rows = [(0.0, 20, 12, [1, 2, 3]), (50.0, 41, 1, [1, 2, 3, 4])]
    log, _ = serve(system(CACHED, one_second, ROOMY), offered(rows))
    assert prefills(log) == [20, 11]


# -- invariants -----------------------------------------------------------------------------------------------


def drawn(seed: int, count: int = 60, rate_per_s: float = 6.0) -> Requests:
    """Chains of blocks of 8 tokens, some in sessions."""
    rng = np.random.default_rng(seed)
    prompt, output = rng.integers(1, 400, count), rng.integers(1, 120, count)
    chain = rng.integers(0, 5, count)
    common = rng.integers(0, 40, count)
    blocks = []
    for index in range(count):
        ids = np.arange((prompt[index] + output[index]) // 8)
        own = np.minimum(common[index], len(ids))
        blocks.append(np.where(ids < own, chain[index] * 1000 + ids, (10 + index) * 1000 + ids))
    parent = np.full(count, -1)
    for index in rng.choice(np.arange(1, count), count // 3, replace=False):
        parent[index] = rng.integers(0, index)
    return Requests(
        np.cumsum(rng.exponential(1 / rate_per_s, count)),
        prompt,
        output,
        np.zeros(count, dtype=np.int64),
        tuple(blocks),
        8,
        parent,
        rng.exponential(2.0, count),
        np.zeros(count, dtype=np.int64),
    )


def cost(batch: Composition) -> float:
    context = batch.attended.decode_tokens + batch.attended.prefill_tokens
    return 5e-3 + 1e-4 * batch.prefill_tokens + 1e-4 * batch.decode_sequences + 3e-8 * context


policies = st.builds(
    Policy,
    serving=st.sampled_from(("colocated", "disaggregated")),
    batching=st.sampled_from(("chunked", "prefill_first", "static")),
    scheduling=st.sampled_from(("fcfs", "sjf")),
    max_batch=st.integers(1, 20),
    token_budget=st.integers(20, 600),
    batches_in_flight=st.integers(1, 3),
    block_tokens=st.sampled_from((1, 7, 16)),
    prefix_cache=st.just(True),
    state_checkpoint_tokens=st.sampled_from((0, 60, 200)),
    host_cache_bytes=st.sampled_from((0.0, 500.0, 1e6)),
    host_bytes_per_s=st.just(2000.0),
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(policies, st.integers(0, 10**6), st.integers(600, 9000), st.sampled_from(((1.0, 0.0), (1.0, 30.0), (0.0, 30.0))))
@example(
    Policy(
        serving="disaggregated",
        max_batch=1,
        token_budget=20,
        block_tokens=1,
        prefix_cache=True,
        state_checkpoint_tokens=0,
        host_cache_bytes=1e6,
        host_bytes_per_s=2000.0,
    ),
    0,
    600,
    (1.0, 0.0),
)
@example(  # room for the last of a closed batch is made by preempting it, while others wait for the batch to end
    Policy(batching="static", max_batch=4, token_budget=20, block_tokens=1, prefix_cache=True, host_cache_bytes=500.0,
           host_bytes_per_s=2000.0), 182, 600, (1.0, 0.0),
)  # fmt: skip
def test_nothing_is_lost_and_leaping_changes_no_record_with_a_prefix_cache(
    policy: Policy, seed: int, capacity: int, sizes: tuple[float, float]
) -> None:
    """The server checks memory at every change, and at the end that nobody reads a unit any more."""
    requests = drawn(seed)
    cache = CacheShape(float(capacity), *sizes, policy.block_tokens, policy.memory_watermark)
    runs = [serve(system(policy, cost, cache), requests, marks=(7, 59), fast=fast) for fast in (True, False)]
    (log, server), (other, slow) = runs
    assert sorted(visit.request for visit in log.visits) == list(range(60))
    assert server.recorder.tokens == int(requests.output_tokens.sum())
    assert server.memory.peak_bytes <= capacity
    assert log.visits == other.visits
    assert log.iterations == other.iterations
    assert server.marks == slow.marks
    computed = sum(record.prefill_tokens for record in log.iterations)
    if server.preemptions == 0:
        assert computed + int(server.recorder.visits().cached_tokens.sum()) == int(requests.prompt_tokens.sum())


def lru_hits(requests: Requests, shape: PrefixShape, room_bytes: float) -> int:
    """Tokens found by a list of entries in order of last use: the definition, without readers or running requests."""
    order: OrderedDict[tuple[str, int], float] = OrderedDict()
    found = 0
    every = shape.checkpoint_units
    for blocks, prompt in zip(requests.blocks or (), requests.prompt_tokens.tolist(), strict=True):
        path = shape.path(blocks)
        usable = 0
        for depth, unit in enumerate(path[: (prompt - 1) // shape.unit_tokens], start=1):
            if ("kv", unit) not in order:
                break
            if not shape.state_bytes or (every and depth % every == 0 and ("state", unit) in order):
                usable = depth
        found += usable * shape.unit_tokens
        for depth in range(len(path), 0, -1):
            entries = [("kv", shape.kv_bytes)]
            if shape.state_bytes and every and depth % every == 0:
                entries.insert(0, ("state", shape.state_bytes))
            for kind, size in entries:
                order.pop((kind, path[depth - 1]), None)
                order[kind, path[depth - 1]] = size
        while order and sum(order.values()) > room_bytes:
            order.popitem(last=False)
    return found


@pytest.mark.parametrize("state_bytes", [0.0, 900.0])
@pytest.mark.parametrize("capacity", [4_000.0, 12_000.0, 40_000.0, 1e9])
def test_requests_one_at_a_time_find_what_an_lru_list_holds(state_bytes: float, capacity: float) -> None:
    """With nothing else running the cache has all memory but what the request itself takes (at most 800 bytes)."""
    rng = derive(3, "lru")
    chain, length = rng.integers(0, 30, 400) ** 2 // 30, rng.integers(2, 60, 400)
    blocks = tuple(c * 1000 + np.arange(n) for c, n in zip(chain.tolist(), length.tolist(), strict=True))
    requests = Requests(
        100.0 * np.arange(400), 10 * length + 3, np.ones(400, dtype=np.int64), np.zeros(400, dtype=np.int64), blocks, 10
    )
    policy = replace(CACHED, state_checkpoint_tokens=50)
    cache = CacheShape(capacity, 1.0, state_bytes, 10, 0.0)
    _, server = serve(system(policy, one_second, cache), requests)
    shape = PrefixShape.of(policy, 10, 1.0, state_bytes)
    found = int(server.recorder.visits().cached_tokens.sum())
    own = 600.0 + 10.0 + state_bytes * (1 + 12)
    assert lru_hits(requests, shape, capacity - own) <= found <= lru_hits(requests, shape, capacity)
    assert found > 0 or capacity < 5_000.0
