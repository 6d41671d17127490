"""YAML (and JSON) files as plain data in which every key knows its line and column.

PyYAML's own loaders keep the last of two equal keys, turn `on`, `off`, `yes` and `no` into booleans, read
`1e9` as text and expand aliases without bound.  This loader builds the data from parser events instead: equal
keys are faults, only `true` and `false` are booleans, `1e9` is a number, and size, depth and expansion are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hydra_dse.config.composer import MAX_DEPTH, MAX_NODES, Node, compose
from hydra_dse.config.document import Document, KeyPath, Place, dotted
from hydra_dse.errors import Fault, InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    Section = TypeVar("Section", bound=BaseModel)

__all__ = ["Document", "KeyPath", "dotted", "load_yaml", "parse_yaml", "validate"]

MAX_BYTES = 16_000_000


def load_yaml(path: str | Path) -> Document:
    """Read a YAML or JSON file whose top level is a mapping.

    Raises:
        InputError: missing, unreadable, too large, not UTF-8, not YAML, a duplicate key, or not a mapping.
    """
    return parse_yaml(_read(Path(path)), str(path), folder=Path(path).parent)


def parse_yaml(text: str, file: str = "<text>", folder: Path | None = None) -> Document:
    """Like `load_yaml`, from text."""
    tree = compose(text, file)
    if tree is None:
        raise InputError(Fault("is empty; expected a mapping of keys", file, 1, 1))
    builder = _Builder(file)
    data = builder.build(tree, ())
    if builder.faults:
        raise InputError(builder.faults)
    if not isinstance(data, dict):
        found = "a list" if isinstance(data, list) else repr(data)[:80]
        raise InputError(Fault(f"expected a mapping of keys at the top level, got {found}", file, *tree.place))
    return Document(file, data, builder.values, builder.keys, folder=folder)


def _read(path: Path) -> str:
    try:
        if path.is_dir():
            raise InputError(Fault("is a folder; expected a file", str(path)))
        if path.exists() and not path.is_file():  # a pipe would block, a device never end
            raise InputError(Fault("is not a regular file", str(path)))
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(Fault("no such file", str(path))) from None
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(Fault(f"cannot be read: {reason}", str(path))) from None
    if len(raw) > MAX_BYTES:
        raise InputError(Fault(f"is larger than {MAX_BYTES // 1_000_000} MB, the limit for YAML", str(path)))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - (raw.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"is not UTF-8 text (byte 0x{raw[error.start]:02x})"
        raise InputError(Fault(message, str(path), line, column)) from None


class _Builder:
    """A tree of nodes → plain data and places; aliases are expanded within the bound."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.values: dict[KeyPath, Place] = {}
        self.keys: dict[KeyPath, Place] = {}

    def build(self, node: Node, path: KeyPath) -> object:
        """Plain data of `node`."""
        if len(self.values) >= MAX_NODES:
            raise InputError(Fault(f"expands to more than {MAX_NODES} values", self.file, *node.place))
        self.values[path] = node.place
        if node.target is not None:
            node = node.target
        if len(path) > MAX_DEPTH:
            raise InputError(Fault(f"expands to more than {MAX_DEPTH} levels", self.file, *node.place))
        if node.items is not None:
            return [self.build(item, (*path, index)) for index, item in enumerate(node.items)]
        if node.pairs is not None:
            return self._mapping(node.pairs, path)
        return node.value

    def _mapping(self, pairs: Sequence[tuple[Node, Node]], path: KeyPath) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in pairs:
            name = (key.target or key).text
            place = (*path, name)
            if key.items is not None or key.pairs is not None or not name:
                self._fault(key, path, "a key must be text")
            elif name == "<<":
                self._fault(key, place, "merge keys are not supported; write the keys out")
            elif name in result:
                first = self.keys[place]
                self._fault(key, place, f"duplicate key {name!r} (first at line {first[0]}, column {first[1]})")
            else:
                self.keys[place] = key.place
                result[name] = self.build(value, place)
        return result

    def _fault(self, node: Node, path: KeyPath, message: str) -> None:
        self.faults.append(Fault(message, self.file, *node.place, dotted(path) or None))


def validate(document: Document, model: type[Section]) -> Section:
    """Return the document as an instance of a pydantic model.

    Raises:
        InputError: with every fault at its file:line:column, key path, value and what would be accepted.
    """
    from pydantic import ValidationError

    from hydra_dse.config.faults import faults_of

    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise InputError(faults_of(error, document, model)) from None
