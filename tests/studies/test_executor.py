from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.executor import executor, score_in
from studies.toy import ToyScorer, toy_space


@dataclass(frozen=True)
class Company:
    """Reports with how many points each was scored."""

    def __call__(self) -> Company:
        return self

    def score(self, points: Sequence[object]) -> ScoreTable:
        count = len(points)
        return ScoreTable(("x",) * count, {"company": np.full(count, float(count))}, ((),) * count)


def _threads() -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def _fail() -> None:
    raise ValueError("no")


@pytest.mark.slow
def test_spawned_workers_score_the_same_as_this_process():
    points = list(toy_space().points())
    groups = [points[start : start + 6] for start in range(0, 120, 6)]
    with executor(1) as here, executor(2) as there:
        ours, theirs = (score_in(pool, ToyScorer(), groups) for pool in (here, there))
        assert there.submit(_threads).result() == "1"
    assert [table.identities for table in ours] == [table.identities for table in theirs]
    assert all(
        np.array_equal(one.metrics[name], other.metrics[name])
        for one, other in zip(ours, theirs, strict=True)
        for name in one.metrics
    )


def test_the_environment_is_as_before_after_the_workers_have_ended():
    before = _threads()
    with executor(2):
        assert _threads() == "1"
    assert _threads() == before


def test_groups_share_a_call_by_their_sizes_alone():
    groups = [[object()] * size for size in (40, 40, 40, 100, 6)]
    with executor(1) as pool:
        tables = score_in(pool, Company(), groups)  # type: ignore[arg-type]
    assert [table.metrics["company"][0] for table in tables] == [80, 80, 40, 100, 6]


def test_of_many_designs_a_call_takes_an_eighth_but_no_more_than_a_block():
    for groups, each in ((80, 240), (400, 384)):
        with executor(1) as pool:
            tables = score_in(pool, Company(), [[object()] * 24] * groups)  # type: ignore[arg-type]
        assert tables[0].metrics["company"][0] == each


def test_an_error_in_a_task_arrives_with_its_result():
    with executor(1) as pool:
        future = pool.submit(_fail)
        with pytest.raises(ValueError, match="no"):
            future.result()


def _sleep_beside(marker: str) -> None:
    Path(marker).touch()
    time.sleep(60)


@pytest.mark.slow
def test_an_interrupt_does_not_wait_for_what_workers_compute(tmp_path):
    marker = tmp_path / "started"
    with pytest.raises(KeyboardInterrupt), executor(2) as pool:
        pool.submit(_sleep_beside, str(marker))
        deadline = time.monotonic() + 50
        while not marker.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        pressed = time.monotonic()
        raise KeyboardInterrupt
    assert marker.exists()
    assert time.monotonic() - pressed < 10
