"""Worker processes that die: replaced, and told where the same task kills them again and again."""

from __future__ import annotations

import os
import signal
import time

import pytest

from hydra_dse.errors import Interrupted
from hydra_dse.studies.executor import executor
from hydra_dse.studies.sweep import sweep
from studies.toy import DeadlyScorer, ToyScorer, toy_experiment


def _sweep(path, **changes):
    return sweep(toy_experiment(trials=60), path, **changes)


@pytest.mark.slow
def test_a_sweep_survives_the_death_of_a_worker_with_the_same_bytes(tmp_path, caplog):
    (tmp_path / "deaths").mkdir()
    _sweep(tmp_path / "whole", scorer=ToyScorer())
    _sweep(tmp_path / "run", workers=2, scorer=DeadlyScorer(str(tmp_path / "deaths"), 1))
    assert "a worker process died" in caplog.text
    for name in ("pareto.csv", "log.jsonl", "designs.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_task_that_kills_every_worker_ends_the_sweep_and_keeps_what_was_done(tmp_path):
    (tmp_path / "deaths").mkdir()
    with pytest.raises(Interrupted, match=r"died 4 times at the same task .*0 designs are kept.*--resume"):
        _sweep(tmp_path / "run", workers=2, scorer=DeadlyScorer(str(tmp_path / "deaths"), 99))
    _sweep(tmp_path / "run", resume=True, scorer=ToyScorer())


@pytest.mark.slow
def test_a_worker_that_dies_idle_is_replaced_before_the_next_task():
    with executor(2) as pool:
        first = pool.submit(os.getpid).result()
        os.kill(first, signal.SIGKILL)
        time.sleep(0.3)
        assert pool.submit(os.getpid).result(timeout=60) != first
