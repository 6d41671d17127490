"""`python -m benchmarks.simulator_theory`: signed errors of the request level against queueing theory, by load.

Requests of one token on an engine that serves one prompt at a time are the customers of a queue (see
`tests/simulators/test_queueing_theory.py`).  Above saturation there is no stationary wait: the reference is Lindley's
recursion on the same arrivals, customer by customer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from hydra_dse.policy import Policy
from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Requests
from simulators.serving import CacheShape, Composition, FixedCost, System, run

FloatArray = NDArray[np.float64]
PLENTY = CacheShape(1e15, 1.0, 1.0)
UNIT_S = 1e-6
LOADS = (0.3, 0.5, 0.7, 0.85, 0.95, 1.25)
REPLICATIONS, CUSTOMERS = 20, 6000


def waits(servers: int, load: float, exponential: bool, replication: int) -> tuple[float, float]:
    """Mean wait of the counted customers in simulation, and by the recursion of Kiefer and Wolfowitz."""
    rng = derive(17, "theory", servers, exponential, replication)
    arrival = np.cumsum(rng.exponential(1.0 / (load * servers), CUSTOMERS))
    drawn = rng.exponential(1.0, CUSTOMERS) if exponential else np.ones(CUSTOMERS)
    tokens = np.maximum(np.rint(drawn / UNIT_S), 1.0).astype(np.int64)
    ones, zeros = np.ones(CUSTOMERS, dtype=np.int64), np.zeros(CUSTOMERS, dtype=np.int64)
    policy = Policy(
        serving="colocated",
        batching="prefill_first",
        max_batch=servers,
        token_budget=servers,
        batches_in_flight=servers,
    )
    cost = FixedCost(_service)
    found = run(System(policy, PLENTY, {"serve": cost}), Requests(arrival, tokens, ones, zeros), warmup_share=0.2)
    simulated = (found.visits.scheduled_s - found.visits.arrival_s)[found.first :]
    return float(simulated.mean()), float(_recursion(arrival, tokens * UNIT_S, servers)[found.first :].mean())


def _service(batch: Composition) -> float:
    return batch.prefill_tokens * UNIT_S


def _recursion(arrival: FloatArray, service: FloatArray, servers: int) -> FloatArray:
    free = np.zeros(servers)
    wait = np.zeros(len(arrival))
    for number, (at, seconds) in enumerate(zip(arrival.tolist(), service.tolist(), strict=True)):
        first = int(free.argmin())
        start = max(at, float(free[first]))
        wait[number], free[first] = start - at, start + seconds
    return wait


def stationary_wait(servers: int, load: float, exponential: bool) -> float:
    """Mean wait of M/D/1 and M/M/c; infinite at or above saturation."""
    if load >= 1.0:
        return math.inf
    if not exponential:
        return load / (2.0 * (1.0 - load))
    offered = load * servers
    last = offered**servers / math.factorial(servers) / (1.0 - load)
    waiting = last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)
    return waiting / (servers - offered)


def row(name: str, servers: int, exponential: bool, loads: Sequence[float] = LOADS) -> str:
    """Cells `signed error ± half of its 95 % interval` in %."""
    cells = []
    for load in loads:
        pairs = np.array([waits(servers, load, exponential, replication) for replication in range(REPLICATIONS)])
        expected = stationary_wait(servers, load, exponential)
        if math.isinf(expected):
            cells.append(f"{100 * (pairs[:, 0] / pairs[:, 1] - 1.0).mean():+.1g} (recursion)")
            continue
        errors = 100.0 * (pairs[:, 0] / expected - 1.0)
        half = stdtrit(REPLICATIONS - 1, 0.975) * errors.std(ddof=1) / math.sqrt(REPLICATIONS)
        same = np.abs(pairs[:, 0] / pairs[:, 1] - 1.0).max()
        cells.append(f"{errors.mean():+.1f} ± {half:.1f} ({same:.0e})")
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    print(f"| wait | {' | '.join(f'load {load}' for load in LOADS)} |")
    print("|---" * (1 + len(LOADS)) + "|")
    print(row("M/D/1", 1, False))
    print(row("M/M/1", 1, True))
    print(row("M/M/4", 4, True))


if __name__ == "__main__":
    main()
