"""`study.journal`: the study's trials for Optuna's own tools (dashboard, importance).

The search itself never reads it: the journal is written behind, once per generation.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra_dse.studies.files import writing

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


class _Lines:
    """A backend of Optuna's journal that keeps new lines and writes them at once.

    Optuna's own one flushes every trial to disk and reads it back, which took a quarter of a sweep's own time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = 0
        self._new: list[dict[str, Any]] = []

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Take lines."""
        self._new.extend(logs)

    def read_logs(self, log_number_from: int) -> Iterable[dict[str, Any]]:
        """The lines from that number on; those that are written already were read before."""
        return self._new[log_number_from - self._written :]

    def flush(self) -> None:
        """Write the lines in the format of `JournalFileBackend`."""
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self._new)
        with writing(self._path), self._path.open("ab") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fsync(stream.fileno())
        self._written += len(self._new)
        self._new.clear()


class Journal:
    """Writes the completed trials of a study into a fresh journal file.

    A journal that was there is replaced: after a kill its last line may be half a line, and its lock stale.
    """

    def __init__(self, path: Path, study: Study) -> None:
        from optuna import create_study
        from optuna.storages import JournalStorage

        self._lines = _Lines(path)
        with writing(path):
            for stale in (path, path.with_name(path.name + ".lock")):
                with contextlib.suppress(FileNotFoundError):
                    stale.unlink()
        storage = JournalStorage(self._lines)  # type: ignore[arg-type]
        self._study = create_study(storage=storage, study_name=study.study_name, directions=study.directions)
        self._lines.flush()
        self._added = 0

    def add(self, trials: Sequence[FrozenTrial]) -> None:
        """Write the trials that are not in the journal yet."""
        self._study.add_trials(trials[self._added :])
        self._added = len(trials)
        self._lines.flush()
