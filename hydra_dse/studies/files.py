"""Files that are either the old or the new version, never half of one, whatever kills the process."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from hydra_dse.errors import Fault, InputError


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the system says while a file is written into an `InputError` that names the file.

    Raises:
        InputError: no permission, disk full, name too long.
    """
    try:
        yield
    except OSError as error:
        raise InputError(Fault(f"cannot write: {error.strerror or error}", file=str(path))) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file through a temporary one beside it: flushed to disk, then renamed over the old one.

    Raises:
        InputError: the file cannot be written (no permission, disk full); the old one stays as it was.
    """
    with opened_atomically(path) as stream:
        stream.write(data)


@contextlib.contextmanager
def opened_atomically(path: Path) -> Iterator[BinaryIO]:
    """The same for a file that is written piece by piece; nothing is left of one that was not written to its end.

    Raises:
        InputError: the file cannot be written; the old one stays as it was.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise InputError(Fault(f"cannot write: {error.strerror}", file=str(path))) from error
        raise


def empty_folder(path: Path) -> Path:
    """Make a folder, or take one that is there and empty.

    Raises:
        InputError: it holds something, is a file, or cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        present = next(path.iterdir(), None)
    except OSError as error:
        raise InputError(Fault(f"cannot be a folder to write to: {error.strerror}", file=str(path))) from error
    if present is not None:
        raise InputError(Fault(f"holds {present.name!r}; name an empty or new folder", file=str(path)))
    return path


def _flush_folder(folder: Path) -> None:
    """Make a rename durable; file systems that cannot flush a folder do without."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def csv_bytes(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """A CSV file with LF line ends and numbers that read back to the same bits; None and NaN are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue().encode()


def _cell(value: object) -> str:
    if value is None or value != value:
        return ""
    return repr(float(value)) if isinstance(value, float) else str(value)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run directory for this process; the lock goes with the process, however it ends.

    Raises:
        InputError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # a platform without file locks goes unlocked
        yield
        return
    with writing(folder / ".lock"):
        lock = (folder / ".lock").open("w")
    with lock as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(Fault("another process is working in this run directory", file=str(folder))) from error
        yield
