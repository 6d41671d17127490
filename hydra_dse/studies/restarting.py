"""A pool of processes that survives the death of one of them.

`ProcessPoolExecutor` gives up when a process dies (killed, or out of memory): every task that is not done ends with
`BrokenProcessPool`, those of the other processes too.  Here such tasks are handed to a new pool.  A task that was at
hand at several deaths is likely their cause and is not tried again.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, resource_tracker
from typing import Any, TypeVar

from hydra_dse.errors import WorkersLost

Result = TypeVar("Result")
MOST_DEATHS = 3
"""Deaths of processes that one task may see."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Task:
    """What is to be called, where its result goes, and how many deaths it has seen."""

    call: Callable[[], Any]
    answer: Future[Any] = field(default_factory=Future)
    deaths: int = 0


class RestartingPool(Executor):
    """Spawned processes that are replaced when one dies.

    Args:
        workers: processes.
        initializer: called in each process when it starts.
    """

    def __init__(self, workers: int, initializer: Callable[[], None]) -> None:
        self._workers, self._initializer = workers, initializer
        self._lock = threading.Lock()
        self._stopped = False
        self._pool = self._new()
        # A pool tells of its death from a thread that holds its locks: tasks are handed on from another one.
        self._repair = ThreadPoolExecutor(1)

    def submit(self, fn: Callable[..., Result], /, *args: Any, **kwargs: Any) -> Future[Result]:
        """Run `fn` in a process; the future raises `WorkersLost` where processes died at it again and again."""
        task = _Task(partial(fn, *args, **kwargs))
        self._send(task)
        return task.answer

    def stop(self) -> None:
        """Replace no process any more; those that were just being replaced are there when it returns."""
        with self._lock:
            self._stopped = True
        self._repair.shutdown(wait=True, cancel_futures=True)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the processes; see `Executor.shutdown`."""
        self.stop()
        self._pool.shutdown(wait=wait, cancel_futures=cancel_futures)

    def _new(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=self._initializer)

    def _send(self, task: _Task) -> None:
        while not self._stopped:
            pool = self._pool
            try:
                with _deaf_to_interrupts():
                    sent = pool.submit(task.call)
            except BrokenProcessPool:  # a process died while there was nothing to do
                self._replace(pool)
            except RuntimeError:  # shut down in the meantime
                break
            else:
                sent.add_done_callback(partial(self._take, task, pool))
                return
        task.answer.cancel()

    def _take(self, task: _Task, pool: ProcessPoolExecutor, sent: Future[Any]) -> None:
        if sent.cancelled():
            task.answer.cancel()
            return
        error = sent.exception()
        if error is None:
            task.answer.set_result(sent.result())
        elif not isinstance(error, BrokenProcessPool):
            task.answer.set_exception(error)
        elif task.deaths == MOST_DEATHS or self._stopped:
            message = f"worker processes died {task.deaths + 1} times at the same task (out of memory?)"
            task.answer.set_exception(WorkersLost(message))
        else:
            task.deaths += 1
            try:
                self._repair.submit(self._again, task, pool)
            except RuntimeError:  # stopped in the meantime
                task.answer.cancel()

    def _again(self, task: _Task, pool: ProcessPoolExecutor) -> None:
        self._replace(pool)
        self._send(task)

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        """Put a new pool in the place of a broken one, unless that is done already."""
        with self._lock:
            if self._pool is broken and not self._stopped:
                _log.warning("a worker process died; what it and the others were at is computed again")
                self._pool = self._new()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, not even while they import what they need.

    A terminal interrupts all processes of a job; one that has not come to ignore it yet would die with a traceback.
    What is blocked here is blocked in a child; the parent gets it a moment later.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # it would unblock the signal when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
