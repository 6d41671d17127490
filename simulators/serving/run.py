"""One run of a system under given requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import simpy
from numpy.typing import NDArray

from hydra_dse.records.nouns import RecordSink
from hydra_dse.workload.nouns import Requests
from simulators.serving.recorder import Mark, Visits
from simulators.serving.server import Server
from simulators.serving.system import System

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run left behind.

    Attributes:
        first: index of the first request that counts (those before it warm the system up).
        start, end: running totals when that request arrived and when the last one did.
        gap_s, gap_weight: gaps between successive tokens within that window, and how many tokens had each (means of
            narrow classes, where there were more gaps than `GapLog` keeps).
        peak_bytes: highest use of the cache memory.
        drawn: the requests as they were drawn; None for a part of several models.
    """

    system: System
    visits: Visits
    first: int
    start: Mark
    end: Mark
    gap_s: FloatArray
    gap_weight: FloatArray
    peak_bytes: float
    drawn: Requests | None = None

    @property
    def window_s(self) -> float:
        """Length of the measured window."""
        return self.end.time_s - self.start.time_s


def warm_requests(share: float, count: int) -> int:
    """Requests at the start of a run that only warm the system up; at least one is left."""
    return min(int(share * count), count - 1)


def run(
    system: System, requests: Requests, warmup_share: float = 0.0, sink: RecordSink | None = None, fast: bool = True
) -> Outcome:
    """Serve all requests, to the last token, and check that nothing was lost.

    Raises:
        InvariantBroken: the simulator contradicts itself.
    """
    for cost in system.costs.values():
        cost.reset()
    env = simpy.Environment()
    last = len(requests) - 1
    first = warm_requests(warmup_share, len(requests))
    server = Server(env, system, requests, sink, (first, last), fast)
    env.run()
    visits = server.recorder.visits()
    server.check_empty()
    start, end = server.marks
    gap_s, gap_weight = server.recorder.gaps.values()
    return Outcome(system, visits, first, start, end, gap_s, gap_weight, server.memory.peak_bytes, requests)
