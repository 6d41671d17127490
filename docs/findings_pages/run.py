"""A stored result: the file, the command that made it, and what of the experiment it covers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

STORED = Path(__file__).resolve().parents[1] / "findings"
Row = dict[str, str]


@dataclass(frozen=True)
class Run:
    """A stored result.

    Attributes:
        covers: what of the experiment was run; the page calls it partial where it is not the whole.
        partial: whether it is less than the experiment's file asks for.
        reference: what ratios are relative to.
    """

    file: str
    command: str
    covers: str
    partial: bool
    reference: str = "co-design"


@dataclass(frozen=True)
class Study:
    """A part of the page: the stored result `name` with what it means.

    Attributes:
        body: lines of the page below the command.
    """

    name: str
    title: str
    text: str
    body: Callable[[], Iterator[str]]


def stored_rows(file: str) -> list[Row]:
    """Rows of a stored file; none where it is not there."""
    path = STORED / file
    if not path.exists():
        return []
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def span(row: Row, name: str, digits: int = 2) -> str:
    """A value with its interval."""
    value, low, high = (float(row[key]) for key in (name, f"{name}:low", f"{name}:high"))
    return f"{value:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"
