"""Records of a run as Parquet files, written in chunks while it runs.

`visits.parquet` has a row per request with every date of its visit, `iterations.parquet` one per engine iteration.
Rows wait in columns of plain numbers until a chunk is full, so memory does not grow with the run.  Both files are
written under a temporary name and renamed when the run has ended: what lies there is whole.
"""

from __future__ import annotations

import contextlib
import json
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from hydra_dse.errors import Fault, InputError
from hydra_dse.records import IterationBlock, IterationRecord, Visit
from hydra_dse.studies.files import writing

CHUNK_ROWS = 1 << 15
VISITS, ITERATIONS = "visits.parquet", "iterations.parquet"
NUMBERS = {"d": pa.float64(), "i": pa.int32(), "q": pa.int64()}

VISIT_COLUMNS = {
    "request": "i",
    "class": "i",
    "prompt_tokens": "i",
    "output_tokens": "i",
    "cached_tokens": "i",
    "preemptions": "i",
    "arrival_s": "d",
    "scheduled_s": "d",
    "first_token_s": "d",
    "decode_s": "d",
    "last_token_s": "d",
}
ITERATION_COLUMNS = {
    "pool": "i",
    "engine": "i",
    "start_s": "d",
    "duration_s": "d",
    "prefill_tokens": "i",
    "decode_sequences": "i",
    "decode_context_tokens": "q",
}


class _Table:
    """One Parquet file: columns that fill up, and a row group for each time they are full."""

    def __init__(self, path: Path, columns: Mapping[str, str], names: Mapping[str, list[str]], about: bytes) -> None:
        self._path, self._kinds, self._names = path, dict(columns), names
        self.columns: list[array[Any]] = [array(kind) for kind in columns.values()]
        fields = [
            pa.field(name, pa.dictionary(pa.int32(), pa.string()) if name in names else NUMBERS[kind])
            for name, kind in columns.items()
        ]
        self._schema = pa.schema(fields, metadata={b"hydra_dse": about})
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._written = 0
        with writing(path):
            self._writer = pq.ParquetWriter(
                self._temporary, self._schema, compression="zstd", use_dictionary=list(names)
            )

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._written + len(self.columns[0])

    def flush(self, least: int = 1) -> None:
        """Write what waits, if it is at least so many rows."""
        if len(self.columns[0]) < least:
            return
        self._written += len(self.columns[0])
        arrays = []
        for name, column in zip(self._kinds, self.columns, strict=True):
            values = _numbers(column)
            arrays.append(
                pa.DictionaryArray.from_arrays(values, _texts(self._names[name])) if name in self._names else values
            )
        with writing(self._path):
            self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self.columns[:] = [array(kind) for kind in self._kinds.values()]

    def close(self, whole: bool) -> None:
        """Finish the file; one that is not whole is removed."""
        with writing(self._path):
            if whole:
                self.flush()
            self._writer.close()
            if whole:
                self._temporary.replace(self._path)
            else:
                self._temporary.unlink(missing_ok=True)


def _numbers(column: array[Any]) -> pa.Array:
    """A column as it lies in memory; dates that never came (NaN) are missing.

    (`pyarrow.array` would import pandas, which takes longer and more memory than the rest of a short run.)
    """
    buffer, rows = pa.py_buffer(column), len(column)
    known = ~np.isnan(np.frombuffer(column)) if column.typecode == "d" else np.ones(0, dtype=bool)
    valid = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(NUMBERS[column.typecode], rows, [valid, buffer])


def _texts(names: Sequence[str]) -> pa.Array:
    """Names as an array of text."""
    encoded = [name.encode() for name in names]
    ends = np.cumsum([0, *(len(text) for text in encoded)]).astype(np.int32)
    return pa.StringArray.from_buffers(len(names), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


class ParquetRecords:
    """A `RecordSink` that writes to a folder; used as a context manager.

    Args:
        folder: made if it does not exist; it must not hold records yet.
        classes: names of the request classes.
        about: what the files say about themselves (JSON in their metadata, under `hydra_dse`).

    Raises:
        InputError: the folder holds records, or cannot be written to.
    """

    def __init__(
        self, folder: Path, classes: Sequence[str], about: Mapping[str, object], chunk_rows: int = CHUNK_ROWS
    ) -> None:
        for name in (VISITS, ITERATIONS):
            if (folder / name).exists():
                raise InputError(Fault("holds records already; name another folder or remove it", file=str(folder)))
        self._folder, self._made = folder, not folder.exists()
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        self._chunk = chunk_rows
        self._pools: list[str] = ["serve", "prefill", "decode"]
        text = json.dumps(dict(about), sort_keys=True, default=str).encode()
        self._visits = _Table(folder / VISITS, VISIT_COLUMNS, {"class": list(classes)}, text)
        self._iterations = _Table(folder / ITERATIONS, ITERATION_COLUMNS, {"pool": self._pools}, text)

    def __enter__(self) -> ParquetRecords:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        whole = kind is None and self._visits.rows > 0  # a design that cannot serve has no records
        self._visits.close(whole)
        self._iterations.close(whole)
        if not whole and self._made:
            with contextlib.suppress(OSError):  # somebody else's files may lie there by now
                self._folder.rmdir()

    def visit(self, record: Visit) -> None:
        """Take a finished visit."""
        row = (
            record.request,
            record.class_index,
            record.prompt_tokens,
            record.output_tokens,
            record.cached_tokens,
            record.preemptions,
            record.arrival_s,
            record.scheduled_s,
            record.first_token_s,
            record.decode_s,
            record.last_token_s,
        )
        for column, value in zip(self._visits.columns, row, strict=True):
            column.append(value)
        self._visits.flush(self._chunk)

    def iteration(self, record: IterationRecord) -> None:
        """Take an iteration."""
        row = (self._pools.index(record.pool), *record[1:])
        for column, value in zip(self._iterations.columns, row, strict=True):
            column.append(value)
        self._iterations.flush(self._chunk)

    def iteration_block(self, block: IterationBlock) -> None:
        """Take consecutive decode steps."""
        steps = len(block.start_s)
        pool, engine, start, duration, prefill, decode, context = self._iterations.columns
        for column, value in (
            (pool, self._pools.index(block.pool)),
            (engine, block.engine),
            (prefill, 0),
            (decode, block.decode_sequences),
        ):
            column.extend([value] * steps)
        start.frombytes(block.start_s.tobytes())
        duration.frombytes(block.duration_s.tobytes())
        context.frombytes(block.contexts.tobytes())
        self._iterations.flush(self._chunk)
