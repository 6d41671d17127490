"""Workload cards: every fault at its line, every dialect read, nothing lost on the way back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bundle.pieces import CARD, changed
from hydra_dse.bundle.cards import check_card, json_schema, new_card, parse_card, read_card, write_card
from hydra_dse.errors import Fault, InputError


def faults(*pairs: tuple[str, str]) -> list[Fault]:
    return parse_card(changed(*pairs), "card.yaml").faults()


def line_of(text: str, card: str = CARD) -> int:
    return next(number for number, line in enumerate(card.splitlines(), 1) if text in line)


def test_a_right_card_has_no_faults() -> None:
    assert faults() == []


@pytest.mark.parametrize(
    ("old", "new", "at", "said"),
    [
        ("tp: 2", "tp: 4", "dp_replicate", "contradictory parallelism"),
        ("[200, 2400]", "[N/A, 2400]", "bandwidth", "'N/A' is not a number"),
        ("[200, 2400]", "[200, TBD]", "bandwidth", "'TBD' is not a number"),
        ("[200, 2400]", "[600]", "bandwidth", "expected [scale-out, scale-up]"),
        ("[200, 2400]", "[200, 600]", "bandwidth", "wrong unit: 600 is the device's 4800 Gbit/s in GB/s"),
        ("[200, 2400]", "[2400, 200]", "bandwidth", "is the order reversed?"),
        ("1050673152", "16420608", "num_params_embedding", "copied from another?"),
        ("num_params_embedding: 1050673152", "num_params_embedding: 9030261248", "num_params_embedding", "not less"),
        ("phase: inference", "phase: servicing", "phase", "did you mean 'serving'?"),
        ("moe: false", "moe: true", "num_params: ", "without 'num_params_active'"),
        ("batch_size: 4", "batch_size: [1, 2, 4]", "batch_size", "several batch sizes"),
        ("batch_size: 4\n", "batch_scope: global\n", "batch_size", "MFU would assume 1"),
        ("seq_len: 128", "seq_len: 512", "seq_len", "neither input_len 128 nor input_len + output_len"),
        ("nvidia_a100", "nvidia_a1000", "model: nvidia", "did you mean 'nvidia_a100'?"),
        ("- json", "- kineto_trace", "- json", "no reader for traces of kind 'kineto_trace'"),
        ("total_count: 2", "total_count: two", "total_count", "expected a whole number"),
        ("num_layers: 32", "num_layers: 3.2e1", "num_layers", "expected a whole number"),
        ("ep: 1", "ep: 3", "ep: 1", "3 expert-parallel ways do not divide 2 devices"),
    ],
)
def test_a_fault_stands_at_its_line(old: str, new: str, at: str, said: str) -> None:
    found = [fault for fault in faults((old, new)) if said in fault.message]
    assert len(found) == 1, faults((old, new))
    assert (found[0].file, found[0].line) == ("card.yaml", line_of(at))


def test_a_card_without_model_arch_says_that_mfu_cannot_be_computed() -> None:
    start, end = CARD.index("    model_arch:"), CARD.index("  data:")
    found = parse_card(CARD[:start] + CARD[end:], "card.yaml").faults()
    assert [fault.line for fault in found] == [line_of("phase:")]
    assert "missing 'model_arch'" in found[0].message


def nested() -> str:
    """The dialect of 16 cards: the executor below the workload."""
    start, end = CARD.index("Model-executor:"), CARD.index("metric_source:")
    inner = "".join(f"  {line}\n" for line in CARD[start:end].splitlines())
    return CARD[:start] + inner + CARD[end:]


def test_an_executor_below_the_workload_is_one_fault_and_is_read() -> None:
    card = parse_card(nested(), "card.yaml")
    found = card.faults()
    assert [fault.line for fault in found] == [line_of("Model-executor", nested())]
    assert "wrong nesting" in found[0].message
    assert card.number("Model-executor", "model_plan_parallelization", "tp") == 2


def test_parameter_counts_beside_model_arch_are_read() -> None:
    flat = changed(("    model_arch:\n      num_params: 8030261248\n", "    num_params: 8030261248\n    model_arch:\n"))
    card = parse_card(flat, "card.yaml")
    assert card.number("workload", "model", "model_arch", "num_params") == 8030261248
    assert [fault.message for fault in card.faults()] == ["wrong nesting: 'num_params' belongs in 'model_arch'"]


def test_active_parameters_under_their_other_name_are_read() -> None:
    card = parse_card(changed(("      num_layers", "      num_active_params: 7000000000\n      num_layers")), "c.yaml")
    assert card.number("workload", "model", "model_arch", "num_params_active") == 7e9
    assert len(card.faults()) == 1


@pytest.mark.parametrize(
    "text", ["", "- a\n", "a: [", "a: 1\na: 2\n", "\ta: 1", "a: !!python/object:os.x {}\n", "\x00"]
)
def test_what_is_no_card_is_a_fault_with_a_place(text: str, tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(text)
    found = check_card(file)
    assert found
    assert all(fault.file == str(file) for fault in found)


def test_a_missing_file_is_a_fault() -> None:
    assert "no such file" in check_card("nowhere.yaml")[0].message


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([1, "x"]) | st.just({})
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_value_in_any_place_makes_the_checks_fail(data: st.DataObject) -> None:
    card = yaml.safe_load(CARD)
    for _ in range(data.draw(st.integers(1, 4))):
        inner = card
        while True:
            key = data.draw(st.sampled_from(sorted(inner)))
            if isinstance(inner[key], dict) and inner[key] and data.draw(st.integers(0, 3)):
                inner = inner[key]
                continue
            inner[key] = data.draw(SCALARS)
            break
    text = yaml.safe_dump(card, sort_keys=False)
    try:
        parse_card(text, "card.yaml").faults()
    except InputError as error:  # what YAML 1.1 writes and 1.2 does not take
        assert error.faults


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_no_text_is_more_than_a_fault(text: str) -> None:
    try:
        parse_card(text).faults()
    except InputError as error:
        assert error.faults


def test_an_unchanged_card_keeps_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(nested())
    write_card(read_card(tmp_path / "a.yaml"), tmp_path / "b.yaml")
    assert (tmp_path / "b.yaml").read_text() == nested()


def test_our_block_leaves_the_rest_of_a_card_alone() -> None:
    card = parse_card(CARD).with_block({"seed": 3, "command": ["hydra-dse", "simulate"]})
    assert card.text.startswith(CARD)
    again = card.with_block({"seed": 4})
    assert yaml.safe_load(again.text) == {**yaml.safe_load(CARD), "x_chiplet": {"seed": 4}}
    assert list(yaml.safe_load(again.text)) == [*yaml.safe_load(CARD), "x_chiplet"]
    assert again.faults() == []


def test_a_card_from_data_reads_the_same_in_the_original_tools() -> None:
    data = yaml.safe_load(CARD)
    card = new_card({**data, "x_chiplet": {"slo": {"ttft_s": 1e-05, "percentile": 0.9}, "simulator": "1e9"}})
    read = yaml.safe_load(card.text)
    assert {key: read[key] for key in data} == data
    assert read["x_chiplet"] == {"slo": {"ttft_s": 1e-05, "percentile": 0.9}, "simulator": "1e9"}


def test_a_card_of_wrong_types_is_not_made() -> None:
    with pytest.raises(InputError, match=r"x_chiplet\.seed: expected a whole number, got 'three'"):
        new_card({**yaml.safe_load(CARD), "x_chiplet": {"seed": "three"}})


def test_the_schema_names_what_a_card_must_have() -> None:
    schema = json_schema()
    json.dumps(schema)
    assert schema["required"] == ["version", "workload", "Model-executor", "metric_source"]
    parts = schema["$defs"]
    assert isinstance(parts, dict)
    assert parts["Model"]["properties"]["phase"]["enum"] == ["training", "inference", "serving"]
    assert parts["Model"]["required"] == ["phase", "model_family"]
    assert parts["ChipletBlock"]["additionalProperties"] is True
