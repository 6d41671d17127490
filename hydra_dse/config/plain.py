"""Plain data: dicts, lists and scalars only, as YAML and JSON hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hydra_dse.config.document import KeyPath


def to_plain(value: Any) -> Any:
    """The value with tuples as lists and keys as text."""
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    return value


def put(data: Any, path: KeyPath, value: object) -> None:
    """Set the value at an existing key path."""
    for part in path[:-1]:
        data = data[part]
    data[path[-1]] = value
