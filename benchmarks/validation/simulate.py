"""Simulation of a configuration to a stated accuracy: saturation first, then replications at its load.

Replications have exactly the mean rate asked for, and lengths stratified over the distribution, so that their loads
are alike; each is many times as long as its queues remember, so that this does not shorten them.  They go on until
the 95 % interval over replications of every compared metric is within 5 % of it, or the requests are used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchmarks.validation.serving import Dates, Serve
from hydra_dse.rng import derive
from hydra_dse.workload import Empirical, JointLengths
from hydra_dse.workload.nouns import Arrivals, Lengths, Requests

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TARGET = 0.05
WARM_UP = 0.1
MEMORIES = 200.0
"""A replication is this many times as long as its queue remembers, within the bounds of the effort."""

QUANTILES = {"ttft": (0.5, 0.9, 0.99), "tpot": (0.5, 0.9, 0.99), "e2e": (0.5, 0.9, 0.99)}
COMPARED = ("ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "e2e_mean_s")


@dataclass(frozen=True)
class Effort:
    """How much is simulated.

    Attributes:
        shortest, longest: requests of a replication.
        least_runs, most_requests: replications at least, requests of all of them at most.
        saturation_runs, saturation_requests: of the runs in which all requests wait from the start.
    """

    shortest: int
    longest: int
    least_runs: int
    most_requests: int
    saturation_runs: int
    saturation_requests: int


COMPILED = Effort(40_000, 500_000, 6, 5_000_000, 6, 8_000)
FEW = Effort(20_000, 100_000, 4, 600_000, 3, 4_000)
SLICE = Effort(2_000, 2_000, 2, 4_000, 2, 2_000)


class Simulatable(Protocol):
    """What is simulated: a name, limits, lengths, arrivals of rate 1 and a load."""

    @property
    def name(self) -> str:
        """Names the random streams."""

    @property
    def made_of(self) -> str:
        """Everything that decides its results."""

    @property
    def max_batch(self) -> int:
        """Sequences in service."""

    @property
    def lengths(self) -> Lengths:
        """Of the requests."""

    @property
    def arrivals(self) -> Arrivals:
        """A process of rate 1."""

    @property
    def load(self) -> float:
        """Offered over saturation rate."""

    @property
    def scheduling(self) -> str:
        """Order of waiting prompts."""


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


def drawn_lengths(lengths: Lengths, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Prompts and outputs stratified over their distributions (of a record: every row alike), in random order."""
    if not isinstance(lengths, JointLengths):
        rows = lengths if isinstance(lengths, Empirical) else Empirical(*lengths.sample(count, rng))
        index = rng.permutation(np.arange(count) * len(rows.prompt_tokens) // count)
        return rows.prompt_tokens[index], rows.output_tokens[index]
    uniform = [(rng.permutation(count) + rng.random(count)) / count for _ in range(2)]
    prompt, output = lengths.prompt.inverse(uniform[0]), lengths.output.inverse(uniform[1])
    whole = [np.maximum(np.rint(tokens), 1.0).astype(np.int64) for tokens in (prompt, output)]
    return whole[0], whole[1]


def saturation(case: Simulatable, serve: Serve, effort: Effort) -> FloatArray:
    """Requests per second of runs in which all requests wait from the start, first come, first served."""
    found = []
    count = max(5 * effort.saturation_runs * case.max_batch, effort.saturation_requests)
    for number in range(effort.saturation_runs):
        rng = derive(0, case.name, "saturation", number)
        prompt, output = drawn_lengths(case.lengths, count, rng)
        requests = Requests(np.zeros(count), prompt, output, np.zeros(count, dtype=np.int64))
        dates = serve(requests, "fcfs")
        found.append(steady_rate(dates, output, case.max_batch))
    return np.array(found)


def steady_rate(dates: Dates, output: IntArray, max_batch: int) -> float:
    """Requests per second between the end of the first tenth and the first token of the last tenth.

    A request counts by the share of its tokens in that time, its tokens taken as evenly spaced.
    """
    first, last = dates.first_token_s, dates.last_token_s
    skip = max(max_batch, len(output) // 10)
    start, end = float(np.partition(last, skip)[skip]), float(np.quantile(first, 0.9))
    span = np.where(last > first, last - first, 1.0)

    def by(time: float) -> float:
        share = np.clip((time - first) / span, 0.0, 1.0)
        return float(((first <= time) * (1.0 + share * (output - 1))).sum())

    return (by(end) - by(start)) / (end - start) / float(output.mean())


def memory_requests(case: Simulatable) -> float:
    """Requests that a queue at the load remembers: `(c_a² + c_s²)/(1 − load)²` of a diffusion."""
    arrivals = case.arrivals.statistics()
    scv = arrivals.cv**2
    if arrivals.phases:
        (busy, stay), (calm, other) = arrivals.phases
        share = stay / (stay + other)
        scv = 1.0 + 2.0 * share * (1.0 - share) * (busy - calm) ** 2 / (1.0 / stay + 1.0 / other)
    return (scv + 1.0) / (1.0 - case.load) ** 2


def replication(case: Simulatable, rate: float, count: int, number: int) -> Requests:
    """Requests of a run; the window after the warm-up has exactly the rate."""
    rng = derive(0, case.name, "replication", number)
    prompt, output = drawn_lengths(case.lengths, count, rng)
    arrival = case.arrivals.sample(count, rng)
    first = int(WARM_UP * count)
    arrival = arrival * ((count - 1 - first) / (arrival[-1] - arrival[first]) / rate)
    return Requests(arrival, prompt, output, np.zeros(count, dtype=np.int64))


def measured(requests: Requests, dates: Dates) -> dict[str, float]:
    """Metrics of the requests after the warm-up."""
    kept = slice(int(WARM_UP * len(requests)), None)
    arrival, first, last = requests.arrival_s[kept], dates.first_token_s[kept], dates.last_token_s[kept]
    steps = requests.output_tokens[kept] - 1
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
    found["preemptions_per_request"] = float(dates.preemptions[kept].mean())
    return found


def half_width(values: FloatArray) -> float:
    """Half of the 95 % interval of a mean over replications, relative to it."""
    if len(values) < 2 or values.mean() == 0.0:
        return 0.0
    quantile = float(stdtrit(len(values) - 1, 0.975))
    return quantile * float(values.std(ddof=1)) / float(np.sqrt(len(values))) / float(values.mean())


def _worth_more(half: dict[str, float], runs: int, most: int) -> bool:
    """Whether a metric that misses the target would meet it with as many runs as there may be, at most."""
    shrink = np.sqrt(runs / most) * float(stdtrit(most - 1, 0.975)) / float(stdtrit(runs - 1, 0.975))
    return runs < most and any(half[name] >= TARGET > half[name] * shrink for name in COMPARED)


def simulate(case: Simulatable, serve: Serve, effort: Effort = COMPILED) -> Simulated:
    """Simulate a configuration to the target, as far as the effort goes."""
    saturated = saturation(case, serve, effort)
    rate = case.load * float(saturated.mean())
    memory = memory_requests(case)
    least = max(effort.shortest, 40 * case.max_batch) if effort.shortest < effort.longest else effort.shortest
    count = int(np.clip(MEMORIES * memory, least, max(effort.longest, least)))
    most = max(effort.least_runs, effort.most_requests // count)
    found: list[dict[str, float]] = []
    while len(found) < most:
        requests = replication(case, rate, count, len(found))
        found.append(measured(requests, serve(requests, case.scheduling)))
        half = {name: half_width(np.array([each[name] for each in found])) for name in found[0]}
        if len(found) >= effort.least_runs and not _worth_more(half, len(found), most):
            break
    values = {name: float(np.mean([each[name] for each in found])) for name in found[0]}
    values["saturation_requests_per_s"] = float(saturated.mean())
    half["saturation_requests_per_s"] = half_width(saturated)
    return Simulated(values, half, len(found), count, count / memory)
