"""`compare`: every contender chosen, simulated and set against the reference, case by case, in a run directory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.design.comparison import Comparison
from hydra_dse.studies.comparison.course import Case, course_of
from hydra_dse.studies.comparison.designs import check_changes
from hydra_dse.studies.comparison.notes import short_runs
from hydra_dse.studies.comparison.ratios import SummaryRow
from hydra_dse.studies.comparison.runs import ComparisonRun, design_of_reference
from hydra_dse.studies.comparison.scheduling import Driver
from hydra_dse.studies.comparison.table import (
    Compared,
    compared,
    compared_csv,
    points_csv,
    summary_csv,
    summary_rows,
)
from hydra_dse.studies.comparison.tasks import Source, Task
from hydra_dse.studies.executor import executor
from hydra_dse.studies.files import locked
from hydra_dse.studies.interrupts import STOPS, stopped
from hydra_dse.studies.progress import StudyProgress, StudyState
from hydra_dse.studies.simulators import find_simulator

COMPARED, POINTS, SUMMARY = "compare.csv", "points.csv", "summary.csv"


@dataclass(frozen=True)
class ComparisonResult:
    """What a comparison found.

    Attributes:
        resumed: tasks whose answers were read from an earlier, interrupted run.
        notes: what a reader must know of the runs.
    """

    run_dir: Path
    comparison: Comparison
    rows: tuple[Compared, ...]
    summary: tuple[SummaryRow, ...]
    resumed: int
    notes: tuple[str, ...] = ()


def compare(
    ref: str | Path,
    run_dir: str | Path | None = None,
    *,
    overrides: Sequence[str] = (),
    quick: bool = False,
    workers: int = 1,
    resume: bool = False,
    progress: StudyProgress | None = None,
    command: Sequence[str] = (),
    simulator: str = "serving",
    cluster: str | None = None,
) -> ComparisonResult:
    """Run a comparison; write `compare.csv`, `points.csv` and `summary.csv`, after every load anew.

    Args:
        ref: a comparison's file or bundled name.
        run_dir: new or empty, or with `resume` that of an unfinished run; by default `runs/<name>`.
        overrides: `key=value` texts.
        quick: the file's quick variant.
        workers: processes; 1 is this process.
        resume: go on with an unfinished run.
        progress: told after every task.
        command: the command line, for provenance.
        simulator: name in the entry-point group `hydra_dse.simulators`.
        cluster: address of a Dask scheduler whose workers compute instead, `workers` tasks at a time; they must see the
            comparison's files under the same paths.

    Raises:
        InputError: a mistake in the file or the directory; nothing was changed.
        Interrupted: the user stopped; `resume` goes on, and no finished task is lost.
    """
    from hydra_dse.config.comparisons import load_comparison

    comparison = load_comparison(ref, overrides, quick=quick, design_of_run=design_of_reference)
    check_changes(comparison)
    find_simulator(simulator)
    path = Path(run_dir) if run_dir is not None else Path("runs") / comparison.name
    run = ComparisonRun(path, comparison, resume, command)
    source = Source(_absolute(ref), tuple(overrides), quick, _digest(comparison), simulator)
    with locked(path):
        work = _Comparing(comparison, run, progress)
        try:
            with executor(workers, cluster) as pool:
                driver = Driver(run, source, pool, workers, work.take, work.told)
                driver.drive([course_of(comparison, load) for load in range(len(comparison.loads))])
        except STOPS as cause:
            raise stopped(cause, f"every finished task is kept in {path}: continue with --resume") from None
        run.finish()
        return work.result()


def _absolute(ref: str | Path) -> str:
    """Workers may start elsewhere; a bundled name is none of a file."""
    return str(Path(ref).resolve()) if Path(ref).is_file() else str(ref)


def _digest(comparison: Comparison) -> str:
    text = repr([(item.path, item.sha256) for item in comparison.inputs]) + repr(comparison.resolved)
    return hashlib.sha256(text.encode()).hexdigest()


class _Comparing:
    """Collects cases and writes what is known so far."""

    def __init__(self, comparison: Comparison, run: ComparisonRun, progress: StudyProgress | None) -> None:
        self._comparison, self._run, self._progress = comparison, run, progress
        self._cases: list[Case] = []
        self._rows: list[Compared] = []
        self._summary: list[SummaryRow] = []

    def take(self, cases: tuple[Case, ...]) -> None:
        """Take the cases of a load and write the files."""
        self._cases += cases
        aims = self._comparison.aims
        self._cases.sort(key=lambda case: (case.load, aims.index(case.aim)))
        self._rows = [row for case in self._cases for row in compared(self._comparison, case)]
        self._summary = summary_rows(self._comparison, self._rows)
        self._run.write(COMPARED, compared_csv(self._comparison, self._rows))
        self._run.write(POINTS, points_csv(self._comparison, self._cases))
        self._run.write(SUMMARY, summary_csv(self._summary))

    def told(self, task: Task) -> None:
        """Tell what was done."""
        if self._progress is not None:
            load = self._comparison.loads[task.load]
            total = len(self._comparison.loads) * len(self._comparison.aims)
            doing = f"{load.model} {load.workload}: {task.kind}"
            self._progress.update(StudyState(len(self._cases), total, doing))

    def result(self) -> ComparisonResult:
        """Everything that was found."""
        rows, summary = tuple(self._rows), tuple(self._summary)
        notes = short_runs(self._comparison, self._cases)
        return ComparisonResult(self._run.path, self._comparison, rows, summary, self._run.resumed, notes)
