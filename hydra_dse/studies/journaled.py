"""A study of many tasks whose journal keeps what is done, however the study ends."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from hydra_dse.studies.cases import CaseJournal
from hydra_dse.studies.executor import executor
from hydra_dse.studies.files import locked
from hydra_dse.studies.interrupts import STOPS, stopped
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
