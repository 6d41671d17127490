"""Replay of a published chunked-prefill run whose iteration durations are given: what remains is the scheduler.

Llama-2-7B on an A100, 512-token budget, batch cap 128, Poisson 2 requests/s, 1,024 in and 256 out.  The log counts
every sequence of an iteration in its batch, decoding or prefilling.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.step_replays import Pair, durations_replay, rows_of
from simulators.serving.step_replay import LoggedReplay

FOLDER = Path(os.environ.get("HYDRA_DSE_REFERENCE", Path(__file__).parents[3] / "shared" / "reference")) / "simulators"
ITERATIONS = FOLDER / "llama2-7b_a100_chunked512_iterations.csv.gz"
REQUESTS = FOLDER / "llama2-7b_a100_chunked512_requests.csv.gz"

pytestmark = pytest.mark.skipif(not ITERATIONS.is_file(), reason=f"reference data {ITERATIONS.name} is not there")


Run = tuple[LoggedReplay, dict[str, float], dict[str, Pair]]


@pytest.fixture(scope="module")
def run() -> Run:
    return durations_replay(ITERATIONS, REQUESTS, max_batch=128, token_budget=512)


def test_every_iteration_of_a_published_chunked_run_has_the_logged_batch_and_tokens(run: Run) -> None:
    replayed, alike, _ = run
    assert len(replayed.batches) == len(rows_of(ITERATIONS))
    assert set(alike) == {"num_tokens", "batch", "n_prefill_chunks"}
    assert min(alike.values()) >= 0.99


def test_its_latencies_are_reproduced_within_one_percent(run: Run) -> None:
    for pair in run[2].values():
        assert max(abs(error) for error in pair.errors().values()) <= 0.01


def test_a_log_in_another_order_of_iterations_is_not_reproduced(tmp_path: Path) -> None:
    rows = rows_of(ITERATIONS)
    text = "\n".join([",".join(rows[0]), *(",".join(row.values()) for row in reversed(rows))])
    (tmp_path / "reversed.csv").write_text(text + "\n")
    _, alike, _ = durations_replay(tmp_path / "reversed.csv", REQUESTS, max_batch=128, token_budget=512)
    assert alike["num_tokens"] < 0.9
