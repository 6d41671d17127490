"""`simulate --records`: requests and iterations of a run as Parquet, in bounded memory."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.memory import peak

COMMAND = ("simulate", "design.yaml", "--workload", "workload.yaml", "--requests", "60", "--replications", "2")


def test_simulate_writes_the_records_of_its_first_replication(inputs, hydra):
    answer = hydra(*COMMAND, "--records", "one")
    assert answer.code == 0, answer
    visits = pq.read_table("one/visits.parquet").to_pandas()
    assert sorted(visits["request"]) == list(range(60))
    assert (visits["arrival_s"] <= visits["scheduled_s"]).all()
    assert (visits["scheduled_s"] < visits["first_token_s"]).all()
    assert (visits["first_token_s"] <= visits["decode_s"].fillna(np.inf)).all()
    iterations = pq.read_table("one/iterations.parquet").to_pandas()
    assert iterations["prefill_tokens"].sum() == visits["prompt_tokens"].sum()
    assert iterations["decode_sequences"].sum() == (visits["output_tokens"] - 1).sum()


def test_the_same_seed_writes_the_same_bytes_and_the_same_metrics_as_a_run_without_records(inputs, hydra):
    plain, one, two = (hydra(*COMMAND, "--json", *more).out for more in ((), ("--records", "1"), ("--records", "2")))
    assert plain == one == two
    for name in ("visits.parquet", "iterations.parquet"):
        assert (inputs / "1" / name).read_bytes() == (inputs / "2" / name).read_bytes()


def test_a_folder_that_holds_records_is_refused(inputs, hydra):
    assert hydra(*COMMAND, "--records", "one").code == 0
    again = hydra(*COMMAND, "--records", "one")
    assert again.code == 2
    assert "holds records already" in again.err


def test_a_folder_that_cannot_be_made_is_refused(inputs, hydra):
    answer = hydra(*COMMAND, "--records", "design.yaml/records")
    assert answer.code == 2
    assert "cannot write" in answer.err


@pytest.mark.slow
def test_memory_grows_by_less_than_185_bytes_a_request():
    """A million requests must stay within 300 MB, of which the program takes about 143.

    Requests of one token: gaps between tokens have a log of their own whose size is bounded.
    """
    small, large = (peak(count, prompt=64, output=1, rate_per_s=20.0)[0] for count in (40_000, 90_000))
    assert small < 150.0
    assert (large - small) * 1e6 / 50_000 < 185.0
