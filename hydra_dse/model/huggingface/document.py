"""JSON text as plain data that knows the line of every key.

`json` reports no positions, so the lines are found by a second scan of the tokens, made only when a fault is to be
shown.  `Infinity` and `NaN`, which Python writes into configuration files, are accepted as the `json` module does.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra_dse.errors import Fault, InputError

MAX_BYTES = 4_000_000

KeyPath = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')


@dataclass(frozen=True)
class Document:
    """A JSON object with the file it came from."""

    file: str
    text: str
    data: Mapping[str, Any]

    def fault(self, message: str, path: KeyPath = ()) -> Fault:
        """Return a fault at the key with this path, or at its closest ancestor that the file has."""
        lines = key_lines(self.text)
        shown = ".".join(str(part) for part in path) or None
        while path and path not in lines:
            path = path[:-1]
        return Fault(message, file=self.file, line=lines.get(path, 1), path=shown)


def read_document(path: Path) -> Document:
    """Read a JSON object from a file of at most 4 MB.

    Raises:
        InputError: the file is missing, unreadable, too large, not UTF-8, not JSON or not an object.
    """
    text = _read_text(path)
    try:
        data = json.loads(text, object_pairs_hook=_without_duplicates)
    except json.JSONDecodeError as error:
        fault = Fault(f"not valid JSON: {error.msg}", file=str(path), line=error.lineno, column=error.colno)
        raise InputError(fault) from None
    except _DuplicateKey as error:
        line = _line_of_last(text, error.key)
        raise InputError(Fault("this key is given twice", file=str(path), line=line, path=error.key)) from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InputError(Fault(f"not valid JSON: {reason}", file=str(path))) from None
    if not isinstance(data, dict):
        message = f"expected a JSON object with the keys of a model configuration, found {_kind(data)}"
        raise InputError(Fault(message, file=str(path), line=1))
    return Document(str(path), text, data)


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every key and list item of a JSON text, by path."""
    lines: dict[KeyPath, int] = {(): 1}
    path: list[str | int] = []
    opened: list[str] = []
    line, last, previous = 1, 0, ""
    tokens = list(_TOKEN.finditer(text))
    for number, token in enumerate(tokens):
        line += text.count("\n", last, token.start())
        last, word = token.start(), token.group()
        in_list = bool(opened) and opened[-1] == "["
        if in_list and previous in "[,":
            lines[tuple(path)] = line
        if word in "{[":
            opened.append(word)
            path.append(0 if word == "[" else "")
        elif word in "}]" and opened:
            opened.pop()
            path.pop()
        elif word == "," and in_list:
            path[-1] = int(path[-1]) + 1
        elif opened and not in_list and _is_key(tokens, number):
            path[-1] = str(json.loads(word, strict=False))
            lines.setdefault(tuple(path), line)
        previous = word
    return lines


class _DuplicateKey(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKey(next(name for name in names if names.count(name) > 1))
    return found


def _read_text(path: Path) -> str:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InputError(Fault("is not a regular file", file=str(path)))
        if found.st_size > MAX_BYTES:
            message = f"{found.st_size} bytes are more than the {MAX_BYTES} that a configuration may have"
            raise InputError(Fault(message, file=str(path)))
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(Fault("not a UTF-8 text file", file=str(path))) from None
    except FileNotFoundError:
        raise InputError(Fault("no such file", file=str(path))) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(Fault(f"cannot be read: {error}", file=str(path))) from None


def _is_key(tokens: list[re.Match[str]], number: int) -> bool:
    return number + 1 < len(tokens) and tokens[number + 1].group() == ":"


def _line_of_last(text: str, key: str) -> int:
    places = [match.start() for match in re.finditer(rf"{re.escape(json.dumps(key))}\s*:", text)]
    return text.count("\n", 0, places[-1]) + 1 if places else 1


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number", type(None): "null"}
    return names.get(type(value), "another value")
