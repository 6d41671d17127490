"""The run directory of a comparison: its file as resolved, provenance, and the answers of all tasks that are done.

`answers.jsonl` is the truth: one line per task, flushed when the task ends.  A kill loses only tasks that were running;
a last line that was cut off is dropped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hydra_dse.config.dump import to_yaml
from hydra_dse.design.comparison import Comparison
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.comparison.tasks import Answer, Task
from hydra_dse.studies.files import write_atomically, writing
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.provenance import FINISHED, Provenance, provenance_for
from hydra_dse.studies.runs import design_of_run

COMPARISON, PROVENANCE, ANSWERS = "comparison.yaml", "provenance.json", "answers.jsonl"
_HIDDEN = (".lock", f".{COMPARISON}.tmp", f".{PROVENANCE}.tmp")


def design_of_reference(ref: str) -> Design:
    """The design that `RUN:ID` names."""
    run, _, identity = ref.rpartition(":")
    return design_of_run(run, identity)


class ComparisonRun:
    """Opens the directory of a comparison, new or to go on with.

    Raises:
        InputError: it holds something else, another comparison, or one and `resume` is False; nothing is changed then.
    """

    def __init__(self, path: Path, comparison: Comparison, resume: bool, command: Sequence[str]) -> None:
        self.path = path
        self._text = to_yaml(comparison.resolved)
        try:
            if path.exists() and not path.is_dir():
                raise InputError(Fault("is a file; a run needs a directory", file=str(path)))
            present = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
        except OSError as error:
            raise InputError(Fault(f"cannot be a run directory: {error.strerror}", file=str(path))) from error
        if PROVENANCE in present:
            self._check(comparison, resume)
        else:
            strangers = [name for name in present if name not in (COMPARISON, *_HIDDEN)]
            if strangers:
                message = f"holds {strangers[0]!r} but no {PROVENANCE}: name an empty or new directory"
                raise InputError(Fault(message, file=str(path)))
            self._start(comparison, command)
        self._answers = self._read_answers()
        self.resumed = len(self._answers)

    def answer(self, task: Task) -> Answer | None:
        """The stored answer of a task."""
        return self._answers.get(task.key)

    def keep(self, task: Task, answer: Answer) -> None:
        """Store an answer."""
        line = json.dumps([task.key, answer]) + "\n"
        file = self.path / ANSWERS
        with uninterrupted(), writing(file), file.open("a") as stream:
            stream.write(line)
            stream.flush()
            os.fsync(stream.fileno())
        self._answers[task.key] = json.loads(line)[1]

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run atomically."""
        with uninterrupted():
            write_atomically(self.path / name, data)

    def finish(self) -> None:
        """Mark the run as complete."""
        stored = Provenance.from_json((self.path / PROVENANCE).read_bytes(), str(self.path / PROVENANCE))
        self.write(PROVENANCE, replace(stored, state=FINISHED).to_json())

    def _start(self, comparison: Comparison, command: Sequence[str]) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"cannot create the run directory: {error.strerror}"
            raise InputError(Fault(message, file=str(self.path))) from error
        self.write(COMPARISON, self._text.encode())
        inputs = {item.path: item.sha256 for item in comparison.inputs}
        made = provenance_for(comparison.name, comparison.simulation.seed, inputs, command)
        self.write(PROVENANCE, made.to_json())

    def _check(self, comparison: Comparison, resume: bool) -> None:
        file = self.path / PROVENANCE
        stored = Provenance.from_json(self._bytes(PROVENANCE), str(file))
        if self._bytes(COMPARISON) != self._text.encode():
            message = "is another comparison than the one asked for: name another --out"
            raise InputError(Fault(message, file=str(self.path / COMPARISON)))
        now = {item.path: item.sha256 for item in comparison.inputs}
        changed = [path for path in stored.inputs if path in now and now[path] != stored.inputs[path]]
        if changed:
            raise InputError(Fault(f"{changed[0]} has changed since the run was started", file=str(file)))
        if not resume:
            message = f"holds a comparison ({stored.state}): add --resume, or name another --out"
            raise InputError(Fault(message, file=str(self.path)))

    def _bytes(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            message = f"not a comparison's directory, or a corrupt one: cannot read {name} ({error.strerror})"
            raise InputError(Fault(message, file=str(self.path / name))) from error

    def _read_answers(self) -> dict[str, Answer]:
        file = self.path / ANSWERS
        if not file.exists():
            return {}
        data = self._bytes(ANSWERS)
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) != len(data):
            write_atomically(file, whole)
        try:
            return dict(json.loads(line) for line in whole.splitlines())
        except (ValueError, TypeError) as error:
            raise InputError(Fault(f"has a line that is not readable ({error})", file=str(file))) from error
