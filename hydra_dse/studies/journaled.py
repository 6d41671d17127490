"""A study of many tasks whose journal keeps what is done, however the study ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager

from hydra_dse.studies.cases import CaseJournal, Record
from hydra_dse.studies.executor import executor, runs_beside
from hydra_dse.studies.files import locked
from hydra_dse.studies.interrupts import STOPS, stopped, uninterrupted
from hydra_dse.studies.run_directory import RunDirectory


@contextmanager
def journaled(
    run: RunDirectory, name: str, workers: int, noun: str, cluster: str | None = None
) -> Iterator[tuple[CaseJournal, Executor]]:
    """Hold a run directory for a study; mark it as finished at its end.

    Args:
        run: opened or created.
        name: file of the journal.
        workers: processes.
        noun: what the journal counts, for the message of a study that was stopped.
        cluster: address of a Dask scheduler whose workers compute instead; they must see the run directory.

    Raises:
        Interrupted: the user stopped, or workers died again and again; the study can go on.
        InputError: another process holds the directory, or the journal is corrupt.
    """
    with locked(run.path):
        journal = CaseJournal(run.path / name)
        try:
            with executor(workers, cluster) as pool:
                yield journal, pool
        except STOPS as cause:
            kept = f"{len(journal)} finished {noun} are kept in {run.path}"
            raise stopped(cause, f"{kept}: continue with --resume") from None
        run.finish()


def records_of(
    cases: Sequence[tuple[str, Callable[[], Record]]], journal: CaseJournal, pool: Executor
) -> Iterator[Record]:
    """Yield the records of cases in order: those of the journal, and those that it lacks as they are finished.

    Cases that run beside this process are all sent before the first is waited for; in this process each is kept
    before the next one starts.

    Args:
        cases: keys, and what makes the record of each; another process must be able to import it.
        journal: takes what it lacks.
        pool: where they run.
    """
    lacking = {key: make for key, make in cases if key not in journal}
    ahead = {key: pool.submit(make) for key, make in lacking.items()} if runs_beside(pool) else {}
    for key, make in cases:
        record = journal.get(key)
        if record is None:
            record = (ahead.pop(key) if key in ahead else pool.submit(make)).result()
            with uninterrupted():
                journal.add(key, record)
        yield record
