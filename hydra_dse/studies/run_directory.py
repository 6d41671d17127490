"""A run directory: everything a study knows, on disk after every generation.

`designs.parquet` is the truth.  A generation is first written as a part of its own under `generations/`; when
the parts hold as many rows as the table, they are merged into it, so that the table is never rewritten more
often than its size doubles.  A kill loses at most the generation that was running.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.designs_table import ScoredDesigns, from_parquet, joined, to_parquet
from hydra_dse.studies.differences import check_same_experiment
from hydra_dse.studies.files import write_atomically, writing
from hydra_dse.studies.provenance import FINISHED, Provenance, provenance_of

EXPERIMENT, PROVENANCE, DESIGNS, PARETO, LOG = (
    "experiment.yaml",
    "provenance.json",
    "designs.parquet",
    "pareto.csv",
    "log.jsonl",
)
JOURNAL, PARTS = "study.journal", "generations"
_HIDDEN = (".lock", ".experiment.yaml.tmp", ".provenance.json.tmp")


@dataclass(frozen=True)
class RunDirectory:
    """Paths and the reading and writing of a run."""

    path: Path

    @property
    def experiment_file(self) -> Path:
        """The resolved experiment."""
        return self.path / EXPERIMENT

    def provenance(self) -> Provenance:
        """Read the provenance; see `Provenance.from_json` for errors."""
        return Provenance.from_json(self._read(PROVENANCE), str(self.path / PROVENANCE))

    def designs(self) -> ScoredDesigns | None:
        """All scored designs in the order of scoring; None before the first generation.

        Raises:
            InputError: a table is corrupt, or a generation is missing.
        """
        parts = [self._table(self.path / DESIGNS)] if (self.path / DESIGNS).exists() else []
        merged = parts[0].generation[-1] if parts and len(parts[0]) else -1
        parts += [self._table(file) for number, file in self._parts() if number > merged]
        if not parts:
            if self.provenance().state == FINISHED:
                message = "is missing, and the run is marked as finished; the run directory is corrupt"
                raise InputError(Fault(message, file=str(self.path / DESIGNS)))
            return None
        designs = joined(parts)
        if sorted(set(designs.generation)) != list(range(designs.generation[-1] + 1)):
            raise InputError(Fault("a generation is missing; the run directory is corrupt", file=str(self.path)))
        return designs

    def add_generation(self, designs: ScoredDesigns, merged_rows: int, loose_rows: int) -> int:
        """Store a generation; `merged_rows` are in the table, `loose_rows` in earlier parts.

        Returns:
            Rows in the table afterwards.
        """
        with writing(self.path / PARTS):
            (self.path / PARTS).mkdir(exist_ok=True)
        write_atomically(self.path / PARTS / f"{designs.generation[0]:06}.parquet", to_parquet(designs))
        if loose_rows + len(designs) < merged_rows:
            return merged_rows
        return self.merge()

    def merge(self) -> int:
        """Bring all parts into `designs.parquet`; returns its rows."""
        parts = self._parts()
        designs = self.designs()
        if designs is None:
            return 0
        if parts:
            write_atomically(self.path / DESIGNS, to_parquet(designs))
        # A kill leaves the temporary file of the write it cut off.
        for file in [*(file for _, file in parts), *self.path.glob(".*.tmp"), *(self.path / PARTS).glob(".*.tmp")]:
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.path / PARTS).rmdir()
        return len(designs)

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the run atomically."""
        self.refuse_links(name)
        write_atomically(self.path / name, data)

    def write_log(self, events: Sequence[Mapping[str, object]]) -> None:
        """Replace the log."""
        self.write(LOG, b"".join(_log_line(event) for event in events))

    def log(self, event: Mapping[str, object]) -> None:
        """Append one event to the log."""
        self.refuse_links(LOG)
        with writing(self.path / LOG), (self.path / LOG).open("ab") as stream:
            stream.write(_log_line(event))

    def finish(self) -> None:
        """Mark the run as complete."""
        self.write(PROVENANCE, replace(self.provenance(), state=FINISHED).to_json())

    def refuse_links(self, *names: str) -> None:
        """Raise `InputError` where a file of the run is a link that leads out of it."""
        for name in names:
            file = self.path / name
            if file.is_symlink() and not file.resolve().is_relative_to(self.path.resolve()):
                raise InputError(Fault(f"is a link out of the run directory, to {file.resolve()}", file=str(file)))

    def _read(self, name: str) -> bytes:
        self.refuse_links(name)
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            message = f"not a run directory, or a corrupt one: cannot read {name} ({error.strerror})"
            raise InputError(Fault(message, file=str(self.path / name))) from error

    def _table(self, file: Path) -> ScoredDesigns:
        return from_parquet(self._read(str(file.relative_to(self.path))), str(file))

    def _parts(self) -> list[tuple[int, Path]]:
        self.refuse_links(PARTS)
        files = sorted((self.path / PARTS).glob("[0-9]*.parquet"))
        return [(int(file.stem), file) for file in files]


