"""The requests of a simulation: of its replications, at the exact rate of the workload, and those that saturate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.rng import derive
from hydra_dse.workload import Renewal, served
from hydra_dse.workload import requests as draw
from hydra_dse.workload.nouns import Requests, Workload
from simulators.serving.run import warm_requests

QUEUED_PER_SLOT = 8
"""A saturation run has at least this many requests per sequence in service, so that it has a steady part."""
MOST_QUEUED = 20_000
"""Requests of a run for saturation, which bounds its time."""
DRAWN_AT_ONCE = 2048
"""Saturation runs take the head of a draw of at least this size, so that shorter runs have the same requests."""
LONGEST_RUN_S = 4e9
"""Later dates, as floating-point numbers, are more than half a microsecond apart."""


class Inputs:
    """Requests of every replication: the same for all designs.

    Windows of a replayed record start evenly spaced along it, so that together they cover it as evenly as they can.
    """

    def __init__(self, workload: Workload, options: EvaluationOptions, seed: int) -> None:
        self.workload, self.options, self.seed = workload, options, seed
        self.served = served(workload)
        self.offered = [
            _at_exact_rate(
                draw(workload, options.requests, derive(seed, "requests", number), self._window(number)),
                workload,
                options,
            )
            for number in range(options.replications)
        ]
        for drawn in self.offered:
            _check_clock(drawn, workload)

    def _window(self, number: int) -> float:
        """Share of a replayed record at which the window of a replication begins."""
        return (number / self.options.replications + self.options.window_share) % 1.0

    def queued(self, design: Design) -> list[Requests]:
        """Requests of the saturation runs, all there from the start."""
        count = min(max(self.options.requests, QUEUED_PER_SLOT * design.policy.max_batch), MOST_QUEUED)
        drawn = []
        for number in range(self.options.replications):
            found = draw(
                self.workload,
                max(count, DRAWN_AT_ONCE),
                derive(self.seed, "saturation", number),
                self._window(number),
            )
            drawn.append(
                Requests(
                    np.zeros(count),
                    found.prompt_tokens[:count],
                    found.output_tokens[:count],
                    found.class_index[:count],
                    None if found.blocks is None else found.blocks[:count],
                    found.block_tokens,
                )
            )
        return drawn


def _check_clock(drawn: Requests, workload: Workload) -> None:
    """Check that the clock still resolves latencies at the last arrival.

    Raises:
        InputError: the run lasts longer.
    """
    last_s = float(drawn.arrival_s.max(initial=0.0))
    if last_s > LONGEST_RUN_S:
        raise InputError(
            Fault(
                f"{len(drawn)} requests of workload {workload.name!r} take {last_s:.3g} s to arrive, and dates after "
                f"{LONGEST_RUN_S:.0e} s are not resolved to a microsecond; raise the arrival rate (above "
                f"{len(drawn) / LONGEST_RUN_S:.1e} req/s) or simulate fewer requests"
            )
        )


def _at_exact_rate(drawn: Requests, workload: Workload, options: EvaluationOptions) -> Requests:
    """Scale sampled arrivals so that the measured window has exactly the mean rate of the workload.

    The sampled rate of 2,000 Poisson arrivals is off by 2 %, which near saturation moves every latency by more than
    what is to be measured.  Recorded arrivals and rates that change in time stay as they are.
    """
    stationary = isinstance(workload.arrivals, Renewal) and workload.replay is None and not workload.shifts
    # Turns come when the ones before them have ended: their times are not ours to scale.
    stationary = stationary and drawn.parent is None
    first = warm_requests(options.warmup_share, len(drawn))
    span = float(drawn.arrival_s[-1] - drawn.arrival_s[first])
    if not stationary or span <= 0.0:
        return drawn
    rate = (len(drawn) - 1 - first) / span
    return replace(drawn, arrival_s=drawn.arrival_s * (rate / workload.arrivals.statistics().rate_per_s))
