"""Routing of finished prompts to several decode engines."""

from __future__ import annotations

import numpy as np
import pytest
from placed_pieces import constant
from serving_pieces import PLENTY, requests, serve, system

from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.iteration import FixedCost
from simulators.serving import System


def policy(routing: str, **more: object) -> Policy:
    return Policy(max_batch=8, token_budget=200, batches_in_flight=2, routing=routing, **more)


def decoders(routing: str, *offered: tuple[float, int, int]) -> list[tuple[int, float, int]]:
    """(engine, start, decoding sequences) of every decode iteration; prompts take 1 s, steps 2 s."""
    costs = {"prefill": FixedCost(constant(1.0)), "decode": FixedCost(constant(2.0))}
    log, _ = serve(System(policy(routing), PLENTY, dict(costs)), requests(*offered), fast=False)
    return [(i.engine, i.start_s, i.decode_sequences) for i in log.iterations if i.pool == "decode"]


FOUR = ((0, 10, 2), (0, 10, 2), (0, 10, 2), (0, 10, 2))


def test_a_shared_queue_lets_the_first_engine_take_all_it_has_slots_for() -> None:
    assert decoders("shared", *FOUR) == [(0, 1.0, 4)]


@pytest.mark.parametrize("routing", ["jsq", "round_robin"])
def test_routed_prompts_are_dealt_out_evenly(routing: str) -> None:
    assert decoders(routing, *FOUR) == [(0, 1.0, 2), (1, 1.0, 2)]


def test_the_shortest_queue_gets_the_next_request_where_turns_would_not() -> None:
    # Of two requests at 0 the second ends at 3.0; the third, at 3.5, finds one engine empty.
    offered = ((0, 10, 9), (0, 10, 2), (3.5, 10, 2))
    assert (1, 4.5, 1) in decoders("jsq", *offered)
    assert all(engine == 0 for engine, start, _ in decoders("round_robin", *offered) if start > 3.0)


@pytest.mark.parametrize("routing", ["shared", "jsq", "round_robin"])
def test_every_request_is_served_whatever_the_routing(routing: str) -> None:
    rng = derive(8, "routing")
    count = 150
    offered = Requests(
        np.cumsum(rng.exponential(2.0, count)),
        rng.integers(1, 60, count),
        rng.integers(1, 30, count),
        np.zeros(count, dtype=np.int64),
    )
    log, _ = serve(system(policy(routing), constant(1.0)), offered)
    assert len(log.visits) == count
