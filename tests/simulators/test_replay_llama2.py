"""Replay of a published chunked-prefill run whose iteration durations are given: what remains is the scheduler.

Llama-2-7B on an A100, 512-token budget, batch cap 128, Poisson 2 requests/s, 1,024 in and 256 out.  The log counts
every sequence of an iteration in its batch, decoding or prefilling.
"""

from __future__ import annotations

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import simpy
from numpy.typing import NDArray
from serving_pieces import PLENTY, Log

from hydra_dse.policy import Policy
from hydra_dse.workload.nouns import Requests
from simulators.iteration import Composition, FixedCost, Work
from simulators.serving import System
from simulators.serving.recorder import Visits
from simulators.serving.server import Server

FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference")) / "simulators"
ITERATIONS = FOLDER / "llama2-7b_a100_chunked512_iterations.csv.gz"
REQUESTS = FOLDER / "llama2-7b_a100_chunked512_requests.csv.gz"

pytestmark = pytest.mark.skipif(not ITERATIONS.is_file(), reason=f"reference data {ITERATIONS.name} is not there")


class LoggedDurations(FixedCost):
    """The iterations of a log, in its order; keeps what was asked for."""

    def __init__(self, durations_s: list[float]) -> None:
        super().__init__(lambda _: durations_s[min(self.iterations, len(durations_s) - 1)])
        self.batches: list[Composition] = []

    def count(self, work: Work) -> None:
        super().count(work)
        self.batches.append(work.batch)


@dataclass(frozen=True)
class Run:
    batches: list[Composition]
    visits: Visits
    logged: list[dict[str, str]]
    served: list[dict[str, str]]


@pytest.fixture(scope="module")
def run() -> Run:
    with gzip.open(ITERATIONS, "rt") as file:
        logged = list(csv.DictReader(file))
    with gzip.open(REQUESTS, "rt") as file:
        served = sorted(csv.DictReader(file), key=lambda row: float(row["arrival_s"]))
    offered = Requests(
        np.array([float(row["arrival_s"]) for row in served]),
        np.array([int(row["request_num_prefill_tokens"]) for row in served]),
        np.array([int(row["request_num_decode_tokens"]) for row in served]),
        np.zeros(len(served), dtype=np.int64),
    )
    cost = LoggedDurations([1e-3 * float(row["dur_ms"]) for row in logged])
    policy = Policy(serving="colocated", batching="chunked", max_batch=128, token_budget=512)
    env = simpy.Environment()
    server = Server(env, System(policy, PLENTY, {"serve": cost}), offered, Log(), fast=False)
    env.run()
    return Run(cost.batches, server.recorder.visits(), logged, served)


def test_every_iteration_of_a_published_chunked_run_has_the_logged_batch_and_tokens(run: Run) -> None:
    assert len(run.batches) == len(run.logged)
    tokens = [batch.prefill_tokens + batch.decode_sequences for batch in run.batches]
    prompts = [batch.prefill_sequences for batch in run.batches]
    sequences = [batch.prefill_sequences + batch.decode_sequences for batch in run.batches]
    for mine, column in ((tokens, "num_tokens"), (prompts, "n_prefill_chunks"), (sequences, "batch")):
        theirs = [int(row[column]) for row in run.logged]
        assert np.mean(np.array(mine) == np.array(theirs)) >= 0.99, column


def test_its_latencies_are_reproduced_within_one_percent(run: Run) -> None:
    first = np.array([float(row["prefill_e2e_time"]) for row in run.served])
    last = np.array([float(row["request_e2e_time"]) for row in run.served])
    visits = run.visits
    pairs: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = [
        (visits.first_token_s - visits.arrival_s, first),
        ((visits.last_token_s - visits.first_token_s) / 255, (last - first) / 255),
    ]
    for mine, theirs in pairs:
        assert mine.mean() == pytest.approx(theirs.mean(), rel=0.01)
        for share in (0.5, 0.9, 0.99):
            assert np.quantile(mine, share) == pytest.approx(np.quantile(theirs, share), rel=0.01)
