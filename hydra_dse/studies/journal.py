"""`study.journal`: the study's trials for Optuna's own tools (dashboard, importance).

The search itself never reads it: the journal is written behind, once per generation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.studies.files import writing

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


class Journal:
    """Writes the completed trials of a study into a fresh journal file.

    A journal that was there is replaced: after a kill its last line may be half a line, and its lock stale.
    """

    def __init__(self, path: Path, study: Study) -> None:
        from optuna import create_study
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        self._path = path
        with writing(path):
            for stale in (path, path.with_name(path.name + ".lock")):
                with contextlib.suppress(FileNotFoundError):
                    stale.unlink()
            storage = JournalStorage(JournalFileBackend(str(path)))
            self._study = create_study(storage=storage, study_name=study.study_name, directions=study.directions)
        self._written = 0

    def add(self, trials: Sequence[FrozenTrial]) -> None:
        """Write the trials that are not in the journal yet."""
        with writing(self._path):
            self._study.add_trials(trials[self._written :])
        self._written = len(trials)
