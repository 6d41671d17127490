"""The simulator in limits that queueing theory solves, by 99 % confidence intervals over replications.

Mapping to queues: a request of one output token is served by one iteration.  With `prefill_first`, one slot and a
budget of one token an iteration holds exactly one prompt, so an engine is a FCFS server and an iteration a service:
with `c` batches in flight there are `c` servers on one queue.  A service lasts (prompt tokens) × `UNIT_S`, fine enough
for continuous distributions; exact moments are taken of the rounded lengths.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import stdtrit
from serving_pieces import PLENTY, requests, serve, system

from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, Outcome, run

FloatArray = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], FloatArray]
UNIT_S = 1e-6
REPLICATIONS = 20
ANY_LENGTH = CacheShape(1e15, 1.0, 1.0)


def one_by_one(servers: int) -> Policy:
    return Policy(
        serving="colocated",
        batching="prefill_first",
        max_batch=servers,
        token_budget=servers,
        batches_in_flight=servers,
    )


def service(batch: Composition) -> float:
    return batch.prefill_tokens * UNIT_S


def runs(policy: Policy, rate: float, draw: Draw, count: int = 3000) -> list[Outcome]:
    outcomes = []
    for replication in range(REPLICATIONS):
        rng = derive(7, "theory", replication)
        arrival = np.cumsum(rng.exponential(1.0 / rate, count))
        tokens = np.maximum(np.rint(draw(rng, count) / UNIT_S), 1.0).astype(np.int64)
        ones = np.ones(count, dtype=np.int64)
        offered = Requests(arrival, tokens, ones, np.zeros(count, dtype=np.int64))
        outcomes.append(run(system(policy, service, ANY_LENGTH), offered, warmup_share=0.2))
    return outcomes


def waits(outcomes: list[Outcome]) -> list[float]:
    return [float((o.visits.scheduled_s - o.visits.arrival_s)[o.first :].mean()) for o in outcomes]


def sojourns(outcomes: list[Outcome]) -> list[float]:
    return [float((o.visits.last_token_s - o.visits.arrival_s)[o.first :].mean()) for o in outcomes]


def covers(values: list[float], expected: float) -> bool:
    half = float(stdtrit(len(values) - 1, 0.995)) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return abs(float(np.mean(values)) - expected) <= half


def exponential(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.exponential(1.0, count)


def constant(rng: np.random.Generator, count: int) -> FloatArray:
    return np.ones(count)


def lumpy(rng: np.random.Generator, count: int) -> FloatArray:
    """0.5 s with probability 0.9, 5.5 s with probability 0.1: mean 1, second moment 3.25."""
    return np.where(rng.random(count) < 0.9, 0.5, 5.5)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.7])
def test_exponential_services_give_the_sojourn_time_of_an_m_m_1_queue(load: float) -> None:
    outcomes = runs(one_by_one(1), load, exponential)
    assert covers(sojourns(outcomes), 1.0 / (1.0 - load))


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.4, 0.7, 0.85])
def test_constant_services_give_the_wait_of_an_m_d_1_queue(load: float) -> None:
    outcomes = runs(one_by_one(1), load, constant)
    assert covers(waits(outcomes), load / (2.0 * (1.0 - load)))


@pytest.mark.slow
def test_general_services_give_the_wait_of_pollaczek_and_khinchine() -> None:
    load, second_moment = 0.6, 0.9 * 0.25 + 0.1 * 5.5**2
    outcomes = runs(one_by_one(1), load, lumpy)
    assert covers(waits(outcomes), load * second_moment / (2.0 * (1.0 - load)))


@pytest.mark.slow
@pytest.mark.parametrize("servers", [2, 4])
def test_batches_in_flight_that_share_nothing_are_the_servers_of_an_m_m_c_queue(servers: int) -> None:
    offered = 0.75 * servers
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1.0 - offered / servers)
    erlang_c = last / (sum(terms) + last)
    outcomes = runs(one_by_one(servers), offered, exponential)
    assert covers(waits(outcomes), erlang_c / (servers - offered))
    # Who waits is Erlang's formula itself, and waits that occur are exponential: P(W > t) = C·exp(−(c − a)·t).
    for time_s in (0.0, 1.0):
        late = [
            float(((o.visits.scheduled_s - o.visits.arrival_s)[o.first :] > time_s + 1e-9).mean()) for o in outcomes
        ]
        assert covers(late, erlang_c * math.exp(-(servers - offered) * time_s)), time_s


@pytest.mark.slow
def test_shortest_first_gives_the_wait_of_a_priority_queue() -> None:
    """Two sizes, the short one first without preemption (Cobham): `W_i = R / ((1 − σ_{i−1})(1 − σ_i))`."""
    rate, short, long = 0.6, 0.5, 5.5
    residual = rate * (0.9 * short**2 + 0.1 * long**2) / 2.0
    short_load, load = rate * 0.9 * short, rate * (0.9 * short + 0.1 * long)
    policy = Policy(serving="colocated", batching="prefill_first", max_batch=1, token_budget=1, scheduling="sjf")
    outcomes = runs(policy, rate, lumpy)
    for size, expected in (
        (short, residual / (1.0 - short_load)),
        (long, residual / ((1.0 - short_load) * (1.0 - load))),
    ):
        means = []
        for outcome in outcomes:
            visits, counted = outcome.visits, np.arange(len(outcome.visits)) >= outcome.first
            mine = counted & (visits.prompt_tokens == round(size / UNIT_S))
            means.append(float((visits.scheduled_s - visits.arrival_s)[mine].mean()))
        assert covers(means, expected), size


def geometric(rng: np.random.Generator, mean: float, count: int) -> NDArray[np.int64]:
    return rng.geometric(1.0 / mean, count)


def equal(rng: np.random.Generator, mean: float, count: int) -> NDArray[np.int64]:
    return np.full(count, int(mean))


def two_sizes(rng: np.random.Generator, mean: float, count: int) -> NDArray[np.int64]:
    """A quarter of the mean with probability 0.9, 7.75 times the mean with probability 0.1."""
    return np.where(rng.random(count) < 0.9, round(0.25 * mean), round(7.75 * mean))


@pytest.mark.slow
@pytest.mark.parametrize("lengths", [geometric, equal, two_sizes])
def test_decode_steps_whose_time_grows_with_the_batch_share_the_processor(
    lengths: Callable[[np.random.Generator, float, int], NDArray[np.int64]],
) -> None:
    """M/G/1 processor sharing: a step of `b · UNIT` advances all `b`, so mean decode time is `E[S]/(1 − ρ)`.

    Whatever the distribution of lengths.  Prefill costs nothing; outputs of 80 tokens of 10 ms on average.
    """
    step_s, mean_tokens, load = 10e-3, 80.0, 0.6

    def duration(batch: Composition) -> float:
        return batch.decode_sequences * step_s

    policy = Policy(serving="colocated", batching="prefill_first", max_batch=10_000, token_budget=10_000)
    means, expected = [], mean_tokens * step_s / (1.0 - load)
    for replication in range(8):
        rng = derive(3, "sharing", replication)
        count = 1200
        arrival = np.cumsum(rng.exponential(mean_tokens * step_s / load, count))
        output = 1 + lengths(rng, mean_tokens, count)
        offered = Requests(arrival, np.ones(count, dtype=np.int64), output, np.zeros(count, dtype=np.int64))
        visits = run(system(policy, duration), offered, warmup_share=0.1).visits
        means.append(float((visits.last_token_s - visits.arrival_s)[120:].mean()))
    # An arrival waits for the rest of a step before it shares; that is at most one step of the batch, below 1 %.
    half = float(stdtrit(len(means) - 1, 0.995)) * float(np.std(means, ddof=1)) / math.sqrt(len(means))
    assert abs(float(np.mean(means)) - expected) <= half + 0.01 * expected


@pytest.mark.slow
def test_the_mean_batch_is_the_rate_times_the_time_in_decode() -> None:
    """Little's law in the measured window, within a confidence interval of the difference."""

    def duration(batch: Composition) -> float:
        return 5e-3 + 2e-4 * batch.decode_sequences + 1e-4 * batch.prefill_tokens

    differences = []
    for replication in range(REPLICATIONS):
        rng = derive(9, "little", replication)
        count = 400
        offered = Requests(
            np.cumsum(rng.exponential(0.15, count)),
            rng.integers(50, 400, count),
            rng.integers(2, 100, count),
            np.zeros(count, dtype=np.int64),
        )
        outcome = run(system(Policy(serving="colocated", max_batch=16), duration), offered, warmup_share=0.2)
        visits, window = outcome.visits, outcome.window_s
        batch = (outcome.end.decoding_seconds - outcome.start.decoding_seconds) / window
        counted = slice(outcome.first, -1)
        rate = (len(visits) - 1 - outcome.first) / window
        differences.append(batch - rate * float((visits.last_token_s - visits.first_token_s)[counted].mean()))
    assert covers(differences, 0.0)


def test_a_saturated_decode_pool_completes_its_batch_over_its_step_time() -> None:
    """All requests equal, prefill free: the pool completes `B / (d · τ)` requests a second."""
    from simulators.serving.metrics import saturation_tokens_per_s

    policy = Policy(serving="colocated", batching="prefill_first", max_batch=8, token_budget=10_000)

    def duration(batch: Composition) -> float:
        return 0.01 if batch.decode_sequences else 0.0

    offered = requests(*[(0.0, 10, 41)] * 400)
    log, server = serve(system(policy, duration, PLENTY), offered)
    assert len(log.visits) == 400
    visits = server.recorder.visits()
    assert saturation_tokens_per_s(visits, 8) / 41 == pytest.approx(8 / (40 * 0.01), rel=0.03)
