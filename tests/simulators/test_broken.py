"""A run with one part broken on purpose stops and says what does not add up."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import simpy
from placed_pieces import placed, simulate
from serving_pieces import PLENTY, requests, system

from hydra_dse.config import load_workload
from hydra_dse.errors import InvariantBroken
from hydra_dse.hardware.components import Package
from hydra_dse.policy import Policy
from hydra_dse.results import Component
from hydra_dse.workload import Workload, poisson
from simulators.iteration import Composition, Work
from simulators.noi import FluidProcessor
from simulators.noi.links import PlacedLinks
from simulators.package.components import check_balance
from simulators.package.tally import Tally
from simulators.serving import CacheShape, run
from simulators.serving.decode_queue import DecodeQueue
from simulators.serving.decoding import DecodeSet
from simulators.serving.engine import Engine
from simulators.serving.memory import CacheMemory
from simulators.serving.recorder import Recorder
from simulators.serving.sequence import Sequence
from simulators.serving.server import Server

COLOCATED = Policy(serving="colocated", max_batch=8, token_budget=64)
OFFERED = requests(*[(0.1 * number, 20, 6) for number in range(12)])


def cost(batch: Composition) -> float:
    return 0.01 + 1e-3 * batch.decode_sequences


def serve(
    policy: Policy = COLOCATED, cache: CacheShape = PLENTY, duration: Callable[[Composition], float] = cost
) -> None:
    run(system(policy, duration, cache), OFFERED)


def test_nothing_stops_the_run_of_whole_parts() -> None:
    serve()
    serve(Policy(max_batch=4, token_budget=64))


def test_a_token_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Engine._finish_step

    def twice(self: Engine, now: float) -> None:
        self.server.recorder.tokens += 1
        whole(self, now)

    monkeypatch.setattr(Engine, "_finish_step", twice)
    with pytest.raises(InvariantBroken, match=r"\d+ tokens were emitted where 72 were asked for"):
        serve()


def test_a_request_that_ends_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    join = DecodeSet.join

    def short(self: DecodeSet, sequence: Sequence) -> None:
        sequence.output -= 1
        join(self, sequence)
        sequence.output += 1

    monkeypatch.setattr(DecodeSet, "join", short)
    with pytest.raises(InvariantBroken, match="ended with 5 of 6 tokens"):
        serve()


def test_a_lost_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Recorder.complete

    def forgetful(self: Recorder, sequence: Sequence) -> None:
        if sequence.request != 7:
            complete(self, sequence)

    monkeypatch.setattr(Recorder, "complete", forgetful)
    with pytest.raises(InvariantBroken, match="1 of 12 requests were lost"):
        serve()


def test_a_request_served_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Recorder.complete

    def eager(self: Recorder, sequence: Sequence) -> None:
        complete(self, sequence)
        complete(self, sequence)

    monkeypatch.setattr(Recorder, "complete", eager)
    with pytest.raises(InvariantBroken, match="request 0 was served twice"):
        serve()


def test_a_request_left_behind_between_the_pools_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = DecodeQueue.add

    def deaf(self: DecodeQueue, sequence: Sequence) -> None:
        if sequence.request != 11:
            add(self, sequence)

    monkeypatch.setattr(DecodeQueue, "add", deaf)
    with pytest.raises(InvariantBroken, match="1 of 12 requests were lost"):
        serve(Policy(max_batch=4, token_budget=64))


def test_memory_that_is_never_given_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CacheMemory, "release", lambda *_: None)
    with pytest.raises(InvariantBroken, match=r"a finished run left .*blocks, states"):
        serve()


def test_admission_above_the_capacity_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CacheMemory, "admits", lambda *_, **__: True)
    cache = CacheShape(100.0, 1.0, 0.0, block_tokens=4)
    with pytest.raises(InvariantBroken, match=r"cache memory holds \d+ of 100 bytes"):
        run(system(COLOCATED, cost, cache), requests(*[(0.0, 20, 6)] * 12))


def test_dates_out_of_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    prefilled = Server.prefilled

    def late(self: Server, sequence: Sequence, engine: Engine) -> None:
        sequence.scheduled_s = self.env.now + 1e3
        prefilled(self, sequence, engine)

    monkeypatch.setattr(Server, "prefilled", late)
    with pytest.raises(InvariantBroken, match="dates of request 0 are out of order"):
        serve()


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
@pytest.mark.parametrize("serving", ["colocated", "disaggregated"])
def test_an_iteration_that_ends_before_it_starts_is_found(seconds: float, serving: str) -> None:
    with pytest.raises(InvariantBroken, match="cannot be run"):
        serve(Policy(serving=serving, max_batch=4, token_budget=64), duration=lambda _: seconds)


class Generous(FluidProcessor):
    """Gives every job all of a resource that both need."""

    def speeds(self, jobs: object, usages: list[np.ndarray]) -> list[float]:
        return [1.0] * len(usages)


def test_a_link_given_to_two_flows_at_once_is_found() -> None:
    env = simpy.Environment()
    processor = Generous(env)
    for _ in range(2):
        processor.run(Work(1.0, usage_of=lambda _: np.array([0.1, 0.9])))
    with pytest.raises(InvariantBroken, match=r"resource 1 works at 1\.8000 times its capacity for 2 jobs"):
        env.run()


def test_work_that_nothing_had_the_time_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    add = Tally.add

    def double(self: Tally, work: Work) -> None:
        for _ in range(4):
            add(self, work)

    monkeypatch.setattr(Tally, "add", double)
    load = load_workload("azure-conversation")
    with pytest.raises(InvariantBroken, match=r"was busy for .* s of a run of .* s"):
        simulate(placed(), _at(load, 50.0), requests=60, saturate=False)


def test_a_route_that_jumps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn:
        def __init__(self, routes: object) -> None:
            self.links, self._path = routes.links, routes.path  # type: ignore[attr-defined]

        def path(self, source: int, target: int) -> tuple[int, ...]:
            return tuple(self._path(source, target)[1:])

    def init(self: PlacedLinks, package: Package, slots: object) -> None:
        whole(self, package, slots)  # type: ignore[arg-type]
        self.routes = Torn(self.routes)  # type: ignore[assignment]

    whole = PlacedLinks.__init__
    monkeypatch.setattr(PlacedLinks, "__init__", init)
    with pytest.raises(InvariantBroken, match=r"jumps from slot|ends in slot"):
        simulate(placed(), _at(load_workload("azure-conversation"), 1.0), requests=20, saturate=False)


def test_energy_counted_twice_is_found() -> None:
    parts = [Component("a", "die", "slot 0", 0.5, 2.0, 1.0), Component("b", "memory", "slot 1", 0.5, 3.0, 0.5)]
    causes = {"compute": 1.0, "sram": 1.0, "memory": 3.0, "noi": 0.0, "static": 1.5}
    check_balance(parts, causes, 6.5)
    with pytest.raises(InvariantBroken, match="power of all components is 9"):
        check_balance([*parts, Component("c", "link", "", 0.0, 2.5, 0.0)], causes, 6.5)
    with pytest.raises(InvariantBroken, match="power of all causes is 7"):
        check_balance(parts, causes | {"noi": 0.5}, 6.5)


def _at(load: Workload, rate: float) -> Workload:
    return replace(load, replay=None, arrivals=poisson(rate))
