"""Overrides from the command line: `--set a.b=c` changes a document before it is validated."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hydra_dse.config.document import Document, KeyPath, dotted
from hydra_dse.config.loader import parse_yaml
from hydra_dse.errors import Fault, InputError

_KEY = re.compile(r"[^.\[\]=]+(\[\d+\]|\.[^.\[\]=]+)*")


@dataclass(frozen=True)
class Override:
    """One `key=value` of the command line."""

    name: str
    path: KeyPath
    value: object


def parse_override(text: str) -> Override:
    """Read `a.b[0].c=value`; the value is read as YAML.

    Raises:
        InputError: no `=`, an empty key, or a value that is not YAML.
    """
    name, equals, written = text.partition("=")
    name = name.strip()
    if not equals or not _KEY.fullmatch(name):
        raise InputError(Fault(f"{text!r} is not an override; write key.subkey=value", file="--set"))
    path = tuple(int(part) if part.isdigit() else part for part in re.findall(r"[^.\[\]]+", name))
    try:
        value = parse_yaml(f"value: {written.strip()}", f"--set {name}").data["value"]
    except InputError as error:
        raise InputError(Fault(f"{written!r}: {error.faults[0].message}", file=f"--set {name}")) from None
    return Override(name, path, value)


def split_overrides(overrides: Sequence[Override], key: str) -> tuple[tuple[Override, ...], tuple[Override, ...]]:
    """Overrides below `key` (with `key` taken off their paths), and the others."""
    below = tuple(replace(o, path=o.path[1:]) for o in overrides if len(o.path) > 1 and o.path[0] == key)
    return below, tuple(o for o in overrides if not (len(o.path) > 1 and o.path[0] == key))


def quick_overrides(document: Document) -> list[Override]:
    """The section `quick` as overrides: `search.trials: 20` sets that key.

    Raises:
        InputError: the document has none.
    """
    given = document.data.get("quick")
    if not isinstance(given, dict) or not given:
        message = "has no section 'quick' with the smaller values; add one, or leave --quick out"
        raise InputError(Fault(message, document.file, path="quick"))
    return [Override(f"quick.{key}", tuple(key.split(".")), value) for key, value in given.items()]


def apply_overrides(document: Document, overrides: Sequence[Override]) -> Document:
    """The document with the overrides set, in order; the file's own data stay as they were.

    Raises:
        InputError: a path that runs through a scalar or a missing list entry (all of them).
    """
    if not overrides:
        return document
    data = copy.deepcopy(document.data)
    marks = dict(document.overrides)
    faults: list[Fault] = []
    for override in overrides:
        message = _set(data, override.path, override.value)
        if message:
            faults.append(Fault(message, file=f"--set {override.name}", path=dotted(override.path)))
        marks = {path: name for path, name in marks.items() if path[: len(override.path)] != override.path}
        marks[override.path] = override.name
    if faults:
        raise InputError(faults)
    return replace(document, data=data, overrides=marks)


def parsed(overrides: Sequence[str | Override]) -> list[Override]:
    """Overrides of the command line, read."""
    return [parse_override(entry) if isinstance(entry, str) else entry for entry in overrides]


def _set(data: dict[str, object], path: KeyPath, value: object) -> str | None:
    """Set a value; the message of what is wrong, None where nothing is."""
    here: object = data
    for depth, part in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(here, dict):
            key = str(part)
            if last:
                here[key] = value
            elif here.get(key) is None and isinstance(path[depth + 1], int):
                return f"the file has no {dotted(path[: depth + 1])} to take an entry of; write the whole list"
            elif here.get(key) is None:
                here[key] = {}
            here = here[key]
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            if last:
                here[part] = value
            here = here[part]
        elif isinstance(here, list):
            return f"{dotted(path[:depth])} is a list of {len(here)}; write an index below that, e.g. [0]"
        else:
            return f"{dotted(path[:depth])} is {here!r}, which has no key {str(part)!r}"
    return None
