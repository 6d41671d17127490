"""YAML files: values, places, traps and bounds."""

import json

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.config import loader
from hydra_dse.config.dump import to_yaml
from hydra_dse.config.loader import load_yaml, parse_yaml
from hydra_dse.errors import InputError


def faults(text):
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "f.yaml")
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e9", 1e9),
        ("1.5e-3", 0.0015),
        (".5", 0.5),
        ("12", 12),
        ("-7", -7),
        ("010", 10),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("no", "no"),
        ("y", "y"),
        ("12:30", "12:30"),
        ("2023-11-16", "2023-11-16"),
        ("1_000", "1_000"),
        ("'12'", "12"),
        ('"true"', "true"),
        ("512 GB/s", "512 GB/s"),
        ("!!str 12", "12"),
        ("[1, a, 2.0]", [1, "a", 2.0]),
        ("{b: 1}", {"b": 1}),
        (".inf", float("inf")),
    ],
)
def test_a_scalar_has_the_value_of_yaml_1_2(text, value):
    data = parse_yaml(f"a: {text}").data["a"]
    assert data == value
    assert type(data) is type(value)


def test_a_number_with_very_many_digits_stays_text():
    assert parse_yaml(f"a: {'9' * 5000}").data["a"] == "9" * 5000


def test_keys_named_on_and_no_stay_text():
    assert parse_yaml("on: 1\nno: 2\n3: x").data == {"on": 1, "no": 2, "3": "x"}


def test_every_key_knows_its_line_and_column():
    document = parse_yaml("a:\n  b: [1, {c: 2}]\n  d: x\n")
    assert document.keys[("a", "b")] == (2, 3)
    assert document.values[("a", "b", 1, "c")] == (2, 14)
    assert document.values[("a", "d")] == (3, 6)


def test_equal_keys_are_faults_that_name_the_first():
    assert faults("a: 1\nb: 2\na: 3\n") == ["f.yaml:3:1: a: duplicate key 'a' (first at line 1, column 1)"]


def test_all_equal_keys_are_reported_at_once():
    assert len(faults("a: {x: 1, x: 2}\nb: {y: 1, y: 2}\n")) == 2


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", "f.yaml:1:1", "is empty"),
        ("# only a comment\n", "f.yaml:1:1", "is empty"),
        ("- a\n", "f.yaml:1:1", "expected a mapping of keys at the top level, got a list"),
        ("just text", "f.yaml:1:1", "expected a mapping"),
        ("a: [1, 2\nb: 3\n", "f.yaml:2:2", "not valid YAML"),
        ("a: {b: 1", "f.yaml:2:1", "the file ends too early"),
        ("a:\n\t- b\n", "f.yaml:2:1", "not valid YAML"),
        ("a: 'x\n", "f.yaml:2:1", "not valid YAML"),
        ("a: \x07\n", "f.yaml:1:4", "not valid YAML"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1", "more than one YAML document"),
        ("a: !!python/object:os.system {}\n", "f.yaml:1:4", "is not supported"),
        ("a: !secret x\n", "f.yaml:1:4", "is not supported"),
        ("a: &x [*x]\n", "f.yaml:1:8", "alias *x"),
        ("a: *y\n", "f.yaml:1:4", "alias *y"),
        ("<<: {a: 1}\n", "f.yaml:1:1", "merge keys are not supported"),
        ("? [a]\n: b\n", "f.yaml:1:3", "a key must be text"),
        ("a: 1\n b: 2\n", "f.yaml:2:3", "not valid YAML"),
    ],
)
def test_a_trap_ends_with_a_fault_at_its_place(text, place, words):
    first = faults(text)[0]
    assert first.startswith(place + ":"), first
    assert words in first


@pytest.mark.parametrize("text", ["a:\n  b: 1\n\tc: 2\n", "a:\n\t- b\n"])
def test_tabs_are_named_as_the_reason(text):
    assert "spaces, not tabs" in faults(text)[0]


