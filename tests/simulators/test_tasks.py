"""Work stealing and oldest-first: schedules worked out by hand, conservation, and placed designs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from placed_pieces import constant, placed, simulate
from serving_pieces import PLENTY, Log, requests, serve

from hydra_dse.config import load_model, load_workload
from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.iteration import FixedCost
from simulators.serving import CacheShape, System

POLICY = Policy(max_batch=2, token_budget=10)


def system(task_map: str, cache: CacheShape = PLENTY, **policy: object) -> System:
    """Prompts take 1 s on prefill dies and 3 s on decode dies, steps 2 s on the former and 1 s on the latter."""
    return System(
        replace(POLICY, task_map=task_map, **policy),
        cache,
        {"prefill": FixedCost(constant(1.0)), "decode": FixedCost(constant(1.0))},
        swapped={"prefill": FixedCost(constant(3.0)), "decode": FixedCost(constant(2.0))},
    )


def steps(log: Log, pool: str) -> list[tuple[float, int, int]]:
    return log.steps(pool)


def test_an_idle_decode_pool_takes_a_prompt_that_waits() -> None:
    log, _ = serve(system("stealing"), requests((0, 10, 1), (0, 10, 1), (0.5, 10, 1)))
    # The second prompt is taken by the decode dies at once; the third waits for the prefill dies.
    assert steps(log, "prefill") == [(0.0, 10, 0), (1.0, 10, 0)]
    assert steps(log, "decode") == [(0.0, 10, 0)]
    assert log.dates() == [(0, 0.0, 1.0, 1.0), (2, 1.0, 2.0, 2.0), (1, 0.0, 3.0, 3.0)]


def test_a_decode_pool_with_work_takes_no_prompt() -> None:
    log, _ = serve(system("stealing"), requests((0, 10, 9), (1.5, 10, 1), (1.5, 10, 1)))
    assert all(prompts == 0 for _, prompts, _ in steps(log, "decode"))


def test_what_is_left_of_a_stolen_prompt_goes_on_in_the_prefill_pool() -> None:
    log, _ = serve(system("stealing"), requests((0, 10, 1), (0, 15, 1)))
    assert steps(log, "decode") == [(0.0, 10, 0)]
    assert steps(log, "prefill") == [(0.0, 10, 0), (3.0, 5, 0)]


def test_an_idle_prefill_pool_decodes_those_that_wait_for_a_slot() -> None:
    log, _ = serve(system("stealing"), requests((0, 3, 4), (0, 3, 4), (0, 3, 4)))
    # All three prompts end at 1.0; two have slots; the third decodes on the prefill dies, 2 s a step, until a slot is
    # free: tokens 2 and 3 at 3.0 and … the slots are free at 4.0, while its second stolen step ends at 5.0.
    assert steps(log, "decode") == [(1.0, 0, 2), (2.0, 0, 2), (3.0, 0, 2), (5.0, 0, 1)]
    assert steps(log, "prefill") == [(0.0, 9, 0), (1.0, 0, 1), (3.0, 0, 1)]
    assert log.dates()[-1] == (2, 0.0, 1.0, 6.0)


def test_a_prefill_pool_does_not_decode_while_there_are_free_slots() -> None:
    log, _ = serve(system("stealing"), requests((0, 5, 9), (3.25, 5, 9)))
    assert all(decoders == 0 for _, _, decoders in steps(log, "prefill"))


def test_the_oldest_work_goes_first() -> None:
    log, _ = serve(system("fcfs"), requests((0, 10, 5), (1.25, 10, 1), (1.5, 10, 1)))
    # At 1.0 the prefill dies are free and step the batch (2 s).  The decode dies take the prompt of 1.25 (3 s).  At 3.0
    # the prompt of 1.5 is older than the batch, whose step ended at 3.0.  At 4.0 the batch is the only work left.
    assert steps(log, "prefill") == [(0.0, 10, 0), (1.0, 0, 1), (3.0, 10, 0), (4.0, 0, 1), (6.0, 0, 1), (8.0, 0, 1)]
    assert steps(log, "decode") == [(1.25, 10, 0)]


def test_the_batch_is_never_stepped_twice_at_once() -> None:
    rng = derive(2, "fcfs")
    offered = random_requests(rng, 300)
    log, _ = serve(system("fcfs", max_batch=8, token_budget=64), offered)
    decoding = sorted((r.start_s, r.start_s + r.duration_s) for r in log.iterations if r.decode_sequences)
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(decoding))
    assert {r.pool for r in log.iterations if r.decode_sequences} == {"prefill", "decode"}


def random_requests(rng: np.random.Generator, count: int) -> Requests:
    return Requests(
        np.cumsum(rng.exponential(3.0, count)),
        rng.integers(1, 40, count),
        rng.integers(1, 30, count),
        np.zeros(count, dtype=np.int64),
    )


@pytest.mark.parametrize("task_map", ["stealing", "fcfs"])
@pytest.mark.parametrize("blocks", [12, 1000])
def test_every_request_is_served_once_and_leaping_changes_nothing(task_map: str, blocks: int) -> None:
    cache = CacheShape(capacity_bytes=16.0 * blocks, kv_bytes_per_token=1.0, state_bytes_per_sequence=0.0)
    offered = random_requests(derive(4, task_map, blocks), 200)
    what = system(task_map, cache, max_batch=4, token_budget=16, memory_watermark=0.0)
    quick, walked = serve(what, offered), serve(what, offered, fast=False)
    assert quick[0].dates() == walked[0].dates()
    assert quick[0].steps() == walked[0].steps()
    assert len(quick[0].visits) == 200
    if blocks == 12:
        assert quick[1].preemptions > 0


@pytest.mark.slow
@pytest.mark.parametrize("task_map", ["stealing", "fcfs"])
def test_a_placed_design_serves_under_every_task_map(task_map: str) -> None:
    load = replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),))
    found = simulate(placed(task_map=task_map), load, 60, rate_per_s=4.0)
    still = simulate(placed(), load, 60, rate_per_s=4.0)
    assert found.keys() == still.keys()
    assert found["saturation_requests_per_s"] > 0.5 * still["saturation_requests_per_s"]
    assert found != still
