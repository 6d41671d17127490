"""Tracks of a trace: processes with their names and places, and the streams of each in the order they come up."""

from __future__ import annotations

from hydra_dse.bundle.writing.files import TraceFiles

FIRST_STREAM = 7
"""Number of the first stream of a rank."""


class Tracks:
    """Track numbers of the streams of all processes."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, int]] = {}

    def number(self, files: TraceFiles, process: int, name: str, numbers: tuple[int, ...]) -> int:
        """Number of a stream of a process; a new one is named in the files of these numbers."""
        known = self._known.setdefault(process, {})
        if name not in known:
            known[name] = FIRST_STREAM + len(known)
            about = {"ph": "M", "pid": process, "tid": known[name]}
            files.describe({**about, "name": "thread_name", "args": {"name": name}}, numbers)
            files.describe({**about, "name": "thread_sort_index", "args": {"sort_index": known[name]}}, numbers)
        return known[name]


def name_process(files: TraceFiles, process: int, name: str, order: int, numbers: tuple[int, ...]) -> None:
    """Name a process in the files of these numbers, and say where it stands among the others."""
    about = {"ph": "M", "pid": process, "tid": 0}
    files.describe({**about, "name": "process_name", "args": {"name": name}}, numbers)
    files.describe({**about, "name": "process_sort_index", "args": {"sort_index": order}}, numbers)
