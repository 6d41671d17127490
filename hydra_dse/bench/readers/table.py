"""Rows of a CSV file by column name, read one by one, with the place of every fault."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.errors import Fault, InputError

_BLANKS = frozenset({"", "--", "-", "n/a", "na", "nan", "none", "null"})
_FAILED = re.compile(r"oom|out.of.memory|fail|error|crash|killed|timeout", re.IGNORECASE)


def column_key(name: str) -> str:
    """Name of a column without case, blanks and punctuation: `"Num of Hardware"` → `"num_of_hardware"`."""
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower().replace("%", " pct ")).strip("_")


def header_of(head: str) -> list[str]:
    """Column keys of the first line of a CSV text."""
    first = next(csv.reader(head.lstrip("\ufeff").splitlines()[:1]), [])
    return [column_key(name) for name in first]


def failed_text(text: str) -> bool:
    """Whether a cell says that the run failed."""
    return bool(_FAILED.search(text))


@dataclass(frozen=True)
class Row:
    """One row; `cells` by `column_key`."""

    file: str
    line: int
    cells: dict[str, str]

    def text(self, *columns: str) -> str:
        """Text of the first of the columns that exists, stripped; empty where none does."""
        return next((self.cells[column].strip() for column in columns if column in self.cells), "")

    def number(self, *columns: str) -> float | None:
        """Number of the first of the columns that exists; None where it is blank or says that the run failed.

        Raises:
            InputError: another text, or a number that is negative or not finite.
        """
        text = self.text(*columns)
        if text.lower() in _BLANKS or failed_text(text):
            return None
        return number_in(text, self.file, self.line, next(name for name in columns if name in self.cells))

    def whole(self, *columns: str) -> int | None:
        """The same as a whole number."""
        value = self.number(*columns)
        if value is None:
            return None
        if value != int(value):
            raise InputError(Fault(f"{columns[0]} must be a whole number, got {value}", self.file, self.line))
        return int(value)

    def wholes(self, *columns: str) -> tuple[int, ...]:
        """A list in one cell, with blanks or commas between its numbers, in brackets or not."""
        text = self.text(*columns)
        words = re.split(r"[\s,;]+", text.strip("[](){}\"' "))
        try:
            return tuple(int(word) for word in words if word)
        except ValueError:
            message = f"{columns[0]} must be a list of whole numbers, got {text!r}"
            raise InputError(Fault(message, self.file, self.line)) from None

    def failure(self, *columns: str) -> str:
        """Why a row has no rate: what its cell (or its note) says, or that the cell is blank; empty where it has."""
        text = self.text(*columns)
        if failed_text(text):
            return text
        if text.lower() not in _BLANKS:
            return ""
        notes = (self.text(name) for name in ("status", "error", "note"))
        return next((note for note in notes if failed_text(note)), "no value in the table")


def number_in(text: str, file: str, line: int, what: str) -> float:
    """A number that may carry `%` or thousands separators.

    Raises:
        InputError: no number, or one that is negative or not finite.
    """
    try:
        value = float(text.strip().rstrip("%").replace(",", ""))
    except ValueError:
        raise InputError(Fault(f"{what} must be a number, got {text!r}", file, line)) from None
    if not math.isfinite(value) or value < 0:
        raise InputError(Fault(f"{what} must be finite and zero or more, got {text!r}", file, line))
    return value


def rows_of(path: Path) -> Iterator[Row]:
    """Rows of a CSV file; blank lines are passed over.

    Raises:
        InputError: a row with more or fewer cells than the header, or bytes that are not text.
    """
    with path.open(encoding="utf-8-sig", newline="") as lines:
        yield from _rows(lines, str(path))


def _rows(lines: Iterable[str], file: str) -> Iterator[Row]:
    reader = csv.reader(lines, skipinitialspace=True)
    names: list[str] = []
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = [column_key(cell) for cell in cells]
                continue
            if len(cells) != len(names):
                message = f"has {len(cells)} cells, the header {len(names)}"
                raise InputError(Fault(message, file, reader.line_num))
            yield Row(file, reader.line_num, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise InputError(Fault(str(error), file, reader.line_num)) from None
    except UnicodeDecodeError as error:
        raise InputError(Fault(f"is not UTF-8 text: {error.reason}", file, reader.line_num + 1)) from None
