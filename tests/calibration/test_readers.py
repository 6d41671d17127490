"""Published tables are read by their columns; what is wrong in them is named with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from hydra_dse.calibration.measurements import read_measurements
from hydra_dse.calibration.readers import profile_path, read_profile
from hydra_dse.errors import InputError

GEMM_HEAD = "kernel_source,gemm_dtype,m,n,k,latency_ms\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_gemm_table_is_read_per_format_in_seconds(tmp_path: Path) -> None:
    text = GEMM_HEAD + "a,bfloat16,1,1024,2048,0.005\nb,fp8,16,1024,2048,0.004\nc,int7,1,1,1,1\n"
    half, eighth = read_profile(written(tmp_path, "gemm_h100_sxm.csv", text))
    assert (half.key, eighth.key) == ("gemm-bf16", "gemm-fp8")
    assert half.response.tolist() == [5e-6]
    assert eighth.columns["bytes"].tolist() == [1.0]
    assert half.chip.name == "h100"
    assert half.chip.processors == 132


def test_a_file_that_names_no_chip_asks_for_one(tmp_path: Path) -> None:
    path = written(tmp_path, "gemm.csv", GEMM_HEAD + "a,bfloat16,1,1024,2048,0.005\n")
    with pytest.raises(InputError, match="--chip"):
        read_profile(path)
    assert read_profile(path, "a100")[0].chip.name == "a100"


def test_an_unknown_chip_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    path = written(tmp_path, "gemm.csv", GEMM_HEAD + "a,bfloat16,1,1024,2048,0.005\n")
    with pytest.raises(InputError, match="h100"):
        read_profile(path, "h1000")


def test_a_cell_that_is_no_number_is_named_with_line_and_column(tmp_path: Path) -> None:
    path = written(tmp_path, "gemm_h100.csv", GEMM_HEAD + "a,bfloat16,1,1024,2048,0.005\na,bfloat16,x,1,1,1\n")
    with pytest.raises(InputError) as caught:
        read_profile(path)
    [fault] = caught.value.faults
    assert (fault.line, fault.path) == (3, "m")
    assert "'x'" in fault.message


def test_columns_of_no_known_format_name_what_the_nearest_lacks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="latency_ms"):
        read_profile(written(tmp_path, "h100.csv", "gemm_dtype,m,n,k\nbfloat16,1,1,1\n"))


@pytest.mark.parametrize("text", ["", "a,b\n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match="no rows"):
        read_profile(written(tmp_path, "h100.csv", text))


def test_decode_and_prefill_rows_of_attention_are_told_apart(tmp_path: Path) -> None:
    head = "batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype,step,window_size,latency_ms\n"
    text = head + "2,512,32,8,128,bfloat16,0,0,0.1\n4,1,32,8,128,bfloat16,1023,0,0.02\n4,1,32,8,64,bfloat16,7,0,0.02\n"
    prefill, decode = read_profile(written(tmp_path, "attention_b200.csv", text))
    assert prefill.columns["length"].tolist() == [512.0]
    assert decode.columns["context"].tolist() == [1024.0]


def test_failed_serving_rows_are_left_out_and_an_unknown_model_is_named(tmp_path: Path) -> None:
    head = "model,rdu_count,input_tokens,output_tokens,batch_size,end_to_end_latency_s\n"
    text = head + "meta-llama/Meta-Llama-3-8B,8,128,128,1,0.2\nmeta-llama/Meta-Llama-3-8B,8,128,128,2,\n"
    [table] = read_profile(written(tmp_path, "serving.csv", text))
    assert len(table) == 1
    assert table.columns["kv_bytes"].tolist() == [131_072.0]
    with pytest.raises(InputError, match="gpt-9"):
        read_profile(written(tmp_path, "other.csv", head + "x/gpt-9,8,128,128,1,0.2\n"))


def test_shipped_tables_are_found_by_name_and_others_refused(tmp_path: Path) -> None:
    assert profile_path("sn40l").is_file()
    with pytest.raises(InputError, match="sn40l"):
        profile_path("sn40")
    assert profile_path(str(written(tmp_path, "x.csv", "a\n1\n"))).name == "x.csv"


TABLE = """tables:
  - form: state-update
    chip: h100
    unit: us
    columns: [batch, heads]
    constants: {width: 128, state: 128}
    source: made up
    rows:
      - [1, 32, 5.0]
"""


def test_our_own_tables_are_read_with_their_constants(tmp_path: Path) -> None:
    [table] = read_measurements(written(tmp_path, "own.yaml", TABLE))
    assert table.response == pytest.approx([5e-6])
    assert table.columns["state"].tolist() == [128.0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("form: state-update", "form: state-updat", "state-update"),
        ("[1, 32, 5.0]", "[1, 32]", "2 columns"),
        ("[1, 32, 5.0]", "[1, 32, -5.0]", "positive"),
        (", state: 128", "", "also needs state"),
        ("chip: h100", "chip: h101", "h100"),
        ("unit: us", "unit: hours", "unit"),
    ],
)
def test_a_fault_in_our_own_table_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_measurements(written(tmp_path, "own.yaml", TABLE.replace(old, new)))


@pytest.mark.parametrize("name", ["meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3-8B", "org/llama-3-8b-hf"])
def test_editions_of_a_model_have_its_shape(tmp_path: Path, name: str) -> None:
    head = "model,rdu_count,input_tokens,output_tokens,batch_size,end_to_end_latency_s\n"
    (rows,) = read_profile(written(tmp_path, "sn40l.csv", head + f"{name},8,128,128,1,0.2\n"), "sn40l")
    assert rows.columns["kv_bytes"][0] == 2 * 2 * 1024 * 32  # keys and values in 16 bits of 8 heads of 128
