"""Trace readers: values of each format, and every wrong row with its file and line."""

import gzip
import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hydra_dse.errors import InputError
from hydra_dse.workload.traces.read import read_lengths, read_trace, sniff
from hydra_dse.workload.traces.record import Columns

AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
    "2023-11-16 23:59:59.9799600,4808,10\r\n"
    "2023-11-17 00:00:00.0319600,3180,8\r\n"
    "2023-11-17 00:00:01.0000000,110,27\r\n"
)
AZURE_2024 = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    "2024-05-10 00:00:00.009930+00:00,2162,5\n"
    "2024-05-10 00:00:01.509930+00:00,2399,6\n"
)
BURST = (
    "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    "5,a,1.0,ChatGPT,472,18,490,Conversation log\n"
    "45,b,1.0,ChatGPT,1087,0,1087,API log\n"
    "118,c,2.0,GPT-4,417,276,693,API log\n"
)
MOONCAKE = (
    '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1, 2]}\n'
    '{"timestamp": 3000, "input_length": 7319, "output_length": 490, "hash_ids": [0, 14]}\n'
)
BAILIAN = (
    '{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.114, "input_length": 521, "output_length": 132, '
    '"type": "text", "turn": 1, "hash_ids": [7, 8]}\n'
    '{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.0, "input_length": 30, "output_length": 1, '
    '"type": "text", "turn": 2, "hash_ids": [7]}\n'
)


