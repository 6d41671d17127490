"""Parquet files read on the thread that asks.

Arrow reads on a pool of threads otherwise, which may still run when the process ends: it then aborts, or hangs, after
all work is done (apache/arrow issues 34314 and 50482).  Our tables are small, so threads would gain nothing.
"""

from __future__ import annotations

from typing import Any


def read_table(data: bytes) -> Any:
    """Return a Parquet file as a `pyarrow.Table` (untyped); raises what pyarrow raises where it is none."""
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
