"""Iteration times of the request level from the operator level: a memo, or every iteration in events."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Design, Placement
from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Attended, Composition
from simulators.package.operators import MemoCost, leading, rounded
from simulators.serving.build import build_system
from simulators.serving.run import Outcome, run
from tests.simulators.serving_pieces import Log

POINT = {"hbm": 12, "Ap": 3, "Ad": 3, "Mp": 3, "link_gb_per_s": 384, "max_batch": 16}


def _design(serving: str) -> Design:
    space = load_space("hydra-24")
    point = space.complete(POINT)
    assert point is not None
    design = space.build(point)
    slots = (*range(6, 18), *range(6), *range(18, 24))
    return replace(design, policy=replace(design.policy, serving=serving), placement=Placement(slots))


def _run(detail: str, serving: str, count: int = 5, apart_s: float = 100.0) -> tuple[Outcome, Log]:
    _, system = build_system(_design(serving), load_model("nemotron-h-8b"), load_calibration("default"), detail)
    offered = Requests(
        np.arange(count) * apart_s,
        np.array([100, 300, 250, 700, 30][:count]),
        np.array([2, 5, 2, 2, 3][:count]),
        np.zeros(count, dtype=np.int64),
    )
    log = Log()
    return run(system, offered, sink=log), log


@pytest.mark.slow
@pytest.mark.parametrize("serving", ["colocated", "disaggregated"])
def test_without_interference_the_memo_gives_the_dates_of_executed_iterations_within_one_per_cent(serving: str) -> None:
    memo, executed = _run("memo", serving)[0].visits, _run("operators", serving)[0].visits
    ttft = [visits.first_token_s - visits.arrival_s for visits in (memo, executed)]
    assert ttft[0] == pytest.approx(ttft[1], rel=0.01)
    rest = [visits.last_token_s - visits.first_token_s for visits in (memo, executed)]
    assert rest[0] == pytest.approx(rest[1], rel=0.01)


def test_with_interference_the_memo_is_within_five_per_cent_of_executed_iterations() -> None:
    memo, executed = (_run(detail, "disaggregated", apart_s=0.0)[0].visits for detail in ("memo", "operators"))
    assert memo.first_token_s == pytest.approx(executed.first_token_s, rel=0.05)
    assert memo.last_token_s == pytest.approx(executed.last_token_s, rel=0.05)


def test_executed_iterations_of_two_pools_slow_each_other() -> None:
    apart, together = _run("operators", "disaggregated")[0].visits, _run("operators", "disaggregated", apart_s=0.0)[0]
    decode = [visits.last_token_s - visits.first_token_s for visits in (apart, together.visits)]
    # The second request decodes beside the prefill of the fourth.
    assert decode[1][1] > decode[0][1] * 1.001


@pytest.mark.slow
def test_a_run_by_operators_is_reproducible_to_the_last_bit() -> None:
    assert _run("operators", "disaggregated", apart_s=0.01)[1] == _run("operators", "disaggregated", apart_s=0.01)[1]


def test_compositions_that_round_alike_are_executed_once() -> None:
    costs, _ = build_system(_design("colocated"), load_model("nemotron-h-8b"), load_calibration("default"), "memo")
    cost = costs["serve"]
    assert isinstance(cost, MemoCost)
    _run("memo", "colocated")
    for context in (16_000, 16_100, 16_200):
        cost.work(Composition(0, 0, 16, 16, Attended(context, 0.0, 0, 16)))
    assert cost.known == 1


@pytest.mark.parametrize("number", [0, 1, 7, 8, 9, 100, 1023, 1024, 65_535])
def test_rounded_counts_are_at_most_an_eighth_off(number: int) -> None:
    assert abs(rounded(number) - number) <= number / 8
    assert rounded(rounded(number)) == rounded(number)
    assert leading(number) == 0 if number == 0 else 0.7 <= leading(number) / number <= 1.42


def test_an_unknown_detail_is_refused_with_those_that_exist() -> None:
    with pytest.raises(InputError, match="ledger, memo, operators"):
        _run("flits", "colocated")
