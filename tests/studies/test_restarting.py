"""Worker processes that die: replaced, and told where the same task kills them again and again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

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


def _blocked() -> bool:
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.slow
def test_ctrl_c_reaches_no_worker_even_while_it_starts_and_the_parent_again_afterwards():
    with executor(2) as pool:
        assert pool.submit(_blocked).result(timeout=60)
        assert not _blocked()


@pytest.mark.slow
def test_ctrl_c_while_dead_workers_are_replaced_waits_for_no_task_of_the_new_ones(tmp_path):
    began = tmp_path / "began"
    with pytest.raises(KeyboardInterrupt), executor(2) as pool:
        for _ in range(2):
            pool.submit(_sleep, str(began))
        while not began.exists():
            time.sleep(0.01)
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
        time.sleep(0.05)  # the pool learns of it, and tasks are on their way to new processes
        started = time.monotonic()
        raise KeyboardInterrupt
    assert time.monotonic() - started < 20.0  # the tasks take minutes
    assert not [child for child in multiprocessing.active_children() if child.is_alive()]


def _sleep(began: str) -> None:
    Path(began).touch()
    time.sleep(300.0)
