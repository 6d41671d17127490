"""Where work runs: in this process, in a pool of spawned processes, or on a cluster (`cluster`).

Tasks are plain functions of picklable arguments, so that an executor of a cluster takes them too.  A search
space holds functions and is not picklable: what travels is a *factory*, a small hashable object that makes the
scorer where it arrives (from the experiment file), once per process.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import active_children, parent_process
from typing import Protocol, TypeVar

from hydra_dse.design.space import Point
from hydra_dse.search.scores import Scorer, ScoreTable
from hydra_dse.studies.restarting import RestartingPool

Result = TypeVar("Result")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
_TASKS = 8
"""Pieces of work that a generation makes at least, so that no worker is idle."""
_TASK_DESIGNS, _MOST_DESIGNS = 96, 384


class ScorerFactory(Protocol):
    """Makes a scorer; hashable and picklable, equal where it makes the same."""

    def __call__(self) -> Scorer:
        """Return the scorer."""

    def __hash__(self) -> int: ...


class InProcessExecutor(Executor):
    """Runs a task when it is submitted."""

    def submit(self, fn: Callable[..., Result], /, *args: object, **kwargs: object) -> Future[Result]:
        """Run `fn` now; an interrupt of the user passes through, errors wait in the future."""
        future: Future[Result] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def runs_beside(pool: Executor) -> bool:
    """Whether tasks run beside this process, so that they are best all submitted before the first result is asked."""
    return not isinstance(pool, InProcessExecutor)


def available_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def executor(workers: int, cluster: str | None = None) -> Iterator[Executor]:
    """An executor with `workers` processes; one worker is this process.  With `cluster`, that of the address instead.

    Processes are spawned, compute with one thread each, leave Ctrl-C to the parent and end with it: what they were
    computing then is dropped, for a study keeps only what its parent has taken.  One that dies is replaced.

    Raises:
        WorkersLost: processes died again and again at the same task.
        InputError: there is no such cluster.
    """
    if cluster is not None:
        from hydra_dse.studies.cluster import on_cluster

        with on_cluster(cluster) as remote:
            yield remote
        return
    if workers <= 1:
        yield InProcessExecutor()
        return
    with _one_thread_each():
        pool = RestartingPool(workers, _start_worker)
        strangers = active_children()
        try:
            yield pool
        except KeyboardInterrupt:
            pool.stop()
            for child in active_children():
                if child not in strangers:
                    child.terminate()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Children inherit the environment at their start, before they import NumPy."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A killed parent cannot tell its workers to stop, and they would wait for tasks forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def score_in(pool: Executor, factory: ScorerFactory, groups: Sequence[Sequence[Point]]) -> list[ScoreTable]:
    """Score groups of points, one table per group, in order.

    Groups are packed into tasks by their sizes alone, never by the number of workers: what is computed in one
    vectorised call, and so every bit of the result, is the same for any pool.  Of many designs a task takes more: the
    cost of a call is shared by all of its designs.
    """
    return collected(submitted(pool, factory, groups))


def submitted(
    pool: Executor, factory: ScorerFactory, groups: Sequence[Sequence[Point]]
) -> list[Future[list[ScoreTable]]]:
    """The tasks of `score_in`, at work where the pool runs beside this process."""
    tasks = _packed(groups)
    return [pool.submit(_score, factory, [list(groups[index]) for index in task]) for task in tasks]


def collected(tasks: Sequence[Future[list[ScoreTable]]]) -> list[ScoreTable]:
    """The tables of submitted tasks, when all are done, one per group, in order."""
    return [table for task in tasks for table in task.result()]


def _packed(groups: Sequence[Sequence[Point]]) -> list[list[int]]:
    tasks: list[list[int]] = []
    room = min(max(sum(len(group) for group in groups) // _TASKS, _TASK_DESIGNS), _MOST_DESIGNS)
    size = room
    for index, group in enumerate(groups):
        if size + len(group) > room:
            tasks.append([])
            size = 0
        tasks[-1].append(index)
        size += len(group)
    return tasks


def _score(factory: ScorerFactory, groups: list[list[Point]]) -> list[ScoreTable]:
    table = _scorer_of(factory).score([point for group in groups for point in group])
    parts, start = [], 0
    for group in groups:
        parts.append(table.rows(start, start + len(group)))
        start += len(group)
    return parts


@lru_cache(maxsize=2)
def _scorer_of(factory: ScorerFactory) -> Scorer:
    return factory()