@pytest.fixture
def write(tmp_path):
    def _write(text, name="trace.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return _write


def faults(path, **options):
    with pytest.raises(InputError) as caught:
        read_trace(path, **options)
    return [str(fault).removeprefix(f"{path}") for fault in caught.value.faults]


def test_azure_times_cross_midnight_with_100_ns_resolution(write):
    trace = read_trace(write(AZURE))
    assert trace.format == "azure"
    assert trace.requests.arrival_s.tolist() == pytest.approx([0.0, 0.052, 1.02004], abs=1e-7)
    assert trace.requests.prompt_tokens.tolist() == [4808, 3180, 110]
    assert trace.requests.output_tokens.tolist() == [10, 8, 27]


def test_azure_2024_times_carry_a_zone(write):
    assert read_trace(write(AZURE_2024)).requests.arrival_s.tolist() == pytest.approx([0.0, 1.5])


def test_zones_move_times_to_one_clock(write):
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 02:00:00+02:00,1,1\n2024-05-10 00:00:01Z,1,1\n"
    assert read_trace(write(text)).requests.arrival_s.tolist() == [0.0, 1.0]


def test_failed_requests_of_burstgpt_are_left_out_and_counted(write):
    trace = read_trace(write(BURST))
    assert (trace.format, trace.skipped) == ("burstgpt", 1)
    assert trace.requests.arrival_s.tolist() == [0.0, 113.0]
    assert trace.requests.output_tokens.tolist() == [18, 276]


def test_burstgpt_without_session_columns_is_recognised(write):
    text = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,API log\n"
    assert read_trace(write(text)).format == "burstgpt"


def test_mooncake_times_are_milliseconds_and_blocks_are_kept(write):
    trace = read_trace(write(MOONCAKE, "trace.jsonl"))
    assert (trace.format, trace.block_tokens) == ("mooncake", 512)
    assert trace.requests.arrival_s.tolist() == [0.0, 3.0]
    assert trace.requests.blocks == ((0, 1, 2), (0, 14))


def test_bailian_times_are_seconds_and_blocks_have_16_tokens(write):
    trace = read_trace(write(BAILIAN, "trace.jsonl"))
    assert (trace.format, trace.block_tokens) == ("bailian", 16)
    assert trace.requests.arrival_s.tolist() == pytest.approx([0.0, 0.886])


def test_a_plain_csv_is_read_by_the_names_of_its_columns(write):
    path = write("t,in,out,other\n1500,10,20,x\n2500,30,40,y\n")
    trace = read_trace(path, columns=Columns("in", "out", "t", "ms"))
    assert trace.requests.arrival_s.tolist() == [0.0, 1.0]
    assert trace.requests.prompt_tokens.tolist() == [10, 30]


def test_our_own_column_names_need_no_mapping(write):
    assert read_trace(write("arrival_s,prompt_tokens,output_tokens\n0,1,2\n0.5,3,4\n")).format == "csv"


def test_lengths_are_read_from_a_table_without_arrivals(write):
    lengths = read_lengths(write("num_prefill_tokens,num_decode_tokens\n3516,2083\n3956,2135\n"))
    assert lengths.prompt_tokens.tolist() == [3516, 3956]


def test_lengths_are_read_from_an_unsorted_trace(write):
    path = write("arrival_s,prompt_tokens,output_tokens\n5,1,2\n0.5,3,4\n")
    assert read_lengths(path).output_tokens.tolist() == [2, 4]


def test_a_compressed_trace_is_read(write):
    assert len(read_trace(write(gzip.compress(AZURE.encode()), "trace.csv.gz")).requests) == 3


def test_blank_lines_and_a_byte_order_mark_are_no_rows(write):
    text = b"\xef\xbb\xbf\narrival_s,prompt_tokens,output_tokens\n\n0,1,2\n\n1,3,4\n\n"
    assert len(read_trace(write(text)).requests) == 2


def test_the_limit_stops_the_reading_and_is_told(write):
    trace = read_trace(write(AZURE), limit=2)
    assert len(trace.requests) == 2
    assert not trace.complete
    assert read_trace(write(AZURE), limit=3).complete
    assert not read_trace(write(MOONCAKE, "m.jsonl"), limit=1).complete
    assert read_trace(write(MOONCAKE, "m.jsonl"), limit=2).complete


def test_a_fault_beyond_the_limit_is_not_reached(write):
    assert len(read_trace(write(AZURE + "broken\n"), limit=2).requests) == 2


HEAD = "arrival_s,prompt_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (HEAD + "0,1,1\nnan,1,1\n", ":3: arrival_s: 'nan' is not a time; expected a finite number"),
        (HEAD + "0,1,1\n-1,1,1\n", ":3: arrival_s: '-1' is not a time"),
        (HEAD + "inf,1,1\n", ":2: arrival_s: 'inf' is not a time"),
        (HEAD + "x,1,1\n", ":2: arrival_s: 'x' is not a time; expected a number"),
        (HEAD + "0,nan,1\n", ":2: prompt_tokens: 'nan' is not a token count; expected a whole number from 1"),
        (HEAD + "0,-5,1\n", ":2: prompt_tokens: '-5' is not a token count"),
        (HEAD + "0,0,1\n", ":2: prompt_tokens: '0' is not a token count"),
        (HEAD + "0,1.5,1\n", ":2: prompt_tokens: '1.5' is not a token count"),
        (HEAD + "0,,1\n", ":2: prompt_tokens: '' is not a token count"),
        (HEAD + "0,1,0\n", ":2: output_tokens: '0' is not a token count"),
        (HEAD + "0,1,1e300\n", ":2: output_tokens: '1e300' is not a token count"),
        (HEAD + "5,1,1\n4.5,1,1\n", ":3: arrives 0.5 s before the row above it; sort by arrival"),
        (HEAD + "0,1,1\n1,1\n", ":3: has 2 of 3 fields; the file may be truncated"),
        (HEAD + "0,1,1,9\n", ":2: has 4 of 3 fields"),
        (HEAD, ": holds no requests; expected at least one row"),
        ("", ":1: is empty; expected a header line and rows"),
        ("a,b,c\n1,2,3\n", ":1: has unknown columns a, b, c; known: azure"),
        (
            "arrival,prompt_tokens,output_tokens\n0,1,1\n",
            ":1: arrival_s: has no column 'arrival_s' (did you mean 'arrival'",
        ),
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n",
            ":2: TIMESTAMP: 'yesterday' is not a date and time",
        ),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-40 00:00:00,1,1\n", ":2: TIMESTAMP: '2023-13-40 00:00:00'"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 25:00:00,1,1\n", ":2: TIMESTAMP: '2023-11-16 25:00:00'"),
        (
            BURST[: BURST.index("118")].replace("472,18", "472,0"),
            ": holds no requests (2 failed requests were left out)",
        ),
    ],
)
def test_a_wrong_row_of_a_table_is_refused_with_its_line(write, text, expected):
    assert faults(write(text))[0].startswith(expected), faults(write(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MOONCAKE + '{"timestamp": 4', ":3: is not a JSON object"),
        (MOONCAKE + "[1]\n", ":3: is not a JSON object; expected timestamp"),
        (MOONCAKE + '{"timestamp": 4000}\n', ":3: has no input_length, output_length"),
        (MOONCAKE.replace("3000", "NaN"), ":2: timestamp: nan is not a time"),
        (MOONCAKE.replace("3000", "-1"), ":2: timestamp: -1 is not a time"),
        (MOONCAKE.replace("3000", "null"), ":2: timestamp: None is not a time"),
        (MOONCAKE.replace("7319", "0"), ":2: input_length: 0 is not a token count"),
        (MOONCAKE.replace("490", "true"), ":2: output_length: True is not a token count"),
        (MOONCAKE.replace("[0, 14]", "[0, -1]"), ":2: hash_ids: expected a list of block numbers"),
        (MOONCAKE.replace("[0, 14]", '"x"'), ":2: hash_ids: expected a list of block numbers"),
        (MOONCAKE.replace('"timestamp": 0', '"timestamp": 9000'), ":2: arrives 6 s before the row above it"),
        ("{" + "[" * 100_000 + "\n", ":1: is not a JSON object"),
        ("{broken\n", ":1: is not a JSON object"),
    ],
)
def test_a_wrong_row_of_a_jsonl_trace_is_refused_with_its_line(write, text, expected):
    path = write(text, "trace.jsonl")
    assert faults(path)[0].startswith(expected), faults(path)


