"""Each policy on a handful of requests: what happens when, worked out by hand."""

from __future__ import annotations

import pytest
from serving_pieces import one_second, requests, serve, system

from hydra_dse.errors import InvariantBroken
from hydra_dse.policy import Policy
from simulators.serving import CacheShape, Composition, Work


def colocated(**more: object) -> Policy:
    return Policy(serving="colocated", memory_watermark=0.0, **more)  # type: ignore[arg-type]


def test_chunked_prefill_gives_decoders_their_token_first_and_prompts_the_rest_of_the_budget() -> None:
    policy = colocated(token_budget=4, max_batch=2)
    log, _ = serve(system(policy, one_second), requests((0.0, 6, 3), (0.5, 5, 2)))
    # 0: 4 of 6 tokens of request 0.  1: its last 2, and 2 of request 1 (arrived at 0.5).
    # 2: one decoder, the 3 remaining tokens of request 1.  3: both decode their last tokens.
    assert log.steps() == [(0, 4, 0), (1, 4, 0), (2, 3, 1), (3, 0, 2)]
    assert log.dates() == [(0, 0, 2, 4), (1, 1, 3, 4)]


def test_prefill_first_stalls_decoders_and_never_mixes() -> None:
    policy = colocated(batching="prefill_first", token_budget=8, max_batch=4)
    log, _ = serve(system(policy, one_second), requests((0.0, 5, 3), (0.5, 5, 2), (1.5, 3, 2)))
    # 1: request 1 alone.  2: request 2 arrived meanwhile.  3: all decode.  4: only request 0 is left.
    assert log.steps() == [(0, 5, 0), (1, 5, 0), (2, 3, 0), (3, 0, 3), (4, 0, 1)]
    assert log.dates() == [(1, 1, 2, 4), (2, 2, 3, 4), (0, 0, 1, 5)]


def test_prefill_first_batches_whole_prompts_up_to_the_budget_and_runs_a_longer_one_alone() -> None:
    policy = colocated(batching="prefill_first", token_budget=8, max_batch=4)
    log, _ = serve(system(policy, one_second), requests((0.0, 4, 1), (0.0, 4, 1), (0.0, 1, 1), (0.0, 20, 1)))
    assert log.steps() == [(0, 8, 0), (1, 1, 0), (2, 20, 0)]


def test_disaggregated_pools_run_side_by_side_and_hand_over_by_pointer() -> None:
    policy = Policy(serving="disaggregated", token_budget=4, max_batch=2, memory_watermark=0.0)
    log, _ = serve(system(policy, one_second), requests((0.0, 6, 3), (0.25, 2, 2)))
    # Prefill: 4 tokens, then 2 + 2.  Both are handed over at 2 and decode together.
    assert log.steps("prefill") == [(0, 4, 0), (1, 4, 0)]
    assert log.steps("decode") == [(2, 0, 2), (3, 0, 1)]
    assert log.dates() == [(1, 1, 2, 3), (0, 0, 2, 4)]


def test_a_handed_over_request_joins_the_decode_batch_at_its_next_iteration() -> None:
    policy = Policy(serving="disaggregated", token_budget=4, max_batch=2, memory_watermark=0.0)

    def duration(batch: Composition) -> float:
        return 1.0 if batch.prefill_tokens else 0.75

    log, _ = serve(system(policy, duration), requests((0.0, 4, 4), (0.5, 4, 2)))
    # Request 0 decodes at 1.0, 1.75, 2.5; request 1 is ready at 2.0 and joins at 2.5.
    assert log.steps("decode") == [(1.0, 0, 1), (1.75, 0, 1), (2.5, 0, 2)]
    assert log.dates() == [(0, 0, 1, 3.25), (1, 1, 2, 3.25)]


def test_prefill_pauses_while_as_many_requests_wait_as_the_decode_pool_serves() -> None:
    policy = Policy(serving="disaggregated", token_budget=4, max_batch=1, memory_watermark=0.0)

    def duration(batch: Composition) -> float:
        return 1.0 if batch.prefill_tokens else 10.0

    log, _ = serve(system(policy, duration), requests((0.0, 4, 2), (0.0, 4, 2), (0.0, 4, 2)))
    # Request 0 decodes from 1 to 11.  Request 1 is ready at 2 and waits: request 2 may start only at 11, when
    # request 1 takes the slot; it is ready at 12 and waits until 21.
    assert log.steps("prefill") == [(0, 4, 0), (1, 4, 0), (11, 4, 0)]
    assert log.steps("decode") == [(1, 0, 1), (11, 0, 1), (21, 0, 1)]
    assert [date[2:] for date in log.dates()] == [(1, 11), (2, 21), (12, 31)]


def test_a_timed_hand_off_delays_decode_and_keeps_the_memory() -> None:
    policy = Policy(serving="disaggregated", token_budget=8, max_batch=2, memory_watermark=0.0, block_tokens=1)
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    what = system(policy, one_second, cache, handoff=lambda tokens: Work(tokens / 8.0))
    log, _ = serve(what, requests((0.0, 4, 2), (0.0, 6, 2)))
    # 4 tokens held from 0; 6 more do not fit until request 0 leaves: prefill 0–1, transfer 0.5 s, decode to 2.5.
    assert log.steps("prefill") == [(0, 4, 0), (2.5, 6, 0)]
    assert log.dates() == [(0, 0, 1, 2.5), (1, 2.5, 3.5, 5.25)]


