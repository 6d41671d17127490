"""Rows of a measured CSV, with places for messages, and the tables that readers make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hydra_dse.calibration.nouns import Form
from hydra_dse.errors import Fault, InputError


@dataclass(frozen=True)
class Row:
    """One line of a CSV."""

    file: str
    line: int
    cells: Mapping[str, str | None]

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns."""
        return frozenset(name for name in self.cells if name is not None)

    def text(self, name: str) -> str:
        """A cell as text; empty where the row or the file lacks it."""
        return (self.cells.get(name) or "").strip()

    def number(self, name: str) -> float:
        """A cell as a number.

        Raises:
            InputError: it is not one.
        """
        value = self.optional(name)
        if value is None:
            raise InputError(Fault("needs a number, is empty", file=self.file, line=self.line, path=name))
        return value

    def optional(self, name: str) -> float | None:
        """A cell as a number, None where it is empty.

        Raises:
            InputError: it is text.
        """
        text = self.text(name)
        if not text:
            return None
        try:
            return float(text)
        except ValueError:
            message = f"needs a number, has {text!r}"
            raise InputError(Fault(message, file=self.file, line=self.line, path=name)) from None


@dataclass
class Table:
    """Rows for one form, each the form's columns in order and the measured value."""

    form: Form
    variant: str
    rows: list[tuple[float, ...]] = field(default_factory=list)
