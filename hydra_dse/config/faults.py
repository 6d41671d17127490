"""Pydantic's validation errors as faults at a file's line and column, in the words of the file."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.errors import Fault, did_you_mean, one_of

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "nothing",
}
_LIMITS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
    "multiple_of": ("multiple_of", "a multiple of"),
}


def at_key(key: str, message: str) -> PydanticCustomError:
    """An error for model validators that points at one key of the section instead of the section."""
    return PydanticCustomError("at_key", "{text}", {"key": key, "text": message})


def faults_of(error: ValidationError, document: Document, model: type[BaseModel]) -> list[Fault]:
    """One fault per wrong key, in the order of the file."""
    found: dict[tuple[KeyPath, bool], list[str]] = {}
    details = [(_place(detail, document, model), detail) for detail in error.errors(include_url=False)]
    paths = [place.path for place, _ in details]
    for place, detail in details:
        if detail["type"] in _EXPECTED and any(
            len(p) > len(place.path) and p[: len(place.path)] == place.path for p in paths
        ):
            continue  # the other member of a union fits better: its own faults say more
        messages = found.setdefault((place.path, place.at_key), [])
        if place.message not in messages:
            messages.append(place.message)
    faults = [document.fault(path, "; or ".join(messages), at_key=at_key) for (path, at_key), messages in found.items()]
    return sorted(faults, key=lambda fault: (fault.line or 0, fault.column or 0, fault.path or "", fault.message))


@dataclass(frozen=True)
class _Place:
    path: KeyPath
    message: str
    at_key: bool = False


def _place(detail: ErrorDetails, document: Document, model: type[BaseModel]) -> _Place:
    location, kind = detail["loc"], detail["type"]
    context = detail.get("ctx") or {}
    if kind == "missing":
        path, _ = _walk(model, document, location[:-1])
        return _Place((*path, location[-1]), f"missing key {location[-1]!r}")
    if kind == "extra_forbidden":
        path, kinds = _walk(model, document, location[:-1])
        names = _keys(kinds)
        accepted = f"; accepted: {', '.join(names)}" if names else ""
        hint = did_you_mean(str(location[-1]), names)
        return _Place((*path, location[-1]), f"unknown key {location[-1]!r}{hint}{accepted}", at_key=True)
    path, _ = _walk(model, document, location)
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        key = str(context["discriminator"]).strip("'")
        value = document.get((*path, key))
        if kind == "union_tag_not_found":
            names = sorted(_literals_of(_walk(model, document, location)[1], key))
            return _Place((*path, key), f"missing key {key!r}; accepted: {one_of(names)}")
        return _Place((*path, key), _choice_message(value, _quoted(str(context["expected_tags"]))))
    if kind == "choice_at_key":
        where, choices = (*path, str(context["key"])), str(context["choices"]).split(",")
        value = document.get(where)
        if value is None:
            return _Place(where, f"missing key {context['key']!r}; accepted: {one_of(choices)}")
        return _Place(where, _choice_message(value, choices))
    if kind == "impossible":
        return _Place(path, str(context["text"]))
    if kind == "at_key":
        return _Place((*path, str(context["key"])), str(context["text"]))
    return _Place(path, _message(detail))


def _message(detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    context = detail.get("ctx") or {}
    if kind == "value_error":
        return str(context["error"])
    if kind in ("literal_error", "enum"):
        expected = str(context.get("expected", ""))
        choices = _quoted(expected)
        return _choice_message(value, choices) if choices else f"{_show(value)} is not accepted; expected {expected}"
    if kind in _LIMITS:
        key, words = _LIMITS[kind]
        return f"must be {words} {context[key]:g}, got {_show(value)}"
    if kind in ("too_short", "too_long"):
        limit = context.get("min_length", context.get("max_length"))
        words = "at least" if kind == "too_short" else "at most"
        return f"needs {words} {limit} entries, got {context.get('actual_length')}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, got {_show(value)}"
    return f"{detail['msg']}, got {_show(value)}"


def _choice_message(value: object, choices: Iterable[str]) -> str:
    names = tuple(choices)
    hint = did_you_mean(value, names) if isinstance(value, str) else ""
    return f"{_show(value)} is not accepted; expected {one_of(names)}{hint}"


def _quoted(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"'([^']*)'", text))


def _show(value: object) -> str:
    if isinstance(value, dict):
        return f"a mapping with {', '.join(map(str, list(value)[:5]))}" if value else "an empty mapping"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _walk(model: type[BaseModel], document: Document, location: KeyPath) -> tuple[KeyPath, list[Any]]:
    """Pydantic's location as a key path (it also holds union tags and names of validators) and the types there."""
    path: KeyPath = ()
    kinds: list[Any] = [model]
    for part in location:
        value = document.get(path)
        tagged = [kind for kind in kinds if part in (getattr(kind, "__name__", None), *_literals(kind))]
        if len(kinds) > 1 and tagged:
            kinds = tagged
        elif isinstance(value, list) or (isinstance(value, dict) and part in value):
            path = (*path, part)
            kinds = [inner for kind in kinds for step in _step(kind, part) for inner in _unwrap(step)]
    return path, kinds


def _keys(kinds: list[Any]) -> list[str]:
    """Keys that sections of these types accept."""
    names: dict[str, None] = {}
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names.update(dict.fromkeys(info.alias or name for name, info in kind.model_fields.items()))
    return list(names)


def _unwrap(kind: Any) -> Iterator[Any]:
    """Members of unions and annotated types, down to classes and containers."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        yield from _unwrap(typing.get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for member in typing.get_args(kind):
            yield from _unwrap(member)
    else:
        yield kind


def _step(kind: Any, part: str | int) -> Iterator[Any]:
    """Types one key further inside `kind`."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                yield info.annotation
        return
    arguments = [argument for argument in typing.get_args(kind) if argument is not Ellipsis]
    if typing.get_origin(kind) is dict:
        yield arguments[1]
    elif arguments and isinstance(part, int):
        yield arguments[0]


def _literals(kind: Any) -> set[Any]:
    """Values that tell members of a union apart."""
    return _literals_of([kind], None)


def _literals_of(kinds: list[Any], key: str | None) -> set[Any]:
    values: set[Any] = set()
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            for name, info in kind.model_fields.items():
                if key in (None, name) and typing.get_origin(info.annotation) is typing.Literal:
                    values.update(typing.get_args(info.annotation))
    return values