def test_shortest_prompt_first_overtakes_but_does_not_interrupt() -> None:
    policy = colocated(batching="prefill_first", token_budget=1, max_batch=1, scheduling="sjf")
    offered = requests((0.0, 9, 1), (0.1, 5, 1), (0.2, 3, 1), (0.3, 5, 1))
    log, _ = serve(system(policy, one_second), offered)
    assert [visit.request for visit in log.visits] == [0, 2, 1, 3]


def test_a_prompt_starts_only_when_memory_for_all_of_it_is_free_below_the_watermark() -> None:
    cache = CacheShape(100.0, 1.0, 0.0, block_tokens=10, watermark=0.1)
    policy = colocated(token_budget=100, max_batch=8, block_tokens=10)
    log, server = serve(system(policy, one_second, cache), requests((0.0, 50, 3), (0.0, 41, 1)))
    # 50 + 41 tokens are 5 + 5 blocks = 100 bytes, above the 90 that admissions may fill; request 0 takes a sixth
    # block for its second token and leaves at 3.
    assert log.dates() == [(0, 0, 1, 3), (1, 3, 4, 4)]
    assert server.memory.peak_bytes == 60.0


def test_a_decode_step_without_a_free_block_preempts_the_newest_and_computes_it_again() -> None:
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = colocated(token_budget=100, max_batch=8, block_tokens=1)
    log, server = serve(system(policy, one_second, cache), requests((0.0, 3, 4), (0.0, 3, 3)))
    # 0: both prefill, 6 blocks.  1: both decode, 8 blocks.  2: both would need 10 blocks: request 1 is preempted and
    # its 3 + 2 tokens do not fit beside 5.  3: request 0 ends at 4 with 6 blocks.  4: 5 tokens again: the last token.
    assert log.steps() == [(0, 6, 0), (1, 0, 2), (2, 0, 1), (3, 0, 1), (4, 5, 0)]
    assert log.dates() == [(0, 0, 1, 4), (1, 0, 1, 5)]
    assert [visit.preemptions for visit in log.visits] == [0, 1]
    assert server.memory.peak_bytes <= 9.0


def test_the_gap_over_a_preemption_counts_as_one_gap_between_tokens() -> None:
    cache = CacheShape(9.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = colocated(token_budget=100, max_batch=8, block_tokens=1)
    _, server = serve(system(policy, one_second, cache), requests((0.0, 3, 4), (0.0, 3, 3)), marks=(0,))
    gaps, weights = server.recorder.gaps.values()
    # Five gaps: request 0 has three of 1 s, request 1 one of 1 s and one of 3 s (2 → 5).
    assert sum(weights) == 5
    assert sorted(zip(gaps, weights, strict=True))[-1] == (3.0, 1.0)


def test_a_single_sequence_that_cannot_fit_stops_the_simulation_with_a_clear_message() -> None:
    cache = CacheShape(5.0, 1.0, 0.0, block_tokens=1, watermark=0.0)
    policy = colocated(token_budget=100, block_tokens=1)
    with pytest.raises(InvariantBroken, match="does not fit"):
        serve(system(policy, one_second, cache), requests((0.0, 4, 9)))


def test_recurrent_state_takes_a_slot_per_sequence() -> None:
    cache = CacheShape(20.0, 0.0, 10.0, watermark=0.0)
    policy = colocated(token_budget=100, max_batch=8)
    log, server = serve(system(policy, one_second, cache), requests((0.0, 4, 2), (0.0, 4, 2), (0.0, 4, 2)))
    assert log.dates() == [(0, 0, 1, 2), (1, 0, 1, 2), (2, 2, 3, 4)]
    assert server.memory.peak_bytes == 20.0


def test_batches_in_flight_split_slots_and_budget_over_engines() -> None:
    policy = colocated(token_budget=8, max_batch=4, batches_in_flight=2)
    offered = requests(*[(0.0, 4, 2)] * 5)
    log, _ = serve(system(policy, one_second), offered)
    # Each engine has 2 slots and 4 tokens: one prompt an iteration.
    first = [i for i in log.iterations if i.engine == 0]
    second = [i for i in log.iterations if i.engine == 1]
    assert max(i.prefill_tokens + i.decode_sequences for i in log.iterations) == 4
    assert first and second
    assert {visit.request for visit in log.visits} == set(range(5))


def test_one_token_requests_leave_at_the_end_of_their_prefill() -> None:
    policy = Policy(serving="disaggregated", token_budget=8, max_batch=1, memory_watermark=0.0)
    log, _ = serve(system(policy, one_second), requests((0.0, 4, 1), (0.0, 4, 1)))
    assert log.steps("decode") == []
    assert log.dates() == [(0, 0, 1, 1), (1, 0, 1, 1)]
