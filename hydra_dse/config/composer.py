"""YAML text as a bounded tree of nodes, built from parser events instead of PyYAML's own constructors."""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from hydra_dse.config.document import Place
from hydra_dse.errors import Fault, InputError

MAX_NODES = 1_000_000
MAX_DEPTH = 64
MAX_DIGITS = 400

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, object] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


@dataclass
class Node:
    """A scalar (`text`), a list (`items`), a mapping (`pairs`) or an alias (`target`) at a place."""

    place: Place
    value: object = None
    items: list[Node] | None = None
    pairs: list[tuple[Node, Node]] | None = None
    target: Node | None = None
    text: str = ""


def compose(text: str, file: str) -> Node | None:
    """The tree of a YAML text, None where it is empty.

    Raises:
        InputError: the text is not YAML, or holds tags, several documents, or more than the bounds allow.
    """
    reader = _Composer(file)
    if not _utf8(text):
        raise InputError(Fault("is not UTF-8 text", file))
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = (mark.line + 1, mark.column + 1) if mark else (None, None)
        parts = [part for part in (error.problem, error.context) if part]
        hint = _hint(text, place[0])
        message = f"not valid YAML: {' '.join(parts)}{hint}"
        raise InputError(Fault(message, file, *place)) from None
    except yaml.YAMLError as error:
        line, column = _place_of_character(text, getattr(error, "position", None))
        raise InputError(Fault(f"not valid YAML: {_first_line(error)}", file, line, column)) from None
    return reader.root


def _utf8(text: str) -> bool:
    """Whether a text can be encoded: words of a command line may hold bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hint(text: str, line: int | None) -> str:
    """What to look for where the parser stopped."""
    lines = text.splitlines()
    if line is None or line > len(lines):
        return "; the file ends too early"
    row = lines[line - 1]
    return "; YAML is indented with spaces, not tabs" if "\t" in row[: len(row) - len(row.lstrip())] else ""


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _place_of_character(text: str, position: int | None) -> tuple[int | None, int | None]:
    if position is None or position < 0:
        return None, None
    return text.count("\n", 0, position) + 1, position - (text.rfind("\n", 0, position) + 1) + 1


class _Composer:
    """Parser events → a tree of nodes, without recursion."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.root: Node | None = None
        self._open: list[tuple[Node, Node | None]] = []
        self._anchors: dict[str, Node] = {}
        self._pending: dict[int, str] = {}
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        """Add one event."""
        if isinstance(event, yaml.ScalarEvent):
            self._attach(self._scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise self._fault(event, f"alias *{event.anchor} has no finished anchor before it")
            self._attach(Node(self._place(event), target=self._anchors[event.anchor]), None)
        elif isinstance(event, (yaml.SequenceStartEvent, yaml.MappingStartEvent)):
            self._start(event)
        elif isinstance(event, (yaml.SequenceEndEvent, yaml.MappingEndEvent)):
            node, _ = self._open.pop()
            self._attach(node, self._pending.pop(id(node), None))
        elif isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            raise self._fault(event, "holds more than one YAML document; expected one")

    def _start(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent) -> None:
        if event.tag is not None and not event.implicit:
            raise self._fault(event, f"tag {event.tag!r} is not supported")
        if len(self._open) >= MAX_DEPTH:
            raise self._fault(event, f"is nested deeper than {MAX_DEPTH} levels")
        sequence = isinstance(event, yaml.SequenceStartEvent)
        place = self._place(event)
        node = Node(place, items=[]) if sequence else Node(place, pairs=[])
        if event.anchor:
            self._pending[id(node)] = event.anchor
        self._open.append((node, None))

    def _attach(self, node: Node, anchor: str | None) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            raise InputError(Fault(f"holds more than {MAX_NODES} values", self.file, *node.place))
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        parent, key = self._open[-1]
        if parent.items is not None:
            parent.items.append(node)
        elif key is None:
            self._open[-1] = (parent, node)
        elif parent.pairs is not None:
            parent.pairs.append((key, node))
            self._open[-1] = (parent, None)

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        if event.tag is not None and event.tag not in ("!", "tag:yaml.org,2002:str"):
            raise self._fault(event, f"tag {event.tag!r} is not supported")
        plain = not event.style and event.tag is None
        return Node(self._place(event), value=resolve(event.value) if plain else event.value, text=event.value)

    def _place(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)

    def _fault(self, event: yaml.Event, message: str) -> InputError:
        return InputError(Fault(message, self.file, *self._place(event)))


def resolve(text: str) -> object:
    """Return the value of a plain scalar, by the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= MAX_DIGITS:
        if _INTEGER.fullmatch(text):
            return int(text)
        if _FLOAT.fullmatch(text):
            return float(text)
    return text