def test_all_wrong_rows_are_reported_up_to_ten(write):
    assert len(faults(write(HEAD + "0,0,1\n0,1,0\n"))) == 2
    many = faults(write(HEAD + "0,0,1\n" * 50))
    assert len(many) == 11
    assert many[-1].endswith("stopped after 10 faults")


def test_a_truncated_archive_is_refused(write):
    packed = gzip.compress((HEAD + "0,1,1\n" * 5000).encode())
    assert "truncated gzip archive" in faults(write(packed[: len(packed) // 2], "t.csv.gz"))[0]


def test_a_missing_file_a_folder_and_bytes_that_are_no_text_are_refused(write, tmp_path):
    assert "no such file" in faults(tmp_path / "none.csv")[0]
    assert "chunk-" in faults(tmp_path)[0]
    assert "is not UTF-8 text" in faults(write(b"arrival_s,prompt_tokens,output_tokens\n\xff,1,1\n"))[0]


def test_an_unknown_format_and_time_unit_are_refused_with_the_known_ones(write):
    path = write(AZURE)
    assert "did you mean 'azure'" in "".join(faults(path, kind="azur"))
    assert "expected 's', 'ms', 'us' or 'datetime'" in faults(path, columns=Columns("a", "b", "c", "min"))[0]
    assert "limit of rows" in faults(path, limit=0)[0]


# ServeGen ----------------------------------------------------------------------------------------------------------


def servegen(folder, rows="0,2.0,1.0,Gamma,1.0,0.5\n600,0,0,,0,0\n1200,4.0,2.0,Weibull,0.6,0.2\n", tables=None):
    folder.mkdir(exist_ok=True)
    (folder / "chunk-0-trace.csv").write_text(rows)
    tables = tables or {"0": {"input_tokens": "{100: 0.5, 200: 0.5}", "output_tokens": {"10": 0.25, "20": 0.75}}}
    (folder / "chunk-0-dataset.json").write_text(json.dumps(tables))
    return folder


def test_servegen_clients_arrive_at_the_rates_of_their_windows(tmp_path):
    requests = read_trace(servegen(tmp_path / "s")).requests
    first, second, third = ((requests.arrival_s // 600 == window).sum() for window in range(3))
    # 600 s at 2/s with gamma shape 1 (Poisson); 600 s at 4/s with Weibull shape 0.6 (CV 1.76).
    assert first == pytest.approx(1200, abs=4 * np.sqrt(1200))
    assert second <= 1  # the first arrival stands at 0, so the windows begin a little early
    assert third == pytest.approx(2400, abs=4 * 1.76 * np.sqrt(2400))


def test_servegen_lengths_follow_their_tables(tmp_path):
    requests = read_trace(servegen(tmp_path / "s")).requests
    assert set(requests.prompt_tokens.tolist()) == {100, 200}
    share = (requests.output_tokens == 20).mean()
    assert share == pytest.approx(0.75, abs=4 * np.sqrt(0.75 * 0.25 / len(requests)))


def test_servegen_is_the_same_every_time(tmp_path):
    first, second = (read_trace(servegen(tmp_path / "s"), limit=500).requests for _ in range(2))
    assert (first.arrival_s == second.arrival_s).all()
    assert len(first) == 500


@pytest.mark.parametrize(
    ("rows", "tables", "words"),
    [
        ("", None, ":1: is empty"),
        ("0,2.0\n", None, ":1: has 2 of 6 fields"),
        ("0,nan,1,Gamma,1,1\n", None, ":1: rate: 'nan' is not a time"),
        ("0,2,1,Normal,1,1\n", None, "expected Gamma or Weibull"),
        ("0,2,1,Gamma,0,1\n", None, "expected Gamma or Weibull with a shape"),
        ("600,2,1,Gamma,1,1\n0,2,1,Gamma,1,1\n", None, ":2: window starts at 0 s, not after"),
        ("0,2,1,Gamma,1,1\n", {"0": {"input_tokens": "{0: 1.0}", "output_tokens": "{1: 1.0}"}}, "0.input_tokens"),
        ("0,2,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: nan}", "output_tokens": "{1: 1.0}"}}, "expected a table"),
        ("0,2,1,Gamma,1,1\n", {"0": {"input_tokens": "{1: 1.0}"}}, "0.output_tokens"),
        ("0,2,1,Gamma,1,1\n", {"x": {}}, "window"),
    ],
)
def test_a_wrong_servegen_file_is_refused(tmp_path, rows, tables, words):
    with pytest.raises(InputError) as caught:
        read_trace(servegen(tmp_path / "s", rows, tables))
    assert words in str(caught.value)


def test_servegen_json_that_is_truncated_is_refused_with_its_line(tmp_path):
    folder = servegen(tmp_path / "s")
    (folder / "chunk-0-dataset.json").write_text('{"0": {\n"input_tokens"')
    with pytest.raises(InputError, match=r"chunk-0-dataset\.json:2"):
        read_trace(folder)


# Properties --------------------------------------------------------------------------------------------------------

ROWS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 10**6), st.integers(1, 10**5)), min_size=1, max_size=30)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_written_azure_rows_read_back(tmp_path, rows):
    rows = sorted(rows)
    start = datetime(2023, 11, 16)
    lines = [f"{start + timedelta(microseconds=time):%Y-%m-%d %H:%M:%S.%f}0,{p},{o}" for time, p, o in rows]
    path = tmp_path / "t.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(lines))
    requests = read_trace(path).requests
    assert requests.prompt_tokens.tolist() == [row[1] for row in rows]
    assert requests.output_tokens.tolist() == [row[2] for row in rows]
    assert requests.arrival_s.tolist() == pytest.approx([(row[0] - rows[0][0]) / 1e6 for row in rows], abs=2e-7)


