"""JSON Schema of input files, for editors: keys, choices and units while a file is written.

The classes that check a file are the source, so that an editor knows what `check` knows of a single value.  What holds
between values, and whether a name exists, only `check` tells.
"""

from __future__ import annotations

import importlib
import re
from functools import partial
from typing import Any, Union

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from hydra_dse.config import fields
from hydra_dse.errors import InputError, did_you_mean, one_of
from hydra_dse.units import DIMENSIONS, Dimension

DRAFT = "https://json-schema.org/draft/2020-12/schema"
KINDS: dict[str, tuple[str, ...]] = {
    "experiment": ("experiment_schema", "ExperimentSection"),
    "workload": ("workload_schema", "WorkloadSection"),
    "lengths": ("lengths_schema", "LengthsFile"),
    "space": ("space_schema", "SpaceSection"),
    "design": ("design_schema", "DesignSection"),
    "die": ("hardware_schema", "ComposedDieSection", "FixedDieSection"),
    "memory": ("hardware_schema", "MemorySection"),
    "link": ("hardware_schema", "LinkSection"),
    "calibration": ("hardware_schema", "CalibrationSetSection"),
    "comparison": ("comparison_schema", "ComparisonSection"),
    "variance": ("variance_schema", "DecompositionSection"),
}
"""Kind of file → the module and the class that checks it, or classes of which one does."""
_NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
_PARAMETER = {"type": "string", "pattern": r"^\$[A-Za-z_][A-Za-z0-9_]*$", "description": "a parameter of the space"}
_BOUNDS = ("gt", "ge", "lt", "le")


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, which knows nothing of our units: it takes a quantity for the number it becomes."""

    def function_before_schema(self, schema: Any) -> JsonSchemaValue:
        function = schema["function"]["function"]
        if isinstance(function, partial) and function.func is fields._parse:
            return _quantity(DIMENSIONS[function.keywords["dimension"]])
        return super().function_before_schema(schema)


def json_schema(kind: str) -> dict[str, object]:
    """The JSON Schema (2020-12) of a kind of file.

    Args:
        kind: a key of `KINDS`.

    Raises:
        InputError: no such kind.
    """
    if kind not in KINDS:
        raise InputError(f"no schema of {kind!r}{did_you_mean(kind, KINDS)}; expected {one_of(KINDS)}")
    schema = _of(kind)
    if kind == "space":
        _with_template(schema)
    return {"$schema": DRAFT, **schema, "title": f"hydra-dse {kind}"}


def _of(kind: str) -> dict[str, Any]:
    module, *names = KINDS[kind]
    sections = [getattr(importlib.import_module(f"hydra_dse.config.{module}"), name) for name in names]
    one_of_them: Any = Union[tuple(sections)]  # noqa: UP007 - of a list
    adapter: TypeAdapter[Any] = TypeAdapter(one_of_them)
    found: dict[str, Any] = _plain(adapter.json_schema(by_alias=True, schema_generator=_Generator))
    return found


def _plain(value: Any) -> Any:
    """Without pydantic's own words: titles of keys, discriminators, and bounds of quantities, which are text."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        "anyOf" if key == "oneOf" else key: _plain(item)
        for key, item in value.items()
        if not (key == "title" and isinstance(item, str)) and key not in ("discriminator", *_BOUNDS)
    }


def _quantity(dimension: Dimension) -> JsonSchemaValue:
    """Text with a unit; a plain number too where the dimension takes one."""
    units = "|".join(re.escape(unit) for unit in sorted(dimension.units, key=len, reverse=True) if unit)
    shown = f", e.g. in {', '.join(dimension.shown)}" if dimension.shown else ""
    text = {
        "type": "string",
        "pattern": f"^{_NUMBER}({units})\\s*$",
        "description": f"{dimension.meaning}{shown}",
    }
    return {"anyOf": [{"type": "number", "minimum": 0}, text]} if dimension.bare else text


def _with_template(schema: dict[str, Any]) -> None:
    """The sections of a space as those of a design in which `$parameter` may stand for any value."""
    design = _of("design")
    definitions = {f"Template{name}": _varied(item) for name, item in design.pop("$defs", {}).items()}
    sections = _varied(design)["properties"]
    schema.setdefault("$defs", {}).update(definitions)
    for name, section in sections.items():
        if name in schema["properties"] and name != "name":
            schema["properties"][name] = section


def _varied(value: Any) -> Any:
    """A schema in which every value may be a parameter; references lead to the varied definitions."""
    if isinstance(value, list):
        return [_varied(item) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key == "$ref":
            found[key] = item.replace("#/$defs/", "#/$defs/Template")
        elif key == "properties":
            found[key] = {name: _or_parameter(_varied(inside)) for name, inside in item.items()}
        elif key in ("items", "additionalProperties") and isinstance(item, dict):
            found[key] = _or_parameter(_varied(item))
        else:
            found[key] = _varied(item)
    return found


def _or_parameter(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, _PARAMETER]}
