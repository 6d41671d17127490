"""The request-level simulator of the package on a configuration, and the same in C for long runs.

Both serve the same requests to the same dates, to the last bit (`tests/validation`); the compiled engine is some
hundred times as fast, which is what intervals of 5 % near saturation take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.validation.cases import Case
from benchmarks.validation.system import EngineCost
from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests
from simulators.iteration import IterationCost
from simulators.serving import CacheShape, System, run


@dataclass(frozen=True)
class Dates:
    """What a run leaves behind: dates of each request in s, and its preemptions."""

    first_token_s: NDArray[np.float64]
    last_token_s: NDArray[np.float64]
    preemptions: NDArray[np.int64]


Serve = Callable[[Requests, str], Dates]
"""Serves requests in an order of waiting prompts (`Policy.scheduling`)."""


def system_of(case: Case, scheduling: str = "fcfs") -> System:
    """The request-level system of a configuration; memory counts in tokens of KV."""
    apart = case.policy == "disaggregated"
    policy = Policy(
        "disaggregated" if apart else "colocated",
        "prefill_first" if case.policy == "prefill_first" else "chunked",
        case.max_batch,
        case.token_budget,
        scheduling,
        memory_watermark=0.0,
    )
    costs: dict[str, IterationCost] = {"serve": EngineCost(case.serve)}
    if apart:
        costs = {"prefill": EngineCost(case.serve, case.shared), "decode": EngineCost(case.decode, case.shared)}
    return System(policy, CacheShape(case.memory_tokens, 1.0, case.state_tokens, policy.block_tokens, 0.0), costs)


def serve_in_simpy(case: Case, requests: Requests, scheduling: str) -> Dates:
    """Serve all requests with `simulators.serving`."""
    visits = run(system_of(case, scheduling), requests).visits
    return Dates(visits.first_token_s, visits.last_token_s, visits.preemptions)
