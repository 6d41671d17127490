"""Simulation of a configuration to a stated accuracy: saturation first, then replications at its load.

Replications have exactly the mean rate asked for, and lengths stratified over the distribution, so that their loads
are alike; each is many times as long as its queues remember, so that this does not shorten them.  They go on until
the 95 % interval over replications of every compared metric is within 5 % of it, or the requests are used up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchmarks.validation.cases import Case
from benchmarks.validation.system import EngineCost
from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.iteration import IterationCost
from simulators.serving import CacheShape, System, run
from simulators.serving.metrics import saturation_tokens_per_s
from simulators.serving.recorder import Visits

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TARGET = 0.05
LEAST_RUNS, MOST_REQUESTS = 4, 200_000
WARM_UP = 0.1
MEMORIES = 150.0
"""A replication is at least this many times as long as its queue remembers."""
SHORTEST, LONGEST = 8_000, 50_000

QUANTILES = {"ttft": (0.5, 0.9, 0.99), "tpot": (0.5, 0.9, 0.99), "e2e": (0.5, 0.9, 0.99)}
COMPARED = ("ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "e2e_mean_s")


@dataclass(frozen=True)
class Simulated:
    """What simulation found.

    Attributes:
        values: by metric name; half: half-width of the 95 % interval, relative to the value.
        runs, requests: replications and requests of each, warm-up included.
        memories: length of a replication in relaxation times of its queue.
    """

    values: dict[str, float]
    half: dict[str, float]
    runs: int
    requests: int
    memories: float


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


def drawn_lengths(case: Case, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Prompts and outputs stratified over their distributions, in random order."""
    uniform = [(rng.permutation(count) + rng.random(count)) / count for _ in range(2)]
    lengths = case.lengths
    prompt, output = lengths.prompt.inverse(uniform[0]), lengths.output.inverse(uniform[1])
    whole = [np.maximum(np.rint(tokens), 1.0).astype(np.int64) for tokens in (prompt, output)]
    return whole[0], whole[1]


def saturation(case: Case, runs: int = 4) -> FloatArray:
    """Requests per second of runs in which all requests wait from the start, first come, first served."""
    system, found = system_of(case), []
    count = max(12 * case.max_batch, 2000)
    for number in range(runs):
        rng = derive(0, case.name, "saturation", number)
        prompt, output = drawn_lengths(case, count, rng)
        zero = np.zeros(count, dtype=np.int64)
        visits = run(system, Requests(np.zeros(count), prompt, output, zero)).visits
        found.append(saturation_tokens_per_s(visits, case.max_batch) / float(output.mean()))
    return np.array(found)


def memory_requests(case: Case) -> float:
    """Requests that a queue at the load remembers: `(c_a² + c_s²)/(1 − load)²` of a diffusion."""
    arrivals = case.arrivals.statistics()
    scv = arrivals.cv**2
    if arrivals.phases:
        (busy, stay), (calm, other) = arrivals.phases
        share = stay / (stay + other)
        scv = 1.0 + 2.0 * share * (1.0 - share) * (busy - calm) ** 2 / (1.0 / stay + 1.0 / other)
    return (scv + 1.0) / (1.0 - case.load) ** 2


def replication(case: Case, rate: float, count: int, number: int) -> Visits:
    """One run at a rate; the window after the warm-up has exactly that rate."""
    rng = derive(0, case.name, "replication", number)
    prompt, output = drawn_lengths(case, count, rng)
    arrival = case.arrivals.sample(count, rng)
    first = int(WARM_UP * count)
    arrival = arrival * ((count - 1 - first) / (arrival[-1] - arrival[first]) / rate)
    return run(
        system_of(case, case.scheduling), Requests(arrival, prompt, output, np.zeros(count, dtype=np.int64)), WARM_UP
    ).visits


def measured(visits: Visits) -> dict[str, float]:
    """Metrics of the requests after the warm-up."""
    kept = slice(int(WARM_UP * len(visits)), None)
    arrival, first, last = visits.arrival_s[kept], visits.first_token_s[kept], visits.last_token_s[kept]
    steps = visits.output_tokens[kept] - 1
    several = steps > 0
    samples = {
        "ttft": first - arrival,
        "tpot": (last - first)[several] / steps[several],
        "e2e": last - arrival,
    }
    found = {}
    for kind, values in samples.items():
        found[f"{kind}_mean_s"] = float(values.mean())
        for share, value in zip(QUANTILES[kind], np.quantile(values, QUANTILES[kind]), strict=True):
            found[f"{kind}_p{round(100 * share)}_s"] = float(value)
    span = float(arrival[-1] - arrival[0])
    # Little's law over the tokens after the first: sequences that decode.
    found["batch_mean"] = float((last - first).sum()) / span
    found["preemptions_per_request"] = float(visits.preemptions[kept].mean())
    return found


def half_width(values: FloatArray) -> float:
    """Half of the 95 % interval of a mean over replications, relative to it."""
    if len(values) < 2 or values.mean() == 0.0:
        return 0.0
    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * float(values.std(ddof=1)) / float(np.sqrt(len(values))) / float(values.mean())


def simulate(case: Case, short: bool = False) -> Simulated:
    """Simulate a configuration to the target, or with two replications of 2,000 requests."""
    saturated = saturation(case, 2 if short else 4)
    rate = case.load * float(saturated.mean())
    memory = memory_requests(case)
    least = max(SHORTEST, 40 * case.max_batch)
    count = 2000 if short else int(np.clip(MEMORIES * memory, least, max(LONGEST, least)))
    most = 2 if short else max(LEAST_RUNS, MOST_REQUESTS // count)
    found: list[dict[str, float]] = []
    while len(found) < most:
        found.append(measured(replication(case, rate, count, len(found))))
        half = {name: half_width(np.array([each[name] for each in found])) for name in found[0]}
        if len(found) >= LEAST_RUNS and max(half[name] for name in COMPARED) < TARGET:
            break
    values = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    values["saturation_requests_per_s"] = float(saturated.mean())
    half["saturation_requests_per_s"] = half_width(saturated)
    return Simulated(values, half, len(found), count, count / memory)