@pytest.mark.slow
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([AZURE, BURST, MOONCAKE, BAILIAN]), st.binary(max_size=12), st.integers(0, 400), st.integers(0, 30)
)
def test_a_mutated_trace_gives_sound_requests_or_an_input_error(tmp_path, text, junk, position, removed):
    raw = text.encode()
    path = tmp_path / "t.csv"
    path.write_bytes(raw[:position] + junk + raw[position + removed :])
    try:
        requests = read_trace(path).requests
    except InputError as error:
        assert all(fault.file for fault in error.faults)
        return
    assert len(requests) > 0
    assert (np.diff(requests.arrival_s) >= 0).all()
    assert np.isfinite(requests.arrival_s).all()
    assert min(requests.prompt_tokens.min(), requests.output_tokens.min()) >= 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=80))
def test_any_bytes_are_recognised_or_refused(tmp_path, junk):
    path = tmp_path / "t"
    path.write_bytes(junk)
    try:
        read_trace(path)
    except InputError as error:
        assert error.faults


def test_sniffing_reads_the_first_line_alone(write):
    assert sniff(write(AZURE + "broken\n" * 5)) == "azure"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (
            "1,100000000,5",
            "prompt_tokens: '100000000' is not a token count; expected a whole number from 1 to 10000000",
        ),
        ("1,5,10000001", "output_tokens: '10000001' is not a token count"),
        ("1e308,5,5", "arrival_s: '1e308' is too late; expected a time of at most 1e+12 s"),
    ],
)
def test_a_value_beyond_what_can_be_computed_with_is_refused_at_its_line(tmp_path, row, says):
    path = tmp_path / "t.csv"
    path.write_text(f"arrival_s,prompt_tokens,output_tokens\n0,5,5\n{row}\n")
    with pytest.raises(InputError) as caught:
        read_trace(path)
    assert str(caught.value).startswith(f"{path}:3: {says}")
