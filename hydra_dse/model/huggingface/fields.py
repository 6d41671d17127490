"""Typed access to the keys of a configuration, with the file and line of every fault.

A key may have several names, one per dialect: the first that is there (and not null) counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.model.huggingface.document import Document, KeyPath

MAX_SIZE = 1 << 24
"""Largest dimension accepted: far above any model (widths reach 10^5, vocabularies 10^6)."""

MAX_LAYERS = 10_000

NO_LIMIT = 1 << 40
"""Lengths above this stand for "no limit" (tokenizers write 10^30)."""


class Fields:
    """The keys of one object of a configuration.

    Attributes:
        document: the file.
        path: where the object lies in it.
        read: names asked for and found so far.
    """

    def __init__(self, document: Document, path: KeyPath = (), values: Mapping[str, Any] | None = None) -> None:
        self.document = document
        self.path = path
        self.values: Mapping[str, Any] = document.data if values is None else values
        self.read: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether the key is there with a value other than null."""
        return self.values.get(name) is not None

    def size(self, *names: str, default: int | None = None, low: int = 1, high: int = MAX_SIZE) -> int:
        """Return a whole number in [low, high]; a missing key is a fault unless there is a default."""
        found = self.optional_size(*names, low=low, high=high)
        if found is not None:
            return found
        if default is None:
            self.missing(*names)
        return default

    def optional_size(self, *names: str, low: int = 1, high: int = MAX_SIZE) -> int | None:
        """Return a whole number in [low, high], or None where no name is there."""
        name, value = self._find(names)
        if value is None:
            return None
        return self._whole(value, (name,), low, high)

    def limit(self, *names: str) -> int | None:
        """Return a length limit; none where no name is there or the file says `Infinity` or an absurd number."""
        name, value = self._find(names)
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            return None
        if isinstance(value, int | float) and value > NO_LIMIT:
            return None
        return self._whole(value, (name,), 1, NO_LIMIT)

    def factor(self, *names: str, default: float) -> float:
        """Return a positive number of at most 1000."""
        name, value = self._find(names)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.fail(f"expected a number, found {value!r}", name)
        if not 0 < value <= 1000:
            self.fail(f"expected a number above 0 and at most 1000, found {value!r}", name)
        return float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """Return true or false."""
        name, value = self._find(names)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.fail(f"expected true or false, found {value!r}", name)
        return value

    def word(self, *names: str, default: str = "") -> str:
        """Return a text."""
        name, value = self._find(names)
        if value is None:
            return default
        if not isinstance(value, str):
            self.fail(f"expected a text, found {value!r}", name)
        return value

    def words(self, *names: str) -> tuple[str, ...] | None:
        """Return a list of texts, or None where no name is there."""
        items = self._items(names)
        if items is None:
            return None
        name, values = items
        for place, value in enumerate(values):
            if not isinstance(value, str):
                self.fail(f"expected a text, found {value!r}", name, place)
        return tuple(values)

    def sizes(self, *names: str, low: int = 0, high: int = MAX_LAYERS) -> tuple[int, ...] | None:
        """Return a list of whole numbers, or None where no name is there."""
        items = self._items(names)
        if items is None:
            return None
        name, values = items
        return tuple(self._whole(value, (name, place), low, high) for place, value in enumerate(values))

    def section(self, name: str) -> Fields:
        """Return the object under a key."""
        value = self._find((name,))[1]
        if value is None:
            self.missing(name)
        if not isinstance(value, Mapping):
            self.fail(f"expected an object, found {type(value).__name__}", name)
        return Fields(self.document, (*self.path, name), value)

    def value(self, name: str) -> Any:
        """Return whatever is under a key."""
        return self._find((name,))[1]

    def missing(self, *names: str) -> NoReturn:
        """Raise the fault of a key that is not there."""
        null = next((name for name in names if name in self.values and self.values[name] is None), None)
        if null is not None:
            self.fail("is null: the architecture cannot be known without it", null)
        spelt = " or ".join(repr(name) for name in names)
        message = f"the key {spelt} is missing: the architecture cannot be known without it"
        raise InputError(self.document.fault(message + did_you_mean(names[0], self.values), self.path))

    def fail(self, message: str, *path: str | int) -> NoReturn:
        """Raise a fault at a key of this object."""
        raise InputError(self.fault(message, *path))

    def fault(self, message: str, *path: str | int) -> Fault:
        """Return a fault at a key of this object."""
        return self.document.fault(message, (*self.path, *path))

    def _find(self, names: Sequence[str]) -> tuple[str, Any]:
        for name in names:
            if self.has(name):
                self.read.add(name)
                return name, self.values[name]
        return names[0], None

    def _items(self, names: Sequence[str]) -> tuple[str, list[Any]] | None:
        name, value = self._find(names)
        if value is None:
            return None
        if not isinstance(value, list):
            self.fail(f"expected a list, found {value!r}", name)
        if len(value) > MAX_LAYERS:
            self.fail(f"{len(value)} items are more than the {MAX_LAYERS} layers a model may have", name)
        return name, value

    def _whole(self, value: Any, path: KeyPath, low: int, high: int) -> int:
        integral = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not integral:
            self.fail(f"expected a whole number, found {value!r}", *path)
        if not low <= value <= high:
            self.fail(f"expected a whole number from {low} to {high}, found {value!r}", *path)
        return int(value)
