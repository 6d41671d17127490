"""The events of a Chrome trace, half a megabyte at a time.

`json.load` needs the whole text and every event as objects at once: 10 to 15 times the file.  Here the text is cut at
the last boundary between two events in a chunk (`},` followed by `{`) and the piece is parsed as a list by the C
parser.  A cut inside a string or a nested object leaves it unbalanced, so a piece that parses is a run of whole events;
one that does not is taken event by event.
"""

from __future__ import annotations

import codecs
import gc
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from hydra_dse.errors import Fault, InputError

CHUNK_BYTES = 500_000
MAX_VALUE_CHARACTERS = 64_000_000
"""No event and no other value of the top level may be longer; a bound on memory."""

EVENTS = "traceEvents"
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class EventStream:
    """Iterates over lists of events; afterwards `header` holds the other top-level keys.

    Attributes:
        header: top-level values other than the events, as far as they were read.
        is_object: whether the top level is an object (the original toolkit reads no other).
        truncated: what is missing at the end, None for a whole file.
    """

    def __init__(self, path: str | Path, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.path = Path(path)
        self.header: dict[str, object] = {}
        self.is_object = True
        self.truncated: str | None = None
        self.events = 0
        self._size = chunk_bytes
        self._text = ""
        self._at = 0
        self._ended = False
        self._between = False
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def __iter__(self) -> Iterator[list[object]]:
        """Yield the events in order, in lists of one chunk.

        Raises:
            InputError: the file cannot be read, or is not JSON.
        """
        with _open(self.path) as file:
            self._file = file
            yield from self._top()

    def _top(self) -> Iterator[list[object]]:
        first = self._next()
        if first == "[":
            self.is_object = False
            self._at += 1
            yield from self._array()
        elif first == "{":
            self._at += 1
            yield from self._object()
        else:
            raise self._fault("is not a JSON trace: expected an object with 'traceEvents', or a list of events")

    def _object(self) -> Iterator[list[object]]:
        while True:
            mark = self._next()
            if mark == ",":
                self._at += 1
                continue
            if mark == "}":
                return
            if mark == "" and self._missing("the closing brace"):
                return
            key = self._value()
            if self.truncated:
                return
            mark = self._next()
            if mark == "" and isinstance(key, str) and self._missing(f"the value of {key[:40]!r}"):
                return
            if not isinstance(key, str) or mark != ":":
                raise self._fault(f"expected a key and a colon at the top level, got {str(key)[:40]!r}")
            self._at += 1
            if key == EVENTS and self._next() == "[":
                self._at += 1
                yield from self._array()
            else:
                self.header[key] = self._value()
            if self.truncated:
                return

    def _array(self) -> Iterator[list[object]]:
        """The elements of the list that `_at` stands in, up to and with its end."""
        self._between = False
        while True:
            piece = self._piece()
            if piece is not None:
                self.events += len(piece)
                yield piece
            elif self._fill():
                continue
            else:
                break
        yield from self._one_by_one()

    def _piece(self) -> list[object] | None:
        """The events up to the last boundary in the text at hand, None where there is none that parses."""
        cut = self._boundary(len(self._text))
        if cut < 0 or len(self._text) - self._at < self._size // 2:
            return None
        start = self._skip_comma()
        if start is None or start > cut:
            return None
        try:
            events = _parse(f"[{self._text[start : cut + 1]}]")
        except (json.JSONDecodeError, RecursionError):
            return self._run()
        self._at, self._between = cut + 1, True
        return events

    def _boundary(self, end: int) -> int:
        """Index of the last `}` before `end` that a comma and a `{` follow, −1 where there is none."""
        cut = end
        while True:
            cut = self._text.rfind("},", self._at, cut)
            if cut < 0:
                return -1
            after = self._blank_to(cut + 2)
            if self._text[after : after + 1] == "{":
                return cut

    def _run(self) -> list[object] | None:
        """Whole events from here on, one by one, as far as the text at hand goes; None where there is none."""
        events: list[object] = []
        while True:
            start = self._skip_comma()
            if start is None or self._text[start] == "]":
                return events or None
            try:
                value, end = _DECODER.raw_decode(self._text, start)
            except (json.JSONDecodeError, RecursionError):
                return events or None
            if end >= len(self._text):
                return events or None
            events.append(value)
            self._at, self._between = end, True

    def _skip_comma(self) -> int | None:
        """Where the next element begins in the text at hand, None where that ends before.

        Raises:
            InputError: two elements without a comma between them.
        """
        start = self._blank_to(self._at)
        mark = self._text[start : start + 1]
        if mark == ",":
            start = self._blank_to(start + 1)
        elif self._between and mark not in ("", "]"):
            raise self._fault(f"expected a comma between two events, got {mark!r}")
        return start if start < len(self._text) else None

    def _blank_to(self, at: int) -> int:
        mark = _BLANK.match(self._text, at)
        return mark.end() if mark else at

    def _one_by_one(self) -> Iterator[list[object]]:
        while True:
            events = self._run()
            if events:
                self.events += len(events)
                yield events
            mark = self._next()
            if mark == ",":
                self._at += 1
                mark = self._next()
            if mark == "]":
                self._at += 1
                return
            if mark == "":
                self._missing("the closing bracket of the events")
                return
            value = self._value(f"event {self.events + 1}")
            if self.truncated:
                return
            self.events += 1
            self._between = True
            yield [value]

    def _value(self, what: str = "a value") -> object:
        """One JSON value of any length up to the limit; None with `truncated` set where the file ends in it."""
        self._next()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                wrong: str = error.msg
            except RecursionError:
                raise self._fault(f"{what} is nested too deeply") from None
            else:
                if end < len(self._text) or not self._fill():
                    self._at = end
                    return cast("object", value)
                continue
            if len(self._text) - self._at > MAX_VALUE_CHARACTERS:
                raise self._fault(
                    f"not valid JSON in {what}, or longer than {MAX_VALUE_CHARACTERS} characters: {wrong}"
                )
            if not self._fill():
                if self._missing(f"the end of {what}", wrong):
                    return None
                raise self._fault(f"not valid JSON in {what}: {wrong}")

    def _missing(self, what: str, wrong: str = "") -> bool:
        """Note that the file ends early; False where it does not, but holds something else."""
        rest = self._text[self._at :]
        if wrong and not _may_go_on(rest):
            return False
        self.truncated = f"the file ends without {what}"
        return True

    def _next(self) -> str:
        """The next character that is no blank, "" at the end."""
        while True:
            self._at = self._blank_to(self._at)
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _fill(self) -> bool:
        """Read one more chunk; False at the end of the file."""
        if self._ended:
            return False
        try:
            raw = self._file.read(self._size)
        except (OSError, EOFError, zlib.error) as error:
            raise self._fault(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
        text = self._decode(raw, not raw)
        self._ended = not raw
        self._text = self._text[self._at :] + text
        self._at = 0
        return bool(raw)

    def _fault(self, message: str) -> InputError:
        return InputError(Fault(f"{message} (after {self.events} events)", str(self.path)))


def _parse(text: str) -> list[object]:
    """A list of events.  The collector of cycles would walk all objects made so far, and JSON has no cycles."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return cast("list[object]", json.loads(text))
    finally:
        if collects:
            gc.enable()


def _may_go_on(rest: str) -> bool:
    """Whether a text that is no value could become one with more behind it: a brace, bracket or quote stays open."""
    depth, quoted, escaped = 0, False, False
    for character in rest:
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
    return quoted or depth > 0


def _open(path: Path) -> BinaryIO:
    try:
        if not path.is_file():
            raise InputError(Fault("no such file" if not path.exists() else "is not a regular file", str(path)))
        with path.open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        return cast("BinaryIO", gzip.open(path)) if zipped else path.open("rb")
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(Fault(f"cannot be read: {getattr(error, 'strerror', None) or error}", str(path))) from None
