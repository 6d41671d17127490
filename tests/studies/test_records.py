"""Records as Parquet: every request and iteration once, in chunks, whole files or none, little memory."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hydra_dse.errors import InputError
from hydra_dse.records import IterationBlock, IterationRecord, Visit
from hydra_dse.studies.records import ParquetRecords

REFUSED = Visit(1, 1, 7, 3, 0.5, math.nan, math.nan, math.nan, 0)
SERVED = Visit(0, 0, 5, 2, 0.0, 0.25, 0.5, 0.75, 1, 0.625, 4)
BLOCK = IterationBlock("decode", 1, np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.6, 0.7]), 4, 100, 4)


def written(folder: Path, chunk_rows: int = 2) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    with ParquetRecords(folder, ["chat", "batch"], {"seed": 3}, chunk_rows) as sink:
        sink.visit(SERVED)
        sink.iteration(IterationRecord("prefill", 0, 0.25, 0.25, 5, 0, 0))
        sink.iteration_block(BLOCK)
        sink.visit(REFUSED)
    visits, iterations = (pq.read_table(folder / f"{name}.parquet") for name in ("visits", "iterations"))
    return visits.to_pylist(), iterations.to_pylist()


def test_every_date_of_a_visit_is_a_column_and_what_never_came_is_missing(tmp_path: Path) -> None:
    visits, _ = written(tmp_path / "new")
    assert visits[0] == {
        "request": 0, "class": "chat", "prompt_tokens": 5, "output_tokens": 2, "cached_tokens": 4, "preemptions": 1,
        "arrival_s": 0.0, "scheduled_s": 0.25, "first_token_s": 0.5, "decode_s": 0.625, "last_token_s": 0.75,
    }  # fmt: skip
    assert visits[1]["class"] == "batch"
    assert visits[1]["arrival_s"] == 0.5
    assert visits[1]["scheduled_s"] is visits[1]["decode_s"] is visits[1]["last_token_s"] is None


def test_a_block_of_steps_is_a_row_per_step(tmp_path: Path) -> None:
    _, iterations = written(tmp_path)
    assert [(row["pool"], row["engine"], row["start_s"], row["duration_s"]) for row in iterations] == [
        ("prefill", 0, 0.25, 0.25), ("decode", 1, 1.0, 0.5), ("decode", 1, 2.0, 0.6), ("decode", 1, 3.0, 0.7),
    ]  # fmt: skip
    assert [row["decode_context_tokens"] for row in iterations] == [0, 100, 104, 108]
    assert [row["decode_context_tokens"] for row in iterations[1:]] == [
        record.decode_context_tokens for record in BLOCK.records()
    ]


def test_rows_are_the_same_whatever_the_size_of_a_chunk(tmp_path: Path) -> None:
    assert written(tmp_path / "small", 1) == written(tmp_path / "large", 1000)


def test_files_say_what_they_are_of(tmp_path: Path) -> None:
    written(tmp_path)
    metadata = pq.read_schema(tmp_path / "visits.parquet").metadata
    assert json.loads(metadata[b"hydra_dse"]) == {"seed": 3}


def test_a_run_without_a_visit_leaves_neither_files_nor_the_folder_it_made(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for name in ("new", "old"):
        with ParquetRecords(tmp_path / name, ["chat"], {}):
            pass
    assert [path.name for path in tmp_path.rglob("*")] == ["old"]


def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="stop"), ParquetRecords(tmp_path, ["chat"], {}) as sink:
        sink.visit(SERVED)
        raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []


def test_records_are_never_written_over(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(InputError, match="holds records already"):
        ParquetRecords(tmp_path, ["chat"], {})
