"""What a key accepts, in words, from its pydantic field."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from hydra_dse import units
from hydra_dse.config.fields import Quantity, Section
from reference_pages.yaml_names import anchor, title


def default_text(field: FieldInfo) -> str:
    """The default of a key as a file would write it."""
    if field.default_factory is not None:
        return "none"
    if field.default is PydanticUndefined:
        return "—"
    if field.default is None or field.default in ("", (), []):
        return "none"
    if isinstance(field.default, Section):
        return "its own defaults"
    dimension = _dimension(_flat(field.annotation, field.metadata)[1])
    shown = units.exact(field.default, dimension) if dimension else field.default
    return f"`{str(shown).lower() if isinstance(shown, bool) else shown}`"


def type_text(field: FieldInfo) -> str:
    """What a key accepts, in words."""
    return _text(*_flat(field.annotation, field.metadata))


def _flat(annotation: Any, metadata: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
    """An annotation without its `Annotated` layers, and all their metadata."""
    found = list(metadata)
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        found += more
    flat: list[Any] = []
    for item in found:
        flat += item.metadata if isinstance(item, FieldInfo) else [item]
    return annotation, flat


def _dimension(metadata: Sequence[Any]) -> str:
    for item in metadata:
        if isinstance(item, Quantity):
            return item.dimension
    return ""


def _text(annotation: Any, metadata: Sequence[Any]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        options = [_text(*_flat(option)) for option in arguments if option is not type(None)]
        return " or ".join(dict.fromkeys(options))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is dict and arguments[1] is Any:
        return "the section itself"
    if origin is dict:
        return f"mapping: {_text(*_flat(arguments[0]))} → {_text(*_flat(arguments[1]))}"
    if origin in (list, tuple):
        return _sequence(origin, arguments, metadata)
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return f"[{title(annotation)}](#{anchor(annotation)})"
    return _scalar(annotation, metadata)


def _sequence(origin: Any, arguments: Sequence[Any], metadata: Sequence[Any]) -> str:
    items = [item for item in arguments if item is not Ellipsis]
    inside = _text(*_flat(items[0]))
    if origin is tuple and len(items) > 1:
        return "[" + ", ".join(_text(*_flat(item)) for item in items) + "]"
    return f"list of {inside}{_bounds(metadata)}"


def _scalar(annotation: Any, metadata: Sequence[Any]) -> str:
    dimension = _dimension(metadata)
    if annotation is Any:
        return "as in a design, with `$parameter` where a value varies"
    if isinstance(annotation, type) and hasattr(annotation, "__members__"):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if dimension:
        return units.DIMENSIONS[dimension].meaning + _bounds(metadata)
    words = {int: "whole number", float: "number", str: "text", bool: "`true`, `false`"}
    if annotation is str and any("pattern" in str(item) for item in metadata):
        return "64 hex digits"
    return words.get(annotation, str(annotation)) + (_bounds(metadata) if annotation in (int, float) else "")


def _bounds(metadata: Sequence[Any]) -> str:
    signs: tuple[tuple[type, str, str], ...] = (
        (annotated_types.Ge, "ge", "≥"),
        (annotated_types.Gt, "gt", ">"),
        (annotated_types.Le, "le", "≤"),
        (annotated_types.Lt, "lt", "<"),
        (annotated_types.MinLen, "min_length", "entries ≥"),
        (annotated_types.MaxLen, "max_length", "entries ≤"),
    )
    found: dict[str, Any] = {}
    for item in metadata:
        for kind, name, sign in signs:
            if isinstance(item, kind):
                value = getattr(item, name)
                if sign in ("≥", ">", "entries ≥") and sign in found:
                    value = max(value, found[sign])
                found[sign] = value
    if "≥" in found and ">" in found:
        found.pop("≥" if found[">"] >= found["≥"] else ">")
    if "≤" in found and "<" in found:
        found.pop("≤" if found["<"] <= found["≤"] else "<")
    if found.get("<") == 2**63:
        found["<"] = "2⁶³"
    shown = [f"{sign} {value:.0f}" if isinstance(value, float) else f"{sign} {value}" for sign, value in found.items()]
    return f" ({', '.join(shown)})" if shown else ""
