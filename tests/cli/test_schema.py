"""JSON Schemas for editors: shipped files pass, misspelt keys, wrong units and wrong choices do not."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from cli.pieces import ROOT, call
from hydra_dse.config.json_schema import KINDS, json_schema
from hydra_dse.config.loader import load_yaml
from hydra_dse.errors import InputError

SHIPPED = {
    "experiment": [],
    "comparison": [],
    "variance": [],
    "workload": sorted((ROOT / "workloads").glob("*.yaml")),
    "lengths": sorted((ROOT / "workloads" / "lengths").glob("*.yaml")),
    "space": sorted((ROOT / "search_spaces").glob("*.yaml")),
    "design": sorted((ROOT / "search_spaces" / "designs").glob("*.yaml")),
}
for _file in sorted((ROOT / "experiments").glob("*.yaml")):
    _keys = load_yaml(_file).data
    SHIPPED[next((kind for key, kind in (("compare", "comparison"), ("variance", "variance")) if key in _keys),
                 "experiment")].append(_file)  # fmt: skip
TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def faults(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """What a validator of JSON Schema says, of the keywords that these schemas use."""
    unknown = set(schema) - KEYWORDS
    assert not unknown, unknown
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], root, at)
    if "anyOf" in schema and all(list(faults(value, option, root, at)) for option in schema["anyOf"]):
        yield f"{at}: none of the options fits {value!r}"
    if "type" in schema and not is_of(value, schema["type"]):
        yield f"{at}: {value!r} is no {schema['type']}"
    elif isinstance(value, dict):
        yield from in_mapping(value, schema, root, at)
    elif isinstance(value, list):
        yield from in_list(value, schema, root, at)
    elif isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{at}: {value!r} does not match"
    elif isinstance(value, int | float) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        yield f"{at}: {value!r} is out of bounds"
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{at}: {value!r} is no choice"


KEYWORDS = {
    "$schema", "$defs", "$ref", "anyOf", "type", "title", "description", "default", "enum", "const", "properties",
    "required", "additionalProperties", "propertyNames", "minProperties", "maxProperties", "items", "prefixItems",
    "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum",
}  # fmt: skip


def is_of(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


def in_mapping(value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, inside in value.items():
        if name in known:
            yield from faults(inside, known[name], root, f"{at}.{name}")
        elif more is False:
            yield f"{at}: unknown key {name}"
        elif isinstance(more, dict):
            yield from faults(inside, more, root, f"{at}.{name}")


def in_list(value: list[Any], schema: Mapping[str, Any], root: Mapping[str, Any], at: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield f"{at}: has {len(value)} entries"
    first = schema.get("prefixItems", [])
    for index, item in enumerate(value):
        inside = first[index] if index < len(first) else schema.get("items", {})
        yield from faults(item, inside, root, f"{at}[{index}]")


@pytest.mark.parametrize("kind", SHIPPED)
def test_shipped_files_pass_the_schema_of_their_kind(kind: str):
    schema = json_schema(kind)
    assert SHIPPED[kind]
    for file in SHIPPED[kind]:
        assert not list(faults(load_yaml(file).data, schema, schema, file.name))


WRONG = {
    "experiment": [("objektives", [], "unknown key"), ("rate", "2 GB", "none of"), ("search", {"sampler": "x"}, "")],
    "workload": [("slo", {"ttft": "2 GB"}, ""), ("slo", {"ttft": 2}, ""), ("arrivals", {"process": "poison"}, "")],
    "space": [("policy", {"batching": "chunk"}, ""), ("package", {}, ""), ("parameters", {"a": {"choices": []}}, "")],
    "design": [("policy", {"batching": "$batching"}, ""), ("policy", {"max_batch": 0}, ""), ("dies", [], "")],
}


@pytest.mark.parametrize(("kind", "key", "value", "says"), [(k, *case) for k, cases in WRONG.items() for case in cases])
def test_a_wrong_value_is_refused(kind: str, key: str, value: object, says: str):
    schema = json_schema(kind)
    data = {**copy.deepcopy(load_yaml(SHIPPED[kind][-1]).data), key: value}
    assert any(says in fault for fault in faults(data, schema, schema))


def test_a_parameter_may_stand_for_any_value_of_a_space_and_of_nothing_else():
    schema = json_schema("space")
    data = load_yaml(ROOT / "search_spaces" / "hydra-24.yaml").data
    assert not list(faults({**data, "policy": {"batching": "$batching"}}, schema, schema))
    assert list(faults({**data, "counts": "$counts"}, schema, schema))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_schema_that_is_json(capsys, kind: str):
    answer = call(capsys, "schema", kind)
    assert json.loads(answer.out) == json.loads(json.dumps(json_schema(kind)))
    assert answer.err == ""


def test_an_unknown_kind_is_told_with_a_suggestion():
    with pytest.raises(InputError, match=r"no schema of 'desing' \(did you mean 'design'\?\); expected 'experiment'"):
        json_schema("desing")


def test_the_library_passes_the_schemas_of_its_kinds():
    for kind, name in (("die", "chiplets"), ("memory", "memories"), ("link", "links")):
        schema = json_schema(kind)
        entries = load_yaml(ROOT / "hydra_dse" / "library" / f"{name}.yaml").data[name]
        assert isinstance(entries, dict) and entries
        for entry in entries.values():
            assert not list(faults(entry, schema, schema, name))


@pytest.mark.parametrize(
    ("before", "word", "expected"),
    [([], "swe", "sweep"), (["sweep"], "--clu", "--cluster"), (["trace"], "me", "metrics")],
)
def test_the_shell_completes_commands_and_options(before: list[str], word: str, expected: str):
    from click.shell_completion import BashComplete

    from hydra_dse.cli.app import app

    found = BashComplete(app, {}, "hydra-dse", "_HYDRA_DSE_COMPLETE").get_completions(before, word)
    assert expected in [item.value for item in found]
