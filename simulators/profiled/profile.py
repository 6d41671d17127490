"""A folder with the layer profile of one model on one card: `dense.csv`, `attention.csv`, `per_sequence.csv`.

Columns: `layer, tokens, time_us`; `prefill_chunk, kv_prefill, n_decode, kv_decode, time_us` (one prompt chunk beside
`n_decode` decoding sequences of context `kv_decode`); `layer, sequences, time_us`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.errors import Fault, InputError, did_you_mean
from simulators.profiled.table import GridTable

MAX_ROWS = 1_000_000
"""Rows of one table; more is no layer profile."""
ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")


@dataclass(frozen=True, eq=False)
class LayerProfile:
    """Measured times in microseconds.

    Attributes:
        dense: time of each token-parallel layer by tokens in the iteration.
        per_sequence: time of each layer that runs once per emitting sequence.
        prefill: attention of one chunk alone: (chunk, tokens before it).
        decode: attention of decoding sequences alone: (sequences, context of each).
        mixed: both in one launch: (chunk, tokens before it, sequences, context); None if not measured.
    """

    dense: Mapping[str, GridTable]
    per_sequence: Mapping[str, GridTable]
    prefill: GridTable
    decode: GridTable
    mixed: GridTable | None


def read_profile(folder: Path) -> LayerProfile:
    """Read a profile.

    Raises:
        InputError: a missing file or column, or a value that is no finite non-negative number, with its line.
    """
    attention = {tuple(row[:-1]): row[-1] for _, row in _rows(folder / "attention.csv", None, (*ATTENTION, "time_us"))}
    prefill: dict[tuple[float, ...], float] = {
        (c, before): time for (c, before, n, _), time in attention.items() if c and not n
    }
    decode: dict[tuple[float, ...], float] = {
        (n, context): time for (c, _, n, context), time in attention.items() if n and not c
    }
    mixed = {point: time for point, time in attention.items() if point[0] and point[2]}
    if not prefill or not decode:
        what = "a prompt chunk alone" if not prefill else "decoding sequences alone"
        raise InputError(Fault(f"no row measures {what}", str(folder / "attention.csv")))
    return LayerProfile(
        _by_layer(folder / "dense.csv", "tokens"),
        _by_layer(folder / "per_sequence.csv", "sequences"),
        GridTable.of(prefill),
        GridTable.of(decode),
        GridTable.of(mixed) if mixed else None,
    )


def _by_layer(path: Path, axis: str) -> dict[str, GridTable]:
    points: dict[str, dict[tuple[float, ...], float]] = {}
    for layer, (size, time) in _rows(path, "layer", (axis, "time_us")):
        points.setdefault(layer, {})[(size,)] = time
    return {layer: GridTable.of(measured) for layer, measured in points.items()}


def _rows(path: Path, label: str | None, columns: tuple[str, ...]) -> Iterator[tuple[str, list[float]]]:
    """The label and the numbers of every row."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            known = reader.fieldnames or []
            for column in (*columns, *([label] if label else [])):
                if column not in known:
                    raise InputError(Fault(f"no column {column!r}{did_you_mean(column, known)}", str(path), 1))
            for number, row in enumerate(reader, 2):
                if number > MAX_ROWS:
                    raise InputError(Fault(f"more than {MAX_ROWS} rows", str(path), number))
                yield (row[label] if label else ""), [_number(row[column], path, number, column) for column in columns]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from error


def _number(text: str | None, path: Path, line: int, column: str) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0.0:
        raise InputError(Fault(f"must be a finite number of at least 0, not {text!r}", str(path), line, path=column))
    return value