def test_aliases_expand_to_equal_data_with_their_own_places():
    document = parse_yaml("a: &x {k: 1}\nb: *x\n")
    assert document.data == {"a": {"k": 1}, "b": {"k": 1}}
    assert document.values[("b",)] == (2, 4)


@pytest.mark.slow
def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 8)]
    assert "expands to more than" in faults("\n".join(lines))[0]


def test_deep_nesting_is_refused():
    deep = "a: " + "[" * 80 + "]" * 80
    assert "nest" in faults(deep)[0]
    assert "nest" in faults("a: " + "[" * 100_000)[0]


def test_deep_nesting_through_aliases_is_refused():
    lines = ["a0: &a0 [[[[[[[[[[1]]]]]]]]]]"]
    lines += [f"a{i}: &a{i} [[[[[[[[[[*a{i - 1}]]]]]]]]]]" for i in range(1, 9)]
    assert "levels" in faults("\n".join(lines))[0]


def test_too_many_values_are_refused(monkeypatch):
    monkeypatch.setattr("hydra_dse.config.composer.MAX_NODES", 100)
    assert "more than 100 values" in faults("a: [" + "1, " * 200 + "1]")[0]


def test_a_file_is_read_with_its_name_and_folder(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\n")
    document = load_yaml(path)
    assert document.data == {"a": 1}
    assert document.file == str(path)
    assert document.folder == tmp_path


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert load_yaml(path).data == {"a": 1}


@pytest.mark.parametrize(
    ("content", "place", "words"),
    [
        (b"a: 1\nb: \xff\xfe\n", ":2:4", "is not UTF-8 text"),
        (b"\x00\x01\x02", "", "not valid YAML"),
    ],
)
def test_a_file_that_is_no_text_is_refused(tmp_path, content, place, words):
    path = tmp_path / "x.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_yaml(path)
    assert str(caught.value).startswith(f"{path}{place}")
    assert words in str(caught.value)


def test_a_missing_file_a_folder_and_a_null_byte_are_named(tmp_path):
    for path, words in (
        (tmp_path / "none.yaml", "no such file"),
        (tmp_path, "is a folder"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(InputError, match=words):
            load_yaml(path)


def test_a_file_above_the_size_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loader, "MAX_BYTES", 10)
    path = tmp_path / "x.yaml"
    path.write_text("a: " + "x" * 20)
    with pytest.raises(InputError, match="is larger than"):
        load_yaml(path)


def test_json_is_read_as_it_is_written():
    data = {"a": [1, 2.5, None, True, "x: y"], "b": {"c": "é", "d": ""}}
    assert parse_yaml(json.dumps(data, indent=2)).data == data


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | st.text(max_size=12) | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(alphabet="abcdeé_-", min_size=1, max_size=6), PLAIN, min_size=1, max_size=5))
def test_what_is_stored_as_yaml_reads_back_the_same(data):
    if "<<" in str(data):
        return  # a merge key, which the loader refuses
    read = parse_yaml(to_yaml(data)).data
    assert repr(read) == repr(data)  # 1 is neither 1.0 nor True


@pytest.mark.parametrize(
    "text", ["08", "007", "1e9", "1_000", "0o7", "yes", "null", "~", "1:30", ".5", "2024-01-02", "="]
)
def test_text_that_looks_like_a_number_stays_text_when_it_is_stored(text):
    assert parse_yaml(to_yaml({"name": text})).data == {"name": text}
    assert yaml.safe_load(to_yaml({"name": text})) == {"name": text}


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 20))
def test_a_mutated_file_gives_data_or_an_input_error(junk, position, removed):
    text = b"name: x\narrivals: {process: poisson, rate: 2 req/s}\nlengths: &a {prompt: 10, output: [1, 2]}\nb: *a\n"
    mutated = (text[:position] + junk + text[position + removed :]).decode("utf-8", errors="replace")
    try:
        assert isinstance(parse_yaml(mutated).data, dict)
    except InputError as error:
        assert error.faults
