"""CSV tables that a study left in its directory, and names of files made of a study's words."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.run_directory import RunDirectory

Row = Mapping[str, str]


def stored_table(file: Path, needed: Sequence[str], of: str, hint: str = "") -> tuple[Row, ...]:
    """Rows of a table by column; those of another length have None as a name or a value.

    Args:
        file: where it is.
        needed: columns that it must have.
        of: what it is a table of.
        hint: added where the file cannot be read.

    Raises:
        InputError: it cannot be read, or lacks a column.
    """
    try:
        reader = csv.DictReader(io.StringIO(file.read_text(encoding="utf-8")))
        rows = tuple(reader)
    except OSError as error:
        raise InputError(Fault(f"cannot be read ({error.strerror}){hint}", file=str(file))) from error
    except (ValueError, csv.Error) as error:
        raise InputError(Fault(f"not a readable table ({error})", file=str(file))) from error
    missing = [name for name in needed if name not in (reader.fieldnames or ())]
    if missing:
        raise other_table(file, of, f"has no column {missing[0]!r}")
    return rows


def optional_bytes(directory: RunDirectory, name: str) -> bytes | None:
    """Contents of a file that a run need not have; None where it has none.

    Raises:
        InputError: it is a link, or cannot be read.
    """
    path = directory.path / name
    directory.refuse_links(name)
    if not path.exists():
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(Fault(f"cannot be read ({error.strerror})", file=str(path))) from error


def other_table(file: Path, of: str, what: str) -> InputError:
    """The error of a file that is not the table it should be."""
    return InputError(Fault(f"not a table of {of}: it {what}", file=str(file)))


def file_word(text: str) -> str:
    """A part of a file's name: ASCII letters, digits and underscores only."""
    return "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in text)
