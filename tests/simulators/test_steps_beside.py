"""Decode steps taken beside a running prefill iteration: the records of single steps, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import simpy

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Placement
from hydra_dse.workload.nouns import Requests
from simulators.serving.build import build_system
from simulators.serving.server import Server
from simulators.serving.system import System
from tests.simulators.serving_pieces import Log

POINT = {"hbm": 12, "Ap": 3, "Ad": 3, "Mp": 3, "link_gb_per_s": 256, "max_batch": 16}


def _system(model_name: str, batches: int = 1) -> System:
    space, model = load_space("hydra-24"), load_model(model_name)
    point = space.complete(POINT)
    assert point is not None
    design = space.build(point)
    policy = replace(design.policy, batches_in_flight=batches)
    # Dies in the two middle rows of the mesh, stacks in the outer ones, so that streams of both pools share links.
    slots = (*range(6, 18), *range(6), *range(18, 24))
    design = replace(design, policy=policy, placement=Placement(slots))
    return build_system(design, model, load_calibration("default"))[1]


def _offered(count: int, rate_per_s: float, seed: int) -> Requests:
    rng = np.random.default_rng(seed)
    return Requests(
        np.cumsum(rng.exponential(1.0 / rate_per_s, count)),
        rng.integers(10, 3000, count),
        rng.integers(1, 300, count),
        np.zeros(count, dtype=np.int64),
    )


def _run(system: System, offered: Requests, fast: bool) -> tuple[Log, Server]:
    env, log = simpy.Environment(), Log()
    server = Server(env, system, offered, log, (10, len(offered) - 1), fast)
    env.run()
    server.check_empty()
    return log, server


@pytest.mark.slow
@pytest.mark.parametrize(("model", "batches"), [("nemotron-h-8b", 1), ("gpt-oss-20b", 1), ("nemotron-h-8b", 2)])
def test_records_and_totals_are_those_of_single_steps_to_the_last_bit(model: str, batches: int) -> None:
    system, offered = _system(model, batches), _offered(120, 2.0, 3)
    fast, jumped = _run(system, offered, fast=True)
    single, walked = _run(system, offered, fast=False)
    assert fast.iterations == single.iterations
    assert fast.visits == single.visits
    for quick, slow in zip(jumped.marks, walked.marks, strict=True):
        assert (quick.time_s, quick.tokens, quick.block_seconds) == (slow.time_s, slow.tokens, slow.block_seconds)


def test_most_decode_steps_beside_a_prefill_need_no_event_of_their_own() -> None:
    _, server = _run(_system("nemotron-h-8b"), _offered(120, 4.0, 3), fast=True)
    log, _ = _run(_system("nemotron-h-8b"), _offered(120, 4.0, 3), fast=False)
    assert server.leaper.steps > 0.7 * sum(each.pool == "decode" for each in log.iterations)
