"""An Nsight Systems SQLite export as columns, one trace a device.

Tables (CCL-Bench `trace_fields_needed.csv`): `StringIds(id, value)`, `CUPTI_ACTIVITY_KIND_KERNEL(start, end, shortName,
demangledName, deviceId, streamId, gridX…Z)`, `CUPTI_ACTIVITY_KIND_MEMCPY(start, end, bytes[, deviceId])`,
`TARGET_INFO_CUDA_DEVICE(gpuId, numMultiprocessors)`; times in ns.  Columns that are missing are missing inputs, not
faults.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hydra_dse.bundle.reading.meaning import collective_kind
from hydra_dse.bundle.reading.nouns import COLLECTIVES, ENGINE_COPY, Collectives, Names, RankTrace, Spans
from hydra_dse.errors import Fault, InputError

KERNELS, COPIES, DEVICES = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "TARGET_INFO_CUDA_DEVICE"
UNKNOWN_DEVICE = -1


def read_nsys(path: str | Path) -> list[RankTrace]:
    """Read an export, read-only; copies whose device is not said form a trace without kernels at the end.

    Raises:
        InputError: not an SQLite file, or no table of kernels.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError(Fault("no such file", str(path)))
    try:
        connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            return _Export(connection, str(path)).traces()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise InputError(Fault(f"is not an Nsight Systems SQLite export: {error}", str(path))) from None


class _Export:
    def __init__(self, connection: sqlite3.Connection, file: str) -> None:
        self.connection = connection
        self.file = file
        self.names = Names()
        tables = connection.execute("select name from sqlite_master where type = 'table'")
        self.columns = {name: self._columns_of(name) for (name,) in tables.fetchall()}

    def _columns_of(self, table: str) -> set[str]:
        quoted = table.replace('"', '""')
        return {row[1] for row in self.connection.execute(f'pragma table_info("{quoted}")')}

    def traces(self) -> list[RankTrace]:
        """One trace a device, by device number."""
        if not {"start", "end"} <= self.columns.get(KERNELS, set()):
            raise InputError(Fault(f"has no table {KERNELS} with start and end", self.file))
        kernels, copies = self._table(KERNELS), self._table(COPIES)
        texts = self._strings()
        units = self._multiprocessors()
        devices = np.unique(np.concatenate([kernels["deviceId"], copies["deviceId"]])).astype(int)
        ordered = sorted(devices.tolist(), key=lambda device: (device == UNKNOWN_DEVICE, device))
        return [self._trace(device, kernels, copies, texts, units) for device in ordered]

    def _table(self, table: str) -> dict[str, NDArray[np.float64]]:
        """Columns of a table as float64, NaN where missing; of the device, −1."""
        wanted = (
            "start",
            "end",
            "shortName",
            "demangledName",
            "deviceId",
            "streamId",
            "gridX",
            "gridY",
            "gridZ",
            "bytes",
        )
        there = [name for name in wanted if name in self.columns.get(table, set())]
        if not {"start", "end"} <= set(there):
            return {name: np.empty(0) for name in wanted}
        chosen = ", ".join(f'"{name}"' for name in there)
        rows = self.connection.execute(f'select {chosen} from "{table}" where start is not null and "end" is not null')
        data = np.concatenate([np.empty((0, len(there))), *_pieces(rows)])
        found = {name: data[:, index] for index, name in enumerate(there)}
        empty = np.full(len(data), math.nan)
        device = found.get("deviceId", empty)
        found["deviceId"] = np.where(np.isnan(device), UNKNOWN_DEVICE, device)
        return {name: found.get(name, empty) for name in wanted}

    def _strings(self) -> dict[int, str]:
        if not {"id", "value"} <= self.columns.get("StringIds", set()):
            return {}
        return {number: str(text) for number, text in self.connection.execute("select id, value from StringIds")}

    def _multiprocessors(self) -> dict[int, float]:
        if not {"gpuId", "numMultiprocessors"} <= self.columns.get(DEVICES, set()):
            return {}
        rows = self.connection.execute(f"select gpuId, numMultiprocessors from {DEVICES}")
        return {gpu: float(units) for gpu, units in rows if isinstance(units, (int, float)) and units > 0}

    def _trace(
        self,
        device: int,
        kernels: dict[str, NDArray[np.float64]],
        copies: dict[str, NDArray[np.float64]],
        texts: dict[int, str],
        units: dict[int, float],
    ) -> RankTrace:
        mine, copied = kernels["deviceId"] == device, copies["deviceId"] == device
        chosen = {name: column[mine] for name, column in kernels.items()}
        names = self._codes(chosen, texts)
        blocks = chosen["gridX"] * chosen["gridY"] * chosen["gridZ"] / units.get(device, math.nan)
        spans = _spans(chosen, names)
        copy_spans = _spans({name: column[copied] for name, column in copies.items()}, None)
        return RankTrace(
            label=f"device {device}" if device != UNKNOWN_DEVICE else "unknown device",
            names=self.names,
            kernels=spans,
            blocks_per_multiprocessor=blocks,
            copies=copy_spans,
            copy_bytes=copies["bytes"][copied],
            copy_kind=np.full(len(copy_spans), ENGINE_COPY),
            collectives=self._collectives(spans),
        )

    def _codes(self, chosen: dict[str, NDArray[np.float64]], texts: dict[int, str]) -> NDArray[np.int64]:
        """Codes of the kernels' names: the short one, else the demangled one."""
        found = []
        for short, long in zip(chosen["shortName"].tolist(), chosen["demangledName"].tolist(), strict=True):
            text = texts.get(short) or texts.get(long) or "Unknown"
            found.append(self.names.code(text))
        return np.array(found, dtype=int)

    def _collectives(self, spans: Spans) -> Collectives:
        kinds = [collective_kind(text, None) for text in self.names.texts]
        codes = np.array([-1 if kind is None else COLLECTIVES.index(kind) for kind in kinds], dtype=int)
        kind = codes[spans.name] if len(spans) else np.empty(0, dtype=int)
        there = kind >= 0
        unknown = np.full(int(there.sum()), math.nan)
        return Collectives(kind[there], spans.duration[there], unknown, unknown, unknown)


def _spans(columns: dict[str, NDArray[np.float64]], names: NDArray[np.int64] | None) -> Spans:
    start, stop = columns["start"] / 1e3, columns["end"] / 1e3
    codes = np.zeros(len(start), dtype=int) if names is None else names
    stream = np.nan_to_num(columns["streamId"], nan=-1).astype(int)
    return Spans(start, np.maximum(stop - start, 0.0), codes, stream)


def _pieces(rows: sqlite3.Cursor) -> Iterator[NDArray[np.float64]]:
    while piece := rows.fetchmany(100_000):
        yield np.array([[_number(value) for value in row] for row in piece])


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan
