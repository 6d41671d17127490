"""A folder with the layer profile of one model on one card: `dense.csv`, `attention.csv`, `per_sequence.csv`.

Columns: `layer, tokens, time_us`; `prefill_chunk, kv_prefill, n_decode, kv_decode, time_us` (one prompt chunk beside
`n_decode` decoding sequences of context `kv_decode`); `layer, sequences, time_us`.  In place of `kv_prefill` there may
be `prefill_key`, the mean of the keys that the tokens of the chunk read: `kv_prefill + prefill_chunk / 2`.  Of a model
with experts `moe.csv` has `tokens, activated_experts, time_us` of a whole mixture (format of LLMServingSim's profiler).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.errors import Fault, InputError, did_you_mean
from simulators.profiled.table import GridTable, RaggedTable

MAX_ROWS = 1_000_000
"""Rows of one table; more is no layer profile."""
ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
KEYS = "prefill_key"
UNREAD = ("linear_attention.csv", "moe_components.json")
"""Parts of a profile without which an iteration would come out too short."""


@dataclass(frozen=True, eq=False)
class LayerProfile:
    """Measured times in microseconds.

    Attributes:
        dense: time of each token-parallel layer by tokens in the iteration.
        per_sequence: time of each layer that runs once per emitting sequence.
        prefill: attention of one chunk alone: (chunk, tokens before it).
        decode: attention of decoding sequences alone: (sequences, context of each).
        mixed: both in one launch: (chunk, tokens before it, sequences, context); None if not measured.
        experts: a mixture of experts: (tokens, distinct experts that they use); None without experts.
    """

    dense: Mapping[str, GridTable]
    per_sequence: Mapping[str, GridTable]
    prefill: GridTable
    decode: GridTable
    mixed: GridTable | None
    experts: RaggedTable | None = None


def read_profile(folder: Path) -> LayerProfile:
    """Read a profile.

    Raises:
        InputError: a missing file or column, or a value that is no finite non-negative number, with its line; a table
            that is not understood.
    """
    for name in UNREAD:
        if (folder / name).exists():
            raise InputError(Fault("is not read, and without it a replay is too fast", str(folder / name)))
    attention = _attention(folder / "attention.csv")
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
        GridTable.of(prefill, str(folder / "attention.csv")),
        GridTable.of(decode, str(folder / "attention.csv")),
        GridTable.of(mixed, str(folder / "attention.csv")) if mixed else None,
        _experts(folder / "moe.csv"),
    )


def _attention(path: Path) -> dict[tuple[float, ...], float]:
    """Times by (chunk, tokens before it, decoding sequences, their context), of one token a decode step."""
    known = _header(path)
    by_keys, drafts, kinds = KEYS in known, "decode_q_len" in known, "layer" in known
    columns = [KEYS if by_keys and column == "kv_prefill" else column for column in ATTENTION]
    columns += ["time_us", *(["decode_q_len"] if drafts else [])]
    times: dict[tuple[float, ...], float] = {}
    layers: set[str] = set()
    for layer, (chunk, before, sequences, context, time, *positions) in _rows(
        path, "layer" if kinds else None, columns
    ):
        layers.add(layer)
        if len(layers) > 1:
            raise InputError(Fault("holds attention layers of several kinds, which is not read", str(path)))
        if sequences and positions and positions[0] != 1.0:
            continue
        times[(chunk, before - chunk / 2 if by_keys else before, sequences, context)] = time
    return times


def _experts(path: Path) -> RaggedTable | None:
    if not path.is_file():
        return None
    several = "ep" in _header(path)
    points: dict[float, dict[float, float]] = {}
    for _, (tokens, experts, time, *degree) in _rows(
        path, None, ["tokens", "activated_experts", "time_us", *(["ep"] if several else [])]
    ):
        if not degree or degree[0] == 1.0:
            points.setdefault(tokens, {})[experts] = time
    if not points:
        raise InputError(Fault("no row measures all experts on one card (ep = 1)", str(path)))
    return RaggedTable.of(points)


def _header(path: Path) -> tuple[str, ...]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return tuple(csv.DictReader(file).fieldnames or ())
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Fault(f"cannot be read: {error}", str(path))) from error


def _by_layer(path: Path, axis: str) -> dict[str, GridTable]:
    points: dict[str, dict[tuple[float, ...], float]] = {}
    for layer, (size, time) in _rows(path, "layer", (axis, "time_us")):
        points.setdefault(layer, {})[(size,)] = time
    return {layer: GridTable.of(measured) for layer, measured in points.items()}


def _rows(path: Path, label: str | None, columns: Sequence[str]) -> Iterator[tuple[str, list[float]]]:
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
