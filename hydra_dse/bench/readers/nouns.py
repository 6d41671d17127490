"""What a reader is, and what it sees of a file before it reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from hydra_dse.bench.readers.table import Row, header_of, rows_of
from hydra_dse.bench.record import ModelShape, Profile


@dataclass(frozen=True)
class Head:
    """The first bytes of a file."""

    start: bytes

    @cached_property
    def text(self) -> str:
        """As text; bytes that are none are replaced."""
        return self.start.decode("utf-8", errors="replace").lstrip("\ufeff")

    @cached_property
    def columns(self) -> frozenset[str]:
        """Keys of the columns, if it is a CSV."""
        return frozenset(header_of(self.text)) if "," in self.text.partition("\n")[0] else frozenset()


@dataclass(frozen=True)
class Reader:
    """A format: its name, how its files are recognised, and what reads them."""

    name: str
    recognises: Callable[[Head], bool]
    read: Callable[[Path], Iterable[Profile]]


Finish = Callable[[Profile, Row], Profile | None]


@dataclass(frozen=True)
class Layout:
    """A CSV with one profile a row.

    Attributes:
        name: of the format.
        columns: keys of columns that tell it.
        base: what holds for every row.
        numbers, wholes, texts: fields of `Profile` and the column each is read from.
        shape: fields of `ModelShape` (whole numbers, `name` a text) and their columns.
        rates: columns whose blank or failed cell makes the row a failed one; empty = rows are never failures.
        finish: last changes that columns do not say; None drops the row.
    """

    name: str
    columns: frozenset[str]
    base: Profile
    numbers: Mapping[str, str] = field(default_factory=dict)
    wholes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    shape: Mapping[str, str] = field(default_factory=dict)
    rates: tuple[str, ...] = ()
    finish: Finish | None = None

    def reader(self) -> Reader:
        """The reader of this layout."""
        return Reader(self.name, lambda head: self.columns <= head.columns, self.read)

    def read(self, path: Path) -> Iterable[Profile]:
        """Profiles of a file, row by row."""
        for row in rows_of(path):
            profile = self._profile(row)
            if self.finish is not None:
                finished = self.finish(profile, row)
                if finished is None:
                    continue
                profile = finished
            yield profile

    def _profile(self, row: Row) -> Profile:
        found: dict[str, Any] = {name: row.number(column) for name, column in self.numbers.items()}
        found |= {name: row.whole(column) for name, column in self.wholes.items()}
        found |= {name: row.text(column) for name, column in self.texts.items()}
        found = {name: value for name, value in found.items() if value is not None}
        shape: dict[str, Any] = {
            name: row.text(column) if name == "name" else row.whole(column) for name, column in self.shape.items()
        }
        failure = row.failure(*self.rates) if self.rates else ""
        model = replace(self.base.model, **{k: v for k, v in shape.items() if v is not None}) if shape else ModelShape()
        return replace(self.base, **found, model=model, failure=failure, source=row.file, line=row.line)
