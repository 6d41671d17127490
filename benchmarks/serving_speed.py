"""Speed of the request-level simulator: 5,000 requests of 1,024 in and 256 out at 85 % load, the log on, one core.

Beside it a naive model in SimPy: a process per request, one event per token, step times from a table of batch sizes.
All times are CPU time of one core.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import simpy

from benchmarks.timing import cpu_seconds
from hydra_dse.config import load_calibration, load_space, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.placement import place_design
from hydra_dse.records import IterationBlock, IterationRecord, Visit
from hydra_dse.rng import derive
from hydra_dse.workload import fixed, poisson
from hydra_dse.workload import requests as draw
from hydra_dse.workload.nouns import RequestClass, Requests, Workload
from simulators.iteration import Attended, Composition
from simulators.serving import ServingSimulator, System
from simulators.serving.build import build_mix
from simulators.serving.server import Server

PROMPT, OUTPUT, LOAD = 1024, 256, 0.85
REQUESTS = 5000
POINTS = {
    "large": {"hbm": 12, "Ap": 3, "Ad": 3, "Mp": 3, "link_gb_per_s": 384, "max_batch": 64},
    "small": {"hbm": 4, "Ap": 3, "Ad": 1, "Mp": 11, "link_gb_per_s": 256, "max_batch": 64},
}


@dataclass
class Counted:
    """A sink that keeps the log of iterations in memory, as a run that is looked at afterwards would."""

    visits: list[Visit]
    blocks: list[IterationRecord | IterationBlock]

    def visit(self, record: Visit) -> None:
        self.visits.append(record)

    def iteration(self, record: IterationRecord) -> None:
        self.blocks.append(record)

    def iteration_block(self, block: IterationBlock) -> None:
        self.blocks.append(block)

    def records(self) -> list[IterationRecord]:
        """The log, iteration by iteration."""
        blocks = (each.records() if isinstance(each, IterationBlock) else [each] for each in self.blocks)
        return sorted(itertools.chain.from_iterable(blocks), key=lambda record: record[:3])

    @property
    def count(self) -> int:
        """Iterations that the log stands for."""
        return sum(len(each.start_s) if isinstance(each, IterationBlock) else 1 for each in self.blocks)


@dataclass(frozen=True)
class Case:
    """A placed design, its system and its requests at 85 % of its measured saturation."""

    system: System
    offered: Requests
    rate_per_s: float

    def run(self, fast: bool = True) -> Counted:
        """Serve all requests."""
        for cost in self.system.costs.values():
            cost.reset()
        env = simpy.Environment()
        log = Counted([], [])
        server = Server(env, self.system, self.offered, log, (), fast)
        env.run()
        server.recorder.visits()
        server.check_empty()
        return log

    def events(self) -> int:
        """SimPy events of a run."""
        env = simpy.Environment()
        Server(env, self.system, self.offered, Counted([], []))
        count = 0
        while env.peek() < float("inf"):
            env.step()
            count += 1
        return count


def case(point: str, serving: str, requests: int = REQUESTS) -> Case:
    """A design of hydra-24 under the stated load."""
    design, load = _placed(point, serving), _load()
    options = EvaluationOptions(requests=1000, replications=1)
    [found] = ServingSimulator().evaluate([design], load, load_calibration("default"), options, 0)
    rate = LOAD * float(found.metrics["saturation_requests_per_s"] or 0.0)
    mix = build_mix(design, load, load_calibration("default"))
    offered = draw(replace(load, arrivals=poisson(rate)), requests, derive(0, "serving speed"))
    return Case(mix.systems[0], offered, rate)


def _load() -> Workload:
    chat = load_workload("azure-conversation")
    return replace(
        chat, arrivals=poisson(1.0), classes=(RequestClass("equal", fixed(PROMPT, OUTPUT)),), replay=None, shifts=()
    )


def _placed(point: str, serving: str) -> Design:
    space = load_space("hydra-24")
    completed = space.complete(POINTS[point])
    if completed is None:
        raise SystemExit(f"the benchmark's design {point} is not in hydra-24")
    design = space.build(completed)
    design = replace(design, policy=replace(design.policy, serving=serving))
    return place_design(design, load_workload("azure-conversation").models[0], 0)[0]


def naive(what: Case) -> int:
    """Serve the same requests with an event for every token; return how many were served."""
    policy = what.system.policy
    pools = list(what.system.costs)
    prefill, decode = what.system.costs[pools[0]], what.system.costs[pools[-1]]
    prompt = Composition(PROMPT, 1, 0, 1, Attended(0, PROMPT * PROMPT / 2, PROMPT), _windows(prefill.windows))
    prompt_s = prefill.work(prompt).duration_s
    steps = [
        decode.work(Composition(0, 0, b, b, Attended(1150 * b, 0.0, 0, b), _windows(decode.windows))).duration_s
        for b in range(1, policy.max_batch + 1)
    ]
    env = simpy.Environment()
    prompts, slots = simpy.Resource(env, 1), simpy.Resource(env, policy.max_batch)
    served = [0]

    def request(arrival_s: float) -> Generator[simpy.Event, object, None]:
        yield env.timeout(arrival_s)
        with prompts.request() as turn:
            yield turn
            yield env.timeout(prompt_s)
        with slots.request() as slot:
            yield slot
            for _ in range(OUTPUT - 1):
                yield env.timeout(steps[slots.count - 1])
        served[0] += 1

    for arrival_s in what.offered.arrival_s.tolist():
        env.process(request(arrival_s))
    env.run()
    return served[0]


def _windows(windows: Sequence[int]) -> tuple[Attended, ...]:
    return (Attended(),) * len(windows)


def table(repeats: int = 3, requests: int = REQUESTS) -> dict[str, tuple[float, str, float | None]]:
    """Iterations and requests per CPU second by design, with and without fast-forward: value, unit, naive model's."""
    found: dict[str, tuple[float, str, float | None]] = {}
    for serving in ("colocated", "disaggregated"):
        for point in POINTS:
            what = case(point, serving, requests)
            log, stepped = what.run(), what.run(fast=False)
            if stepped.visits != log.visits or stepped.records() != log.records():
                raise SystemExit("fast-forward changes records")
            plain = requests / cpu_seconds(lambda what=what: naive(what), 1)  # type: ignore[misc]
            fast = cpu_seconds(lambda what=what: what.run(), repeats)  # type: ignore[misc]
            slow = cpu_seconds(lambda what=what: what.run(fast=False), 1)  # type: ignore[misc]
            name = f"serving_{serving}_{point}"
            found[f"{name}_requests"] = (requests / fast, "requests/CPU s", plain)
            found[f"{name}_iterations"] = (log.count / fast, "iterations/CPU s", None)
            found[f"{name}_iterations_stepped"] = (log.count / slow, "iterations/CPU s", None)
            found[f"{name}_iterations_per_event"] = (log.count / what.events(), "1", None)
    return found
