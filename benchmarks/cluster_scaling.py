"""How many workers one driver can feed: `python -m benchmarks.cluster_scaling [WORKERS_HERE...]`.

A generation is proposed and taken by the driver and scored by the workers in between, so with N workers

    seconds per design = driver + dispatch / designs per task + scoring / N.

The three terms are measured as CPU time, which other load on the machine leaves alone; the rates for numbers of
workers that are not at hand follow from them, as long as a generation holds a task for each worker.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

from hydra_dse.config import load_experiment  # noqa: E402
from hydra_dse.design.space import Point  # noqa: E402
from hydra_dse.search.scores import Scorer, ScoreTable  # noqa: E402
from hydra_dse.studies.cluster import on_cluster  # noqa: E402
from hydra_dse.studies.estimating import EstimatorOf  # noqa: E402
from hydra_dse.studies.sweep import sweep  # noqa: E402

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)


@dataclass(eq=False)
class Timed:
    """A scorer that adds up its own CPU time and calls."""

    inner: Scorer
    seconds: float = 0.0
    calls: int = 0
    sizes: list[int] = field(default_factory=list)

    def __call__(self) -> Timed:
        return self

    def score(self, points: Sequence[Point]) -> ScoreTable:
        start = time.process_time()
        table = self.inner.score(points)
        self.seconds += time.process_time() - start
        self.calls += 1
        self.sizes.append(len(points))
        return table


def driver(trials: int, population: int) -> tuple[float, float, float]:
    """CPU seconds per design of the driver and of scoring, and designs per task."""
    experiment = load_experiment("quickstart", [f"search.trials={trials}", f"search.population={population}"])
    timed = Timed(EstimatorOf(experiment)())
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        result = sweep(experiment, Path(folder) / "run", scorer=timed)
        spent = time.process_time() - start
    return (spent - timed.seconds) / result.scored, timed.seconds / result.scored, result.scored / timed.calls


def dispatch(tasks: int = 300) -> float:
    """CPU seconds of driver and scheduler, which share this process, for a task with the points of 96 designs."""
    from distributed import LocalCluster

    points = [[{"hbm": 4, "Ap": 3, "Ad": 1, "Mp": 11, "link_gb_per_s": 256, "max_batch": index} for index in range(96)]]
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        on_cluster(local.scheduler_address) as pool,
    ):
        pool.submit(len, points).result()
        start = time.process_time()
        for future in [pool.submit(len, points) for _ in range(tasks)]:
            future.result()
        return (time.process_time() - start) / tasks


def on_this_machine(workers: int, trials: int = 4000) -> float:
    """Designs per second of a sweep on so many worker processes here, whatever else the machine does."""
    from distributed import LocalCluster

    experiment = load_experiment("quickstart", [f"search.trials={trials}", "search.population=400"])
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as local,
    ):
        start = time.perf_counter()
        result = sweep(experiment, Path(folder) / "run", cluster=local.scheduler_address)
        return result.scored / (time.perf_counter() - start)


def main() -> None:
    driver(200, 40)  # imports are made once
    per_design, scoring, per_task = driver(10_000, 400)
    per_send = dispatch()
    print(f"driver      {1e6 * per_design:8.1f} us a design ({1 / per_design:,.0f} designs/s)")
    print(f"scoring     {1e6 * scoring:8.1f} us a design and core ({1 / scoring:,.0f} designs/s)")
    print(f"dispatch    {1e6 * per_send:8.1f} us a task of {per_task:.0f} designs")
    print("workers  designs/s  of them busy")
    for workers in WORKERS:
        seconds = per_design + per_send / per_task + scoring / workers
        print(f"{workers:7d}  {1 / seconds:9,.0f}  {scoring / workers / seconds:12.0%}")
    for workers in map(int, sys.argv[1:]):
        print(f"here with {workers} worker processes: {on_this_machine(workers):,.0f} designs/s of wall-clock time")


if __name__ == "__main__":
    main()
