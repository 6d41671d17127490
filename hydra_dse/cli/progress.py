"""Progress of long jobs: a bar on a terminal, a line now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from hydra_dse.results import metric
from hydra_dse.results.text import number
from hydra_dse.studies.progress import StudyState, SweepState, ValidationState

_SECONDS_BETWEEN_LINES = 5.0


class Bar:
    """Shows how far a job is; a context manager that listens to a sweep or a validation.

    Rate and time left count from the first state that is shown: what an earlier run did took no time in this one.
    """

    def __init__(self, title: str, unit: str, quiet: bool) -> None:
        self._title, self._unit, self._quiet = title, unit, quiet
        self._terminal = sys.stderr.isatty()
        self._started = time.monotonic()
        self._last_line = 0.0
        self._first_done: int | None = None
        self._shown = self._latest = ""
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if self._terminal and not self._quiet:
            columns = (
                TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"), TimeElapsedColumn(), TextColumn("{task.fields[left]}"),
            )  # fmt: skip
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, note="", left="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif kind is None:
            self._write(self._latest)  # a job may end before its total: a space has fewer points than trials

    def show(self, done: int, total: int, note: str) -> None:
        """Show `done` of `total` and a short note."""
        if self._first_done is None:
            self._first_done, self._started = done, time.monotonic()
        elapsed = time.monotonic() - self._started
        rate = (done - self._first_done) / elapsed if elapsed > 0 else 0.0
        left = f"{_duration((total - done) / rate)} left" if rate > 0 and done < total else ""
        note = f"{rate:,.0f} {self._unit}/s  {note}" if rate >= 1 else note
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, note=note, left=left)
            return
        self._latest = "  ".join(part for part in (f"{self._title}: {done}/{total} {self._unit}", left, note) if part)
        if elapsed - self._last_line > _SECONDS_BETWEEN_LINES:
            self._last_line = elapsed
            self._write(self._latest)

    def _write(self, line: str) -> None:
        if not self._quiet and line != self._shown:
            self._shown = line
            sys.stderr.write(f"{line}\n")


def _duration(seconds: float) -> str:
    """`42 s`, `3 min 20 s` or `5 h 12 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class SweepBar(Bar):
    """Listens to a sweep."""

    def update(self, state: SweepState) -> None:
        """Show a state."""
        best = "  ".join(f"best {name} {number(value)} {metric(name).unit}" for name, value in state.best.items())
        volume = "" if state.hypervolume is None else f"  hypervolume {state.hypervolume:.4g}"
        self.show(state.done, state.total, f"front {state.front}{volume}  {best}")


class ValidationBar(Bar):
    """Listens to a validation."""

    def update(self, state: ValidationState) -> None:
        """Show a state."""
        self.show(state.done, state.total, state.design)


class StudyBar(Bar):
    """Listens to a study of many tasks."""

    def update(self, state: StudyState) -> None:
        """Show a state."""
        self.show(state.done, state.total, state.doing)
