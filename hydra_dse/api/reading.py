"""Run directories read once: read again only when one of their files, or an input they name, is another one.

Files of a run are replaced, never written in place, so inode, size and times tell a changed one.  The identity is
taken before the files are read: what changes meanwhile is seen at the next question.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.studies.run_directory import DESIGNS, EXPERIMENT, PARTS, PROVENANCE
from hydra_dse.studies.validation_loop import VALIDATION

if TYPE_CHECKING:
    from hydra_dse.report.run import Run

Identity = tuple[tuple[str, int, int, int, int], ...]
_MOST = 4
"""Runs that are kept in memory."""


def run_at(path: str | Path) -> Run:
    """What the report reads of a run directory.

    Raises:
        InputError: no run, a corrupt one, or an input of it has changed.
    """
    folder = Path(path).absolute()
    run, inputs = _read(Path(path), folder, _own_files(folder))
    if inputs == _inputs_of(run):
        return run
    _read.cache_clear()
    return _read(Path(path), folder, _own_files(folder))[0]


@lru_cache(maxsize=_MOST)
def _read(path: Path, folder: Path, identity: Identity) -> tuple[Run, Identity]:
    from hydra_dse.report.run import read_run

    run = read_run(path)
    return run, _inputs_of(run)


def _own_files(folder: Path) -> Identity:
    parts = sorted((folder / PARTS).glob("*.parquet"))
    return _identity([*(folder / name for name in (EXPERIMENT, PROVENANCE, DESIGNS, VALIDATION)), *parts])


def _inputs_of(run: Run) -> Identity:
    files: list[Path] = []
    for item in run.experiment.inputs:
        path = Path(item.path)
        files += [path, *sorted(path.iterdir())] if path.is_dir() else [path]
    return _identity(files)


def _identity(files: list[Path]) -> Identity:
    found = []
    for file in files:
        try:
            state = file.stat()
        except OSError:
            continue
        found.append((str(file), state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns))
    return tuple(found)
