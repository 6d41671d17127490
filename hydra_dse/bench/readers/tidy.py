"""Our own format: tidy CSV or Parquet.

One row for a profile, one for each of its units and memory levels, joined by the column `profile`.  Counts of
resources are text such as `pe=8788;pmu=12`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from hydra_dse.bench.readers.nouns import Reader
from hydra_dse.bench.readers.table import Row, rows_of
from hydra_dse.bench.record import KINDS, MemoryLevel, ModelShape, Profile, Unit
from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.results.parquet import read_table

_NESTED = ("units", "memory", "model")
_OWN = tuple(part.name for part in fields(Profile) if part.name not in _NESTED)
_SHAPE = tuple(part.name for part in fields(ModelShape))
_UNIT = tuple(part.name for part in fields(Unit))
_MEMORY = tuple(part.name for part in fields(MemoryLevel))
RECORDS = ("profile", "unit", "memory")
COLUMNS = tuple(
    dict.fromkeys(
        ("record", "profile", *_OWN, *(f"model_{name}" for name in _SHAPE), *(f"unit_{name}" for name in _UNIT),
         *(f"memory_{name}" for name in _MEMORY))
    )
)  # fmt: skip
_TEXTS = {
    "name", "platform", "mode", "phase", "kind", "precision", "parallelism", "configuration", "rate_unit",
    "time_unit", "basis", "failure", "source", "section",
}  # fmt: skip
_WHOLES = {
    "chips", "sequence", "output_tokens", "micro_batches", "replicas", "sections", "line", "stage", "layers",
    "hidden", "heads", "kv_width", "ffn", "matrices", "vocabulary",
}  # fmt: skip
_COUNTS = {"resources", "totals", "allocation"}


def write_profiles(profiles: Sequence[Profile], path: Path) -> None:
    """Write profiles as tidy CSV, or Parquet where the path ends so; columns without a value are left out."""
    rows = [row for number, profile in enumerate(profiles) for row in _rows_of_profile(number, profile)]
    used = {name for row in rows for name, text in row.items() if text} | {"record", "profile", "platform"}
    columns = [name for name in COLUMNS if name in used]
    if path.suffix == ".parquet":
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        schema = pa.schema([(name, pa.string()) for name in columns])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    path.write_text(text.getvalue(), encoding="utf-8")


def _rows_of_profile(number: int, profile: Profile) -> Iterator[dict[str, str]]:
    key = {"profile": str(number)}
    own = {name: _text(getattr(profile, name)) for name in _OWN}
    shape = {f"model_{name}": _text(getattr(profile.model, name)) for name in _SHAPE}
    yield {"record": "profile", **key, **own, **shape}
    for unit in profile.units:
        yield {"record": "unit", **key, **{f"unit_{name}": _text(getattr(unit, name)) for name in _UNIT}}
    for level in profile.memory:
        yield {"record": "memory", **key, **{f"memory_{name}": _text(getattr(level, name)) for name in _MEMORY}}


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return ";".join(f"{name}={count!r}" for name, count in value.items())
    if isinstance(value, tuple):
        return " ".join(str(part) for part in value)
    return repr(value) if isinstance(value, float) else str(value)


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow as pa

    try:
        rows = read_table(path.read_bytes()).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise InputError(Fault(f"is not a Parquet file that can be read: {error}", str(path))) from None
    for number, cells in enumerate(rows, 1):
        yield Row(str(path), number, {name: "" if text is None else str(text) for name, text in cells.items()})


def _profiles(rows: Iterable[Row]) -> Iterator[Profile]:
    """Group rows by profile; a profile's row precedes those of its parts."""
    held: dict[str, Any] | None = None
    for row in rows:
        record = row.text("record")
        if record not in RECORDS:
            message = f"record must be {one_of(RECORDS)}, got {record!r}{did_you_mean(record, RECORDS)}"
            raise InputError(Fault(message, row.file, row.line))
        if record == "profile":
            if held is not None:
                yield _finished(held)
            held = {"key": row.text("profile"), "row": row, "unit": [], "memory": []}
        elif held is None or held["key"] != row.text("profile"):
            raise InputError(Fault(f"{record} of a profile {row.text('profile')!r} not begun", row.file, row.line))
        else:
            held[record].append(row)
    if held is not None:
        yield _finished(held)


def _finished(held: dict[str, Any]) -> Profile:
    row: Row = held["row"]
    own = _values(row, _OWN, "")
    if own.get("kind", "measured") not in KINDS:
        raise InputError(Fault(f"kind must be {one_of(KINDS)}, got {own['kind']!r}", row.file, row.line))
    if not own.get("platform"):
        raise InputError(Fault("needs a platform", row.file, row.line))
    return Profile(
        **{"name": "", **own},
        model=ModelShape(**_values(row, _SHAPE, "model_")),
        units=tuple(Unit(**{"name": "", **_values(part, _UNIT, "unit_")}) for part in held["unit"]),
        memory=tuple(
            MemoryLevel(**{"name": "", "on_chip": False, **_values(part, _MEMORY, "memory_")})
            for part in held["memory"]
        ),
    )


def _values(row: Row, names: Sequence[str], prefix: str) -> dict[str, Any]:
    found = {name: _value(row, name, prefix + name) for name in names if row.cells.get(prefix + name, "").strip()}
    return {name: value for name, value in found.items() if value is not None}


def _value(row: Row, name: str, column: str) -> Any:
    if name in _TEXTS:
        return row.text(column)
    if name == "on_chip":
        return row.text(column) == "True"
    if name == "layout":
        return row.wholes(column)
    if name in _COUNTS:
        return _counts(row, column)
    return row.whole(column) if name in _WHOLES else row.number(column)


def _counts(row: Row, column: str) -> dict[str, float]:
    found = {}
    for part in row.text(column).split(";"):
        name, _, count = part.partition("=")
        try:
            found[name] = float(count)
        except ValueError:
            message = f"{column} must be name=count;…, got {part!r}"
            raise InputError(Fault(message, row.file, row.line)) from None
    return found


READERS = (
    Reader("tidy profiles (CSV)", lambda head: {"record", "profile", "platform"} <= head.columns,
           lambda path: _profiles(rows_of(path))),
    Reader("tidy profiles (Parquet)", lambda head: head.start.startswith(b"PAR1"),
           lambda path: _profiles(_parquet_rows(path))),
)  # fmt: skip
