"""Tiny systems for tests of the request level: a fixed cost, a few requests, a log of what happened when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from hydra_dse.policy import Policy
from hydra_dse.records import IterationBlock, IterationRecord, Visit
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, FixedCost, System
from simulators.serving.server import Server

PLENTY = CacheShape(capacity_bytes=1e12, kv_bytes_per_token=1.0, state_bytes_per_sequence=1.0)


def requests(*triples: tuple[float, int, int]) -> Requests:
    """Requests as (arrival, prompt tokens, output tokens)."""
    arrival, prompt, output = zip(*triples, strict=True)
    return Requests(
        np.array(arrival, dtype=np.float64), np.array(prompt), np.array(output), np.zeros(len(triples), dtype=np.int64)
    )


def system(
    policy: Policy, duration: Callable[[Composition], float], cache: CacheShape = PLENTY, **more: object
) -> System:
    pools = ("serve",) if policy.serving == "colocated" else ("prefill", "decode")
    return System(policy, cache, {pool: FixedCost(duration) for pool in pools}, **more)  # type: ignore[arg-type]


@dataclass
class Log:
    """A sink that keeps everything."""

    visits: list[Visit] = field(default_factory=list)
    iterations: list[IterationRecord] = field(default_factory=list)

    def visit(self, record: Visit) -> None:
        self.visits.append(record)

    def iteration(self, record: IterationRecord) -> None:
        self.iterations.append(record)

    def iteration_block(self, block: IterationBlock) -> None:
        self.iterations.extend(block.records())

    def steps(self, pool: str | None = None) -> list[tuple[float, int, int]]:
        """(start, prefill tokens, decode sequences) of every iteration."""
        return [
            (round(i.start_s, 9), i.prefill_tokens, i.decode_sequences)
            for i in self.iterations
            if pool in (None, i.pool)
        ]

    def dates(self) -> list[tuple[int, float, float, float]]:
        """(request, scheduled, first token, last token) in order of completion."""
        return [
            (v.request, round(v.scheduled_s, 9), round(v.first_token_s, 9), round(v.last_token_s, 9))
            for v in self.visits
        ]


def serve(what: System, offered: Requests, marks: Sequence[int] = (), fast: bool = True) -> tuple[Log, Server]:
    """Run to the end and check that nothing was lost."""
    env = simpy.Environment()
    log = Log()
    server = Server(env, what, offered, log, tuple(marks), fast)
    env.run()
    server.recorder.visits()
    server.check_empty()
    return log, server


def one_second(_: Composition) -> float:
    return 1.0
