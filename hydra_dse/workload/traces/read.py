"""One door to all trace formats."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

from hydra_dse.errors import Fault, InputError, did_you_mean, one_of
from hydra_dse.workload.lengths import Empirical
from hydra_dse.workload.traces.jsonl import DIALECTS, read_jsonl
from hydra_dse.workload.traces.record import MAX_LINE, MAX_ROWS, Columns, Trace, opened
from hydra_dse.workload.traces.servegen import read_servegen
from hydra_dse.workload.traces.tables import TABLES, TIME_UNITS, read_table

FORMATS = (*TABLES, *DIALECTS, "servegen")


def sniff(path: Path) -> str:
    """The format of a trace: a key of `FORMATS`.

    Raises:
        InputError: unreadable, empty, or none of the known formats.
    """
    if path.is_dir():
        return "servegen"
    with opened(path) as stream:
        first = stream.readline(MAX_LINE)
        while first and not first.strip():
            first = stream.readline(MAX_LINE)
    if not first.strip():
        raise InputError(Fault("is empty; expected a header line and rows", str(path), 1))
    if first.lstrip().startswith("{"):
        return _dialect(path, first)
    names = {name.strip() for name in next(csv.reader([first]), [])}
    for kind, columns in TABLES.items():
        if {columns.prompt, columns.output} <= names:
            return kind
    raise InputError(Fault(_not_a_table(first, names), str(path), 1))


def _not_a_table(first: str, names: set[str]) -> str:
    """What is wrong with a header line that is of no table we know: its separator, a column, or all of it."""
    tables = {kind: [each for each in (t.arrival, t.prompt, t.output) if each] for kind, t in TABLES.items()}
    if all(_is_number(name) for name in names):
        return f"has no header line; expected the names of the columns, e.g. {','.join(tables['csv'])}"
    for mark, word in ((";", "semicolons"), ("\t", "tabs")):
        if mark in first and len(names) == 1:
            return f"has fields separated by {word}; expected commas, e.g. {','.join(tables['csv'])}"
    kind = max(tables, key=lambda each: len(names & set(tables[each])))
    missing = [name for name in tables[kind] if name not in names]
    if len(missing) < len(tables[kind]):
        others = names - set(tables[kind])
        lacks = ", ".join(f"{name!r}{did_you_mean(name, others)}" for name in missing)
        return f"lacks {lacks}; a table of format {kind} has {', '.join(tables[kind])}; or name yours under columns"
    known = "; ".join(f"{each}: {', '.join(columns)}" for each, columns in tables.items())
    return f"has unknown columns {', '.join(sorted(names))[:200]}; known: {known}; or name them under columns"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _dialect(path: Path, first: str) -> str:
    try:
        row = json.loads(first)
    except (ValueError, RecursionError) as error:
        reason = getattr(error, "msg", str(error))
        raise InputError(Fault(f"is not a JSON object ({reason}); the file may be truncated", str(path), 1)) from None
    return "bailian" if isinstance(row, dict) and ("chat_id" in row or "parent_chat_id" in row) else "mooncake"


def read_trace(
    path: str | Path, *, kind: str | None = None, columns: Columns | None = None, limit: int = MAX_ROWS
) -> Trace:
    """Read a trace, at most `limit` rows of it.

    Args:
        path: a file, or a folder of ServeGen clients.
        kind: a key of `FORMATS`; None recognises it.
        columns: names of the columns of a plain CSV.
        limit: rows to read.

    Raises:
        InputError: with file and line of every fault.
    """
    path = Path(path)
    if kind is not None and kind not in FORMATS:
        raise InputError(Fault(f"unknown format {kind!r}{did_you_mean(kind, FORMATS)}; expected {one_of(FORMATS)}"))
    if not 1 <= limit <= MAX_ROWS:
        raise InputError(Fault(f"the limit of rows must be from 1 to {MAX_ROWS}, got {limit}", str(path)))
    if columns is not None:
        if columns.time_unit not in (*TIME_UNITS, "datetime"):
            units = one_of([*TIME_UNITS, "datetime"])
            raise InputError(Fault(f"unknown time unit {columns.time_unit!r}; expected {units}", str(path)))
        return read_table(path, "csv", columns, limit)
    kind = kind or sniff(path)
    if kind == "servegen":
        return read_servegen(path, limit)
    if kind in DIALECTS:
        return read_jsonl(path, kind, limit)
    return read_table(path, kind, TABLES[kind], limit)


def read_lengths(path: str | Path, *, columns: Columns | None = None, limit: int = MAX_ROWS) -> Empirical:
    """The prompt and output lengths of a trace or table, without its arrivals.

    Raises:
        InputError: with file and line of every fault.
    """
    path = Path(path)
    kind = "csv" if columns is not None else sniff(path)
    if kind in TABLES:
        trace = read_table(path, kind, replace(columns or TABLES[kind], arrival=None), limit)
    else:
        trace = read_trace(path, kind=kind, limit=limit)
    return Empirical(trace.requests.prompt_tokens, trace.requests.output_tokens)
