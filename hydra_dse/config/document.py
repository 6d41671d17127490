"""A configuration file as plain data in which every key path knows its line and column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hydra_dse.errors import Fault, InputError

KeyPath = tuple[str | int, ...]
Place = tuple[int, int]


@dataclass(frozen=True)
class Document:
    """A mapping read from a file, and where each of its keys and values stands.

    Attributes:
        file: path as the user gave it, for messages.
        data: plain data: dicts, lists, text, numbers, booleans, None.
        values: line and column of the value at a key path.
        keys: line and column of the key itself.
        overrides: key path → text of the override (`--set a.b`) that set it.
        folder: folder that paths in the file are relative to; None for data without a file.
        trusted: absolute paths that the document may name outside its folder (a stored run's inputs).
    """

    file: str
    data: dict[str, object]
    values: Mapping[KeyPath, Place] = field(default_factory=dict)
    keys: Mapping[KeyPath, Place] = field(default_factory=dict)
    overrides: Mapping[KeyPath, str] = field(default_factory=dict)
    folder: Path | None = None
    trusted: frozenset[str] = frozenset()

    def get(self, path: KeyPath) -> object:
        """The value at `path`, None where there is none."""
        value: object = self.data
        for part in path:
            inside = isinstance(value, dict) and part in value
            inside = inside or (isinstance(value, list) and isinstance(part, int) and 0 <= part < len(value))
            if not inside:
                return None
            value = value[part]  # type: ignore[index]
        return value

    def override_of(self, path: KeyPath) -> str | None:
        """The `--set` key that set `path` or a part above it, None where the file did."""
        return next((self.overrides[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.overrides), None)

    def fault(self, path: KeyPath, message: str, *, at_key: bool = False) -> Fault:
        """A fault at a key path (at the nearest key above it that stands in the file)."""
        override = self.override_of(path) or self._override_below(path)
        if override is not None:
            return Fault(message, file=f"--set {override}", path=dotted(path))
        places = self.keys if at_key else self.values
        for length in range(len(path), -1, -1):
            place = places.get(path[:length]) or self.values.get(path[:length])
            if place is not None:
                return Fault(message, self.file, place[0], place[1], dotted(path) or None)
        return Fault(message, self.file, path=dotted(path) or None)

    def _override_below(self, path: KeyPath) -> str | None:
        """The override that made a key which the file does not have, or the section that lacks it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.keys or path[:length] in self.values:
                return None
            for at, name in self.overrides.items():
                if at[:length] == path[:length]:
                    return name
        return None

    def part(self, prefix: KeyPath) -> Document:
        """The mapping at `prefix` as a document of its own, with the same file and lines."""
        data = self.get(prefix)
        if not isinstance(data, dict):
            raise InputError(self.fault(prefix, f"expected a mapping, got {data!r}"))

        size = len(prefix)

        def below(marks: Mapping[KeyPath, Place]) -> dict[KeyPath, Place]:
            return {path[size:]: place for path, place in marks.items() if path[:size] == prefix}

        overrides = {path[size:]: text for path, text in self.overrides.items() if path[:size] == prefix}
        return Document(self.file, data, below(self.values), below(self.keys), overrides, self.folder, self.trusted)


def dotted(path: KeyPath) -> str:
    """`("classes", 0, "share")` as `classes[0].share`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def leaves(data: object, path: KeyPath = ()) -> Iterator[tuple[KeyPath, object]]:
    """Every scalar of plain data with its key path."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from leaves(value, (*path, index))
    else:
        yield path, data
