"""Hand-off by transfer: flows that share a link, memory held meanwhile, a full decode pool that pushes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from placed_pieces import constant
from serving_pieces import PLENTY, requests, serve

from hydra_dse.policy import Policy
from simulators.iteration import Composition, FixedCost, Work
from simulators.serving import CacheShape, System

POLICY = Policy(max_batch=4, token_budget=100)
WHOLE_LINK = np.array([1.0])


class OnLink(FixedCost):
    """Decode steps of one second that keep the link busy for a share of it."""

    def __init__(self, share: float) -> None:
        super().__init__(constant(1.0))
        self.share = np.array([share])

    def work(self, batch: Composition) -> Work:
        return Work(1.0, batch, (), lambda _: self.share)


def system(handoff_s: float, policy: Policy = POLICY, cache: CacheShape = PLENTY, share: float = 0.0) -> System:
    costs = {"prefill": FixedCost(constant(1.0)), "decode": OnLink(share)}
    return System(policy, cache, dict(costs), lambda tokens: Work(handoff_s, usage_of=lambda _: WHOLE_LINK))


def test_a_transfer_alone_delays_the_second_token_by_its_time() -> None:
    log, _ = serve(system(0.5), requests((0, 10, 3)))
    assert log.steps("decode") == [(1.5, 0, 1), (2.5, 0, 1)]
    assert log.dates() == [(0, 0.0, 1.0, 3.5)]


def test_two_transfers_on_one_link_take_twice_as_long() -> None:
    log, _ = serve(system(0.5), requests((0, 10, 2), (0, 10, 2)))
    assert log.steps("decode") == [(2.0, 0, 2)]


def test_a_transfer_and_a_decode_step_share_the_link() -> None:
    # The step of 2.0 … wants the link for 0.8 of its time, the transfer that starts at 2.0 all of it: half each.  The
    # transfer of 0.5 s ends at 3.0; until then the step runs at 0.5/0.8, so 0.375 s of it are left: 3.375.
    log, _ = serve(system(0.5, share=0.8), requests((0, 10, 4), (1.0, 10, 2)))
    # The first prompt is handed over in 1.0 … 1.5, and decodes alone in 1.5 … 2.5 but for the transfer from 2.0 on:
    # half a second is left at 2.0, at 5/8 of full speed it ends at 2.8.  The next step runs to 3.0 at that speed.
    assert [round(start, 6) for start, _, _ in log.steps("decode")] == [1.5, 2.8, 3.875]
    assert [decoders for _, _, decoders in log.steps("decode")] == [1, 1, 2]


def test_memory_is_held_while_a_request_moves() -> None:
    # Room for one request: the second prompt can only start when the first has been served to its end.
    cache = CacheShape(capacity_bytes=32.0, kv_bytes_per_token=1.0, state_bytes_per_sequence=0.0, watermark=0.0)
    log, _ = serve(system(5.0, cache=cache), requests((0, 20, 2), (0, 20, 2)))
    assert log.steps("prefill") == [(0.0, 20, 0), (7.0, 20, 0)]


def test_requests_that_move_count_as_waiting_for_decode_and_push_back() -> None:
    policy = replace(POLICY, max_batch=1, token_budget=10)
    log, _ = serve(system(5.0, policy), requests((0, 10, 2), (0, 10, 2), (0, 10, 2)))
    # One is on its way from 1.0 to 6.0 and no prefill iteration starts meanwhile.
    assert log.steps("prefill")[:2] == [(0.0, 10, 0), (6.0, 10, 0)]