def _log_line(event: Mapping[str, object]) -> bytes:
    return (json.dumps(event) + "\n").encode()


def open_run(path: Path, experiment: Experiment, *, resume: bool, command: Sequence[str] = ()) -> RunDirectory:
    """Create the directory of a run, or open that of the same experiment to go on with it.

    Raises:
        InputError: the directory holds something else, another experiment, or a run and `resume` is False.
            Nothing in it is changed then.
    """
    run = RunDirectory(path)
    try:
        if path.exists() and not path.is_dir():
            raise InputError(Fault("is a file; a run needs a directory", file=str(path)))
        present = sorted(entry.name for entry in path.iterdir()) if path.exists() else []
    except OSError as error:  # a name that is too long, a folder that may not be read
        raise InputError(Fault(f"cannot be a run directory: {error.strerror}", file=str(path))) from error
    if PROVENANCE in present:
        _check_reopened(run, experiment, resume)
        return run
    strangers = [name for name in present if name not in (EXPERIMENT, *_HIDDEN)]
    if strangers:
        message = f"holds {strangers[0]!r} but no {PROVENANCE}: not a run directory; name an empty or new one"
        raise InputError(Fault(message, file=str(path)))
    run.refuse_links(EXPERIMENT)
    _check_own_start(run, experiment)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(Fault(f"cannot create the run directory: {error.strerror}", file=str(path))) from error
    run.write(EXPERIMENT, experiment_text(experiment).encode())
    run.write(PROVENANCE, provenance_of(experiment, command).to_json())  # last: from here on it is a run
    return run


def _check_own_start(run: RunDirectory, experiment: Experiment) -> None:
    """An experiment without provenance is a run killed as it began, or a user's own file that must stay."""
    if run.experiment_file.exists() and run._read(EXPERIMENT) != experiment_text(experiment).encode():
        message = f"is there without a {PROVENANCE} and would be overwritten: name an empty or new directory"
        raise InputError(Fault(message, file=str(run.experiment_file)))


def experiment_text(experiment: Experiment) -> str:
    """The resolved experiment as YAML."""
    from hydra_dse.config.dump import to_yaml

    return to_yaml(experiment.resolved)


def existing_run(path: str | Path) -> RunDirectory:
    """The run directory at `path`.

    Raises:
        InputError: it is none, or a corrupt one.
    """
    run = RunDirectory(Path(path))
    try:
        there = run.path.is_dir()
    except OSError as error:
        raise InputError(Fault(f"cannot be a run directory: {error.strerror}", file=str(path))) from error
    if not there:
        raise InputError(Fault(_why_no_run(Path(path)), file=str(path)))
    run.refuse_links(EXPERIMENT, PROVENANCE, DESIGNS, PARETO, LOG, JOURNAL, PARTS)
    run.provenance()
    return run


def _why_no_run(path: Path) -> str:
    if path.exists():
        return "is a file; expected the directory of a run"
    near = Path("runs") / path
    hint = f"did you mean {str(near)!r}?" if (near / PROVENANCE).is_file() else "hydra-dse sweep EXPERIMENT writes one"
    return f"no such run directory; {hint}"


def _check_reopened(run: RunDirectory, experiment: Experiment, resume: bool) -> None:
    run.refuse_links(EXPERIMENT, PROVENANCE, DESIGNS, PARETO, LOG, JOURNAL, PARTS)
    stored = run.provenance()
    check_same_experiment(run._read(EXPERIMENT), str(run.experiment_file), experiment_text(experiment))
    _check_inputs(stored, experiment, str(run.path / PROVENANCE))
    now = provenance_of(experiment, ())
    if stored.versions.get("hydra_dse") != now.versions["hydra_dse"]:
        was = stored.versions.get("hydra_dse")
        message = f"the run was made by hydra_dse {was}, this is {now.versions['hydra_dse']}; start a new run"
        raise InputError(Fault(message, file=str(run.path / PROVENANCE), path="versions.hydra_dse"))
    if not resume:
        state = "a finished run" if stored.state == FINISHED else "an unfinished run"
        raise InputError(
            Fault(f"holds {state} of {stored.name!r}: add --resume, or name another --out", file=str(run.path))
        )


def _check_inputs(stored: Provenance, experiment: Experiment, file: str) -> None:
    now = {item.path: item.sha256 for item in experiment.inputs}
    changed = [path for path in stored.inputs if path in now and now[path] != stored.inputs[path]]
    if changed:
        raise InputError([Fault(f"{path} has changed since the run was started", file=file) for path in changed])
