"""A trace while it is read: rows checked one by one, faults with file and line, bounded size."""

from __future__ import annotations

import gzip
import io
import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.workload.marginals import MAX_TOKENS
from hydra_dse.workload.nouns import FloatArray, Requests

MAX_ROWS = 2_000_000
MAX_FAULTS = 10
MAX_LINE = 4_000_000
MAX_TIME_S = 1e12
"""Latest arrival, about 30,000 years: beyond it a float no longer tells neighbouring arrivals apart."""


@dataclass(frozen=True)
class Columns:
    """Names of the columns of a plain CSV.

    Attributes:
        prompt, output: token counts.
        arrival: arrival time; None where the file holds lengths only.
        time_unit: `"s"`, `"ms"`, `"us"` or `"datetime"`.
        skip_failed: whether a row with 0 output tokens is a failed request to leave out.
    """

    prompt: str
    output: str
    arrival: str | None = None
    time_unit: str = "s"
    skip_failed: bool = False


@dataclass(frozen=True)
class Trace:
    """Recorded requests and how they were read.

    Attributes:
        requests: in order of arrival, the first at 0.
        format: a key of `FORMATS`.
        skipped: failed requests left out.
        complete: False where the file has more rows than the limit.
        block_tokens: tokens of a prefix block, None where the trace has none.
        recorded_s: arrival times as they are recorded, from the record's own zero; None where it has none.
    """

    requests: Requests
    format: str
    path: str
    skipped: int = 0
    complete: bool = True
    block_tokens: int | None = None
    recorded_s: FloatArray | None = field(default=None, compare=False, repr=False)


@dataclass
class Recorder:
    """Takes rows, checks them and collects faults."""

    path: str
    limit: int = MAX_ROWS
    timed: bool = True
    skipped: int = 0
    faults: list[Fault] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("q"))
    _times: array[float] = field(default_factory=lambda: array("d"))
    _prompts: array[int] = field(default_factory=lambda: array("q"))
    _outputs: array[int] = field(default_factory=lambda: array("q"))
    _blocks: list[tuple[int, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._prompts)

    @property
    def full(self) -> bool:
        """Whether the limit of rows is reached."""
        return len(self._prompts) >= self.limit

    def fault(self, line: int | None, message: str, column: str | None = None) -> None:
        """Note a fault; the tenth ends the reading.

        Raises:
            InputError: there are ten faults.
        """
        self.faults.append(Fault(message, self.path, line, path=column))
        if len(self.faults) >= MAX_FAULTS:
            raise InputError([*self.faults, Fault(f"stopped after {MAX_FAULTS} faults", self.path)])

    def add(self, line: int, time_s: float, prompt: int, output: int, blocks: tuple[int, ...] | None = None) -> None:
        """Take a row whose values are already numbers."""
        if self._times and time_s < self._times[-1]:
            self.fault(line, f"arrives {self._times[-1] - time_s:.6g} s before the row above it; sort by arrival")
            return
        self._times.append(time_s)
        self._prompts.append(prompt)
        self._outputs.append(output)
        if blocks is not None:
            self._blocks.append(blocks)

    def time(self, line: int, text: object, column: str, scale: float) -> float | None:
        """A finite, non-negative number times `scale`; None (with a fault) otherwise."""
        try:
            if isinstance(text, bool):
                raise ValueError
            value = float(text) * scale  # type: ignore[arg-type]
        except (TypeError, ValueError):
            self.fault(line, f"{_show(text)} is not a time; expected a number", column)
            return None
        if not math.isfinite(value) or value < 0:
            self.fault(line, f"{_show(text)} is not a time; expected a finite number of zero or more", column)
            return None
        if value > MAX_TIME_S:
            self.fault(line, f"{_show(text)} is too late; expected a time of at most {MAX_TIME_S:g} s", column)
            return None
        return value

    def tokens(self, line: int, text: object, column: str, least: int = 1) -> int | None:
        """A whole number of tokens, `least` or more; None (with a fault) otherwise."""
        try:
            if isinstance(text, bool):
                raise ValueError
            value = float(text)  # type: ignore[arg-type]
            whole = int(value) if math.isfinite(value) else -1
        except (TypeError, ValueError, OverflowError):
            value, whole = math.nan, -1
        if whole != value or not least <= whole <= MAX_TOKENS:
            expected = f"expected a whole number from {least} to {MAX_TOKENS}"
            self.fault(line, f"{_show(text)} is not a token count; {expected}", column)
            return None
        return whole

    def finish(self, kind: str, *, complete: bool = True, block_tokens: int | None = None) -> Trace:
        """The trace, with the first arrival at 0.

        Raises:
            InputError: faults were found, or there is no request.
        """
        if self.faults:
            raise InputError(self.faults)
        if not self._prompts:
            failed = f" ({self.skipped} failed requests were left out)" if self.skipped else ""
            raise InputError(Fault(f"holds no requests{failed}; expected at least one row", self.path))
        times = np.array(self._times, dtype=np.float64)
        prompts, outputs = np.array(self._prompts, dtype=np.int64), np.array(self._outputs, dtype=np.int64)
        blocks = tuple(self._blocks) if self._blocks else None
        requests = Requests(
            times - times[0],
            prompts,
            outputs,
            np.zeros(len(times), dtype=np.int64),
            blocks,
            block_tokens=(block_tokens or 0) if blocks else 0,
            # A trace of which only some rows name their chat has no sessions.
            parent=np.array(self.parents, dtype=np.int64) if len(self.parents) == len(times) else None,
        )
        return Trace(requests, kind, self.path, self.skipped, complete, block_tokens, times)


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """A text stream of a plain or gzip-compressed file, with its faults as `InputError`.

    Raises:
        InputError: missing, a folder, unreadable, not UTF-8, or a truncated archive.
    """
    try:
        if path.is_dir():
            raise InputError(Fault("is a folder; expected a trace file", str(path)))
        if path.exists() and not path.is_file():  # a pipe would block, a device never end
            raise InputError(Fault("is not a regular file", str(path)))
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = io.BufferedReader(gzip.GzipFile(fileobj=raw)) if packed else raw
            with io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
                yield text
    except FileNotFoundError:
        raise InputError(Fault("no such file", str(path))) from None
    except UnicodeDecodeError as error:
        raise InputError(Fault(f"is not UTF-8 text: {error.reason}", str(path))) from None
    except EOFError:
        raise InputError(Fault("is a truncated gzip archive", str(path))) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Fault(f"cannot be read: {reason}", str(path))) from None
