"""`pack`: a run and the inputs it read as one archive, the same bytes from the same files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.files import opened_atomically
from hydra_dse.studies.provenance import Provenance
from hydra_dse.studies.run_directory import RunDirectory, existing_run

_MODE = 0o644


@dataclass(frozen=True)
class Packed:
    """What an archive holds.

    Attributes:
        members: files in it.
        missing_inputs: input files that are gone or have changed since the run read them.
        sha256: digest of the archive.
    """

    path: Path
    members: int
    missing_inputs: tuple[str, ...]
    sha256: str


def pack(run: str | Path, out: str | Path | None = None) -> Packed:
    """Write a run directory and the inputs it read to `<run>.tar.gz`.

    Owners, dates and the order of files are fixed, so that equal runs give equal archives.

    Args:
        run: a run directory.
        out: the archive; by default beside the run.

    Raises:
        InputError: not a run directory, a link leads out of it, or the archive is there already or cannot be written.
    """
    directory = existing_run(run)
    target = (
        Path(out) if out is not None else directory.path.resolve().with_name(directory.path.resolve().name + ".tar.gz")
    )
    if target.exists():
        raise InputError(Fault("is there already; name another --out", file=str(target)))
    provenance = directory.provenance()
    inputs, missing = _inputs(provenance)
    name = directory.path.resolve().name
    files: dict[str, Path | bytes] = {f"{name}/{key}": file for key, file in _files(directory)}
    files |= {f"{name}/{key}": file for key, file in inputs.items()}
    files[f"{name}/REPRODUCE.md"] = _instructions(provenance, inputs, missing).encode()
    with opened_atomically(target) as stream:
        _tar_gz(files, stream)
    return Packed(target, len(files), missing, _digest(target))


def _files(run: RunDirectory) -> Iterator[tuple[str, Path]]:
    """Every file of the run but locks and temporary ones; links must stay inside."""
    for file in sorted(run.path.rglob("*")):
        name = file.relative_to(run.path).as_posix()
        run.refuse_links(name)
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(run.path).parts):
            yield name, file


def _inputs(provenance: Provenance) -> tuple[dict[str, Path], tuple[str, ...]]:
    """Inputs whose content is still what the run read, under their digest; the others by path."""
    kept: dict[str, Path] = {}
    missing: list[str] = []
    for place, digest in provenance.inputs.items():
        try:
            same = _digest(Path(place)) == digest
        except OSError:
            same = False
        if same:
            kept[f"inputs/{digest[:12]}-{Path(place).name}"] = Path(place)
        else:
            missing.append(place)
    return kept, tuple(missing)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _instructions(provenance: Provenance, inputs: Iterable[str], missing: tuple[str, ...]) -> str:
    command = shlex.join(provenance.command) if provenance.command else "a call from Python"
    lines = [
        f"# Run `{provenance.name}`",
        "",
        f"Made by: `{command}`, seed {provenance.seed}, state {provenance.state}.",
        "",
        "Versions: " + json.dumps(dict(provenance.versions), sort_keys=True),
        "",
        "`experiment.yaml` is the experiment with every default written out; the files it read are in `inputs/`,",
        "named by the start of their SHA-256 (`provenance.json` holds their former paths).",
        "",
        *(f"- {name}" for name in sorted(inputs)),
        *(f"- not packed, gone or changed since: {place}" for place in missing),
    ]
    return "\n".join(lines) + "\n"


def _tar_gz(files: Mapping[str, Path | bytes], target: BinaryIO) -> None:
    """Pack files one after the other; none is held in memory as a whole."""
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            content = files[name]
            with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as stream:
                member = tarfile.TarInfo(name)
                member.size, member.mode, member.mtime = stream.seek(0, io.SEEK_END), _MODE, 0
                stream.seek(0)
                archive.addfile(member, stream)
