"""Parameters of a template: values written `$name`, where they stand, and what is put in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.design.space import Value

SECTIONS = ("package", "packages", "fabric", "dies", "memories", "mapping", "policy", "placement", "precision")
MARK = "$"
Values = Mapping[str, Value]


def reference(value: object) -> str | None:
    """Return the parameter that a value of a template names, None where it is an ordinary value."""
    return value[len(MARK) :] if isinstance(value, str) and value.startswith(MARK) and len(value) > len(MARK) else None


def references(document: Document, prefix: KeyPath = ()) -> tuple[tuple[KeyPath, str], ...]:
    """Return key path and parameter of every `$name` of the template's sections at or below `prefix`."""
    data = document.get(prefix) if prefix else {key: document.get((key,)) for key in SECTIONS}
    found = ((path, reference(value)) for path, value in _scalars(data, prefix))
    return tuple((path, name) for path, name in found if name is not None)


def _scalars(data: object, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _scalars(value, (*path, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _scalars(value, (*path, index))
    else:
        yield path, data


def substituted(document: Document, values: Values, units: Mapping[str, str]) -> Document:
    """Return the template with every parameter replaced by its value, in its unit where it has one."""

    def filled(value: object) -> object:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        name = reference(value)
        return value if name is None else written(values[name], units.get(name))

    sections = {key: filled(document.data[key]) for key in SECTIONS if key in document.data}
    return replace(document, data={**document.data, **sections})


def written(value: Value, unit: str | None) -> Value:
    """Return a value as it stands in a file: `256` in `GB/s` is `"256 GB/s"`."""
    return f"{value} {unit}" if unit else value
