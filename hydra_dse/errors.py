"""Every error a user can cause, in one small tree.

A mistake in an input is an `InputError`: it carries all faults found, each with file, line, column, key
path and message, so that a user mends a file in one pass.  The command line prints them and exits with 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_LEAST_PART, _FEW = 3, 3
"""Letters that make a part of a name telling, and how many names that hold it are worth a line."""


class HydraError(Exception):
    """Root of all errors raised on purpose by this project."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong in one input: `file:line:column: path: message`."""

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None

    def __str__(self) -> str:
        place = [str(part) for part in (self.file, self.line, self.column) if part is not None]
        prefix = [":".join(place)] if place else []
        if self.path:
            prefix.append(self.path)
        return _visible(": ".join([*prefix, self.message]))


def _visible(text: str) -> str:
    """Control characters of a user's keys and file names as escapes: a terminal would obey them."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


class InputError(HydraError, ValueError):
    """A user's input is wrong; nothing was changed.  `faults` lists every fault found."""

    def __init__(self, faults: Fault | str | Sequence[Fault]) -> None:
        if isinstance(faults, str):
            faults = Fault(faults)
        self.faults: tuple[Fault, ...] = (faults,) if isinstance(faults, Fault) else tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


class UnitError(HydraError, ValueError):
    """A quantity with a missing, unknown or wrong unit, or out of range."""


class NothingFeasible(HydraError, RuntimeError):
    """A search ended without one feasible design (exit code 3)."""


class Interrupted(HydraError, RuntimeError):
    """The user stopped a study; what was finished is kept and the study can go on from there (exit code 130)."""


class WorkersLost(Interrupted):
    """The processes that computed for a study are gone; what was finished is kept (exit code 130)."""


class InvariantBroken(HydraError, RuntimeError):
    """A conservation law failed inside a model: a fault of this project, never of the user's input."""


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Return ` (did you mean 'x'?)` for the closest choice, else the first ones that hold the name, else nothing."""
    known = sorted(choices)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if not close and len(name) >= _LEAST_PART:  # 'granite' for 'granite-4-h-small' is far by letters, and meant
        close = [choice for choice in known if name.lower() in choice.lower()][:_FEW]
    return f" (did you mean {one_of(close)}?)" if close else ""


def one_of(choices: Iterable[str]) -> str:
    """Return the choices as a readable list: `'a', 'b' or 'c'`."""
    quoted = [repr(choice) for choice in choices]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
