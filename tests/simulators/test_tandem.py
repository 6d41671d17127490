"""Hand-off between pools as a tandem queue with finite waiting places, against exact Markov chains.

Prompts and outputs of geometric length at a fixed time per token are exponential services but for the time of a
token.  Prefill computes one token per iteration, and none while a finished prompt waits for the one decode slot: the
first server stops while two customers are at the second one.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import stdtrit
from serving_pieces import PLENTY

from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Composition, FixedCost
from simulators.serving import System, run

PROMPT, OUTPUT = 12, 10
TOKEN_S, STEP_S = 1.0 / 12, 1.0 / 10
REPLICATIONS = 6
LEVELS = 120


def tandem(second: float = 1.0) -> System:
    def prefill(batch: Composition) -> float:
        return TOKEN_S

    policy = Policy(max_batch=1, token_budget=1)
    return System(policy, PLENTY, {"prefill": FixedCost(prefill), "decode": FixedCost(lambda _: STEP_S / second)})


def offered(rate: float | None, count: int, replication: int) -> Requests:
    rng = derive(11, "tandem", replication)
    arrival = np.zeros(count) if rate is None else np.cumsum(rng.exponential(1.0 / rate, count))
    # One more output token than decode steps: prefill emits the first.
    output = rng.geometric(1.0 / OUTPUT, count) + 1
    return Requests(arrival, rng.geometric(1.0 / PROMPT, count), output, np.zeros(count, dtype=np.int64))


def exact_saturation(first: float, second: float, most: int) -> float:
    """Completions per second of `M/1/most` whose arrivals are the first server's departures."""
    weight = (first / second) ** np.arange(most + 1)
    return float(second * (1.0 - weight[0] / weight.sum()))


def exact_sojourn(rate: float, first: float, second: float, most: int) -> float:
    """Mean time in the first queue: the null vector of the chain of both queues, then Little."""
    size = LEVELS * (most + 1)
    generator = np.zeros((size, size))
    for ahead in range(LEVELS):
        for behind in range(most + 1):
            at = ahead * (most + 1) + behind
            if ahead + 1 < LEVELS:
                generator[at, at + most + 1] = rate
            if ahead and behind < most:
                generator[at, at - (most + 1) + 1] = first
            if behind:
                generator[at, at - 1] = second
    generator[np.diag_indices(size)] -= generator.sum(axis=1)
    generator[:, 0] = 1.0
    share = np.linalg.solve(generator.T, np.eye(size)[0]).reshape(LEVELS, most + 1).sum(axis=1)
    return float(np.arange(LEVELS) @ share / rate)


def covers(values: list[float], expected: float, slack: float) -> bool:
    """Whether a 99 % confidence interval, widened by the share that time in tokens is off, holds a value."""
    half = stdtrit(len(values) - 1, 0.995) * np.std(values, ddof=1) / np.sqrt(len(values))
    return bool(abs(np.mean(values) - expected) < half + slack * expected)


@pytest.mark.slow
@pytest.mark.parametrize(("second", "known"), [(1.0, 2.0 / 3.0), (1.6, 0.80620), (0.7, 0.54338)])
def test_saturation_of_pools_in_tandem_is_that_of_a_finite_buffer(second: float, known: float) -> None:
    rates = []
    for replication in range(REPLICATIONS):
        end = np.sort(run(tandem(second), offered(None, 1500, replication)).visits.last_token_s)
        rates.append(1199 / (end[1350] - end[151]))
    expected = exact_saturation(1.0, second, 2)
    assert expected == pytest.approx(known, rel=1e-4)
    # A service in whole tokens is less variable than an exponential one: c² = 1 − 1/mean, 9 % and 10 %.
    assert covers(rates, expected, 0.03)
    assert np.mean(rates) > expected * 0.99


@pytest.mark.slow
def test_ttft_includes_the_time_in_which_a_full_decode_pool_holds_prompts_back() -> None:
    waits = []
    for replication in range(REPLICATIONS):
        found = run(tandem(), offered(0.45, 3000, replication), 0.1)
        visits = found.visits
        waits.append(float((visits.first_token_s - visits.arrival_s)[found.first :].mean()))
    expected = exact_sojourn(0.45, 1.0, 1.0, 2)
    assert expected > 1.3 / (1.0 - 0.45)  # far above the queue that nothing holds back
    assert covers(waits, expected, 0.1)
