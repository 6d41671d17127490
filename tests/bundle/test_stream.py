"""Events of a trace in pieces: the same as `json.loads` of the whole, whatever the pieces and the spacing."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.bundle.reading import EventStream
from hydra_dse.errors import InputError

NASTY = [
    {"ph": "X", "name": '},{"ph": "M"}', "args": {"a": [{"b": 1}, {"c": "}, {"}], "d": {}}},
    {"name": 'quote " and \\ and } ,', "ts": 1.5e15, "cat": "µs ✓"},
    {"args": [{"x": {"y": [{}, {}]}}, {"z": 1}]},
    17,
    "text, with {braces}, {",
    None,
    [],
    {},
]


def read(text: str, folder: Path, chunk: int = 500_000) -> tuple[list[Any], EventStream]:
    file = folder / "trace.json"
    file.write_text(text, encoding="utf-8")
    stream = EventStream(file, chunk)
    return [event for piece in stream for event in piece], stream


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000, 500_000])
@pytest.mark.parametrize("spacing", [{"separators": (",", ":")}, {}, {"indent": 2}])
def test_events_come_whole_whatever_the_pieces(chunk: int, spacing: dict[str, Any], tmp_path: Path) -> None:
    trace = {
        "schemaVersion": 1,
        "a": [{"x": 1}, {"y": 2}],
        "traceEvents": NASTY * 3,
        "z": [{"k": 1}, {"l": "}"}],
        "n": 12,
    }
    events, stream = read(json.dumps(trace, **spacing), tmp_path, chunk)
    assert events == trace.pop("traceEvents")
    assert stream.header == trace
    assert stream.truncated is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet='{}[],:"\\ a\n✓', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(JSON, max_size=12), st.integers(1, 60), st.sampled_from([None, 1]), st.booleans())
def test_any_list_of_values_is_read_as_json_reads_it(
    tmp_path_factory: pytest.TempPathFactory, events: list[Any], chunk: int, indent: int | None, bare: bool
) -> None:
    text = json.dumps(events if bare else {"traceEvents": events, "end": 1}, indent=indent)
    found, stream = read(text, tmp_path_factory.mktemp("x"), chunk)
    assert found == events
    assert stream.is_object is not bare


def test_a_gzipped_trace_is_read_by_its_content(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(gzip.compress(json.dumps({"traceEvents": NASTY}).encode()))
    assert [event for piece in EventStream(file) for event in piece] == NASTY


WHOLE = json.dumps({"traceEvents": [{"ph": "X", "ts": number, "name": "a}{"} for number in range(30)], "end": {}})


@pytest.mark.parametrize("cut", range(1, len(WHOLE) - 1, 13))
def test_a_trace_cut_anywhere_gives_its_whole_events_and_says_so(cut: int, tmp_path: Path) -> None:
    events, stream = read(WHOLE[:cut], tmp_path, 100)
    assert [event["ts"] for event in events] == list(range(len(events)))
    assert len(events) >= WHOLE[:cut].count("}{") - 1
    assert stream.truncated is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nothing",
        "17",
        '{"traceEvents": [{"a": }]}',
        '{"traceEvents": [1 2]}',
        "{traceEvents: []}",
        '{"a" 1}',
        "[tru]",
    ],
)
def test_what_is_no_json_is_one_message(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trace\.json"):
        read(text, tmp_path)


def test_nesting_without_end_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nested too deeply"):
        read('{"traceEvents": [' + "[" * 200_000, tmp_path)


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet='{}[],:"\\ tae0123', max_size=60), st.integers(1, 40))
def test_no_text_is_more_than_a_message(tmp_path_factory: pytest.TempPathFactory, text: str, chunk: int) -> None:
    try:
        read('{"traceEvents": [' + text, tmp_path_factory.mktemp("x"), chunk)
    except InputError as error:
        assert error.faults


@pytest.mark.parametrize("name", ["nowhere.json", "."])
def test_a_file_that_is_none_is_one_message(name: str) -> None:
    with pytest.raises(InputError, match=r"no such file|not a regular file"):
        list(EventStream(name))


def test_broken_compression_is_one_message(tmp_path: Path) -> None:
    file = tmp_path / "t.json.gz"
    file.write_bytes(gzip.compress(WHOLE.encode() * 50)[:100])
    with pytest.raises(InputError, match="cannot be read"):
        list(EventStream(file))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak(events: int) -> int:
        event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "args": {"x": [1, 2]}})
        file = tmp_path / f"{events}.json"
        file.write_text('{"traceEvents": [' + ",\n".join([event] * events) + "]}")
        tracemalloc.start()
        count = sum(map(len, EventStream(file, 50_000)))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert count == events
        return most

    assert peak(20_000) < 1.1 * peak(4_000) < 2_000_000
