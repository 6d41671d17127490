"""Every mistake in a model file is one `InputError` that names file, line, key, value and what would be accepted."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.errors import InputError
from hydra_dse.model import read_model
from hydra_dse.model.huggingface.document import MAX_BYTES, key_lines

Write = Callable[..., Path]

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
}
NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hidden_size": 64,
    "vocab_size": 100,
    "hybrid_override_pattern": "M-*",
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 16,
    "n_groups": 2,
    "intermediate_size": 96,
}
BAMBA: dict[str, Any] = {**LLAMA, "model_type": "bamba", "mamba_n_heads": 8, "mamba_d_state": 16}
QWEN3_NEXT: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_next",
    "linear_num_key_heads": 3,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}


def fault_of(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_model(path)
    assert len(caught.value.faults) == 1
    assert str(path) in str(caught.value)
    return str(caught.value)


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"])
def test_a_missing_key_that_matters_is_named(name: str, write: Write) -> None:
    assert re.search(rf":1: the key '{name}' is missing", fault_of(write(without(LLAMA, name))))


def test_a_missing_key_suggests_the_misspelt_one(write: Write) -> None:
    assert "did you mean 'hiden_size'?" in fault_of(write({**without(LLAMA, "hidden_size"), "hiden_size": 64}))


@pytest.mark.parametrize(
    "value", [0, -64, 64.5, True, "64", [64], 10**9, float("nan"), float("inf"), {"size": 64}], ids=repr
)
def test_an_absurd_size_is_refused_with_line_and_value(value: object, write: Write) -> None:
    message = fault_of(write({**LLAMA, "hidden_size": value}))
    assert ":3: hidden_size: expected a whole number" in message
    assert f"found {value!r}" in message


def test_too_many_layers_are_refused(write: Write) -> None:
    assert "num_hidden_layers: expected a whole number from 1 to 10000" in fault_of(
        write({**LLAMA, "num_hidden_layers": 10**7})
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**LLAMA, "num_key_value_heads": 3}, ":6: num_key_value_heads: 3 key-value heads do not divide 4"),
        (
            {**LLAMA, "num_attention_heads": 6},
            ":5: num_attention_heads: 6 attention heads do not divide hidden_size 64",
        ),
        ({**BAMBA, "mamba_n_heads": 7}, "mamba_n_heads: 7 heads do not divide the inner width 128"),
        ({**BAMBA, "mamba_d_head": 17}, "mamba_d_head: 8 heads of 17 do not make the inner width 128"),
        ({**BAMBA, "mamba_n_groups": 3}, "mamba_n_groups: 3 groups do not divide 8 heads"),
        ({**NEMOTRON, "n_groups": 3}, "n_groups: 3 groups do not divide 8 heads"),
        (QWEN3_NEXT, "linear_num_key_heads: 3 key heads do not divide 4 value heads"),
    ],
)
def test_heads_that_do_not_divide_are_refused(config: dict[str, Any], expected: str, write: Write) -> None:
    assert expected in fault_of(write(config))


def test_an_unknown_letter_of_the_pattern_is_named_with_its_place(write: Write) -> None:
    message = fault_of(write({**NEMOTRON, "hybrid_override_pattern": "M-X*"}))
    assert ":5: hybrid_override_pattern: unknown letter 'X' at place 3" in message
    assert "accepted: 'M', '*', '-' or 'E'" in message


def test_a_pattern_that_contradicts_the_number_of_layers_is_refused(write: Write) -> None:
    message = fault_of(write({**NEMOTRON, "num_hidden_layers": 4}))
    assert "hybrid_override_pattern: describes 3 layers, but num_hidden_layers is 4" in message


def test_an_unknown_layer_kind_is_named_with_the_line_of_the_item(write: Write) -> None:
    config = {**without(NEMOTRON, "hybrid_override_pattern"), "layers_block_type": ["mamba", "mabma"]}
    message = fault_of(write(config))
    assert ":14: layers_block_type.1: unknown layer kind 'mabma' (did you mean 'mamba'?)" in message


def test_an_unsupported_type_lists_the_supported_ones_and_suggests_the_closest(write: Write) -> None:
    message = fault_of(write({**LLAMA, "model_type": "nemotronh"}))
    assert ":2: model_type: unsupported model type 'nemotronh' (did you mean 'nemotron_h'?)" in message
    assert "zamba2" in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        (json.dumps(LLAMA, indent=2)[:60], "not valid JSON"),
        ("[1, 2]", "expected a JSON object"),
        ("null", "expected a JSON object"),
        ("model_type: llama", "not valid JSON"),
        ("[" * 100_000 + "]" * 100_000, "not valid JSON: nested too deeply"),
        ('{"hidden_size": ' + "1" * 5000 + "}", "not valid JSON"),
        ("{}", "'model_type' is missing"),
    ],
    ids=["empty", "open", "truncated", "list", "null", "yaml", "deep", "endless number", "no keys"],
)
def test_what_is_not_a_json_object_is_refused(text: str, expected: str, write: Write) -> None:
    assert expected in fault_of(write(text))


def test_truncated_json_is_named_with_its_last_line(write: Write) -> None:
    text = json.dumps(LLAMA, indent=2)
    cut = text[: text.index('"vocab_size"')]
    assert re.search(r":8:\d+: not valid JSON", fault_of(write(cut)))


def test_a_key_given_twice_is_refused_at_its_second_line(write: Write) -> None:
    text = json.dumps(LLAMA, indent=2)[:-2] + ',\n  "hidden_size": 128\n}'
    assert ":9: hidden_size: this key is given twice" in fault_of(write(text))


def test_a_huge_file_is_refused_unread(write: Write) -> None:
    assert f"more than the {MAX_BYTES}" in fault_of(write(" " * (MAX_BYTES + 1)))


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(b"\x80\x81\xff\x00")
    assert "not a UTF-8 text file" in fault_of(path)


def test_missing_files_and_empty_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        read_model(tmp_path / "nowhere.json")
    with pytest.raises(InputError, match=r"config\.json: no such file"):
        read_model(tmp_path)


def test_a_device_is_not_read() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_model("/dev/zero")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({**LLAMA, "attention_bias": "yes"}, "attention_bias: expected true or false, found 'yes'"),
        ({**LLAMA, "model_type": 7}, "model_type: expected a text, found 7"),
        ({**BAMBA, "attn_layer_indices": 1}, "attn_layer_indices: expected a list, found 1"),
        ({**BAMBA, "attn_layer_indices": [0, "1"]}, "attn_layer_indices.1: expected a whole number, found '1'"),
        ({**BAMBA, "attn_layer_indices": [5]}, "attn_layer_indices: names a layer beyond the 2 there are"),
        ({**BAMBA, "mamba_expand": -2}, "mamba_expand: expected a number above 0"),
        ({**BAMBA, "mamba_expand": "two"}, "mamba_expand: expected a number, found 'two'"),
        (
            {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5},
            "num_experts_per_tok: 5 experts per token are more than the 4 experts",
        ),
        ({**LLAMA, "model_type": "hymba", "layer_type": ["h", "x"]}, "layer_type.1: unknown letter 'x'"),
        ({"model_type": "qwen3_5", "text_config": 5}, "text_config: expected an object"),
        ({"model_type": "qwen3_5", "text_config": {"hidden_size": 0}}, "is missing"),
        (
            {"d_model": 64, "n_layer": 2, "vocab_size": 100, "ssm_cfg": {"layer": "Mamba3"}},
            "ssm_cfg.layer: unknown layer 'Mamba3'",
        ),
    ],
)
def test_values_of_the_wrong_kind_are_refused(config: dict[str, Any], expected: str, write: Write) -> None:
    assert expected in fault_of(write(config))


def test_a_fault_in_a_nested_object_has_the_line_of_its_key(write: Write) -> None:
    text = json.dumps({"model_type": "qwen3_5", "text_config": {**LLAMA, "num_hidden_layers": -1}}, indent=2)
    line = 1 + text[: text.index('"num_hidden_layers"')].count("\n")
    assert f":{line}: text_config.num_hidden_layers: expected a whole number" in fault_of(write(text))


def test_a_second_name_must_stand_for_a_preset_beside_it(write: Write) -> None:
    assert "same_as: expected the name of a preset" in fault_of(write({"preset": "a", "same_as": "../b"}))
    assert "same_as: expected the name of a preset" in fault_of(write({"preset": "a", "same_as": "b"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@given(value=JSON, indent=st.sampled_from([None, 2]))
def test_every_key_of_any_json_text_has_a_line_that_holds_it(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    lines = text.split("\n")
    for path, line in key_lines(text).items():
        if path and isinstance(path[-1], str):
            assert json.dumps(path[-1]) in lines[line - 1]


@given(name=st.sampled_from(sorted(LLAMA)), value=JSON)
def test_no_value_of_any_key_ends_in_anything_but_a_model_or_an_input_error(
    name: str, value: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "model.json"
    path.write_text(json.dumps({**LLAMA, name: value}))
    try:
        assert read_model(path).blocks
    except InputError as error:
        assert str(path) in str(error)


def test_a_needed_key_that_is_null_is_said_to_be_null(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "lfm2_moe",\n"num_hidden_layers": 2,\n"layer_types": null}')
    with pytest.raises(InputError, match=r"config\.json:3: layer_types: is null"):
        read_model(path)
