"""Traces as CSV tables: Azure, BurstGPT, token lengths of simulators, and any table with its columns named."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import TextIO

from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.workload.traces.record import MAX_LINE, Columns, Recorder, Trace, opened

# Sources: Azure Public Dataset (2023, 2024); BurstGPT (arXiv 2401.17644); Vidur (arXiv 2405.05465).
TABLES: dict[str, Columns] = {
    "azure": Columns("ContextTokens", "GeneratedTokens", "TIMESTAMP", "datetime"),
    "burstgpt": Columns("Request tokens", "Response tokens", "Timestamp", "s", skip_failed=True),
    "vidur": Columns("num_prefill_tokens", "num_decode_tokens", "arrived_at", "s"),
    "csv": Columns("prompt_tokens", "output_tokens", "arrival_s", "s"),
}
TIME_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}

_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}):(\d{2}):(\d{2}(?:\.\d+)?)(?:Z|([+-])(\d{2}):?(\d{2}))?", re.ASCII
)


def read_table(path: Path, kind: str, columns: Columns, limit: int) -> Trace:
    """Read a CSV trace with a header line.

    Raises:
        InputError: with file, line and column of every fault (the first ten).
    """
    recorder = Recorder(str(path), limit)
    complete = True
    with opened(path) as stream:
        rows = _rows(stream, recorder)
        header = [name.strip() for name in next(rows, (0, []))[1]]
        places = _places(header, columns, recorder)
        for line, row in rows:
            if recorder.full:
                complete = False
                break
            if len(row) != len(header):
                recorder.fault(line, f"has {len(row)} of {len(header)} fields; the file may be truncated")
            else:
                _take(recorder, line, row, columns, places)
    return recorder.finish(kind, complete=complete)


def has_arrivals(path: Path) -> bool:
    """Whether a file is anything but a table of token lengths alone.

    Raises:
        InputError: the file cannot be read.
    """
    with opened(path) as stream:
        names = {name.strip() for name in next(csv.reader([stream.readline(MAX_LINE)]), [])}
    known = [columns for columns in TABLES.values() if {columns.prompt, columns.output} <= names]
    return not known or known[0].arrival in names


def _rows(stream: TextIO, recorder: Recorder) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of every row that is not blank."""
    reader = csv.reader(stream)
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            recorder.fault(reader.line_num, f"is not CSV: {error}")
            return
        if row:
            yield reader.line_num, row


def _places(header: Sequence[str], columns: Columns, recorder: Recorder) -> tuple[int, int, int | None]:
    """Positions of the prompt, output and arrival columns."""
    if not header:
        raise InputError(Fault("is empty; expected a header line and rows", recorder.path, 1))
    for name in (columns.prompt, columns.output, columns.arrival):
        if name is not None and name not in header:
            known = ", ".join(header[:12])
            message = f"has no column {name!r}{did_you_mean(name, header)}; its columns: {known}"
            recorder.fault(1, message, name)
    if recorder.faults:
        raise InputError(recorder.faults)
    arrival = header.index(columns.arrival) if columns.arrival is not None else None
    return header.index(columns.prompt), header.index(columns.output), arrival


def _take(
    recorder: Recorder, line: int, row: Sequence[str], columns: Columns, places: tuple[int, int, int | None]
) -> None:
    prompt_at, output_at, arrival_at = places
    output = recorder.tokens(line, row[output_at], columns.output, least=0 if columns.skip_failed else 1)
    if output == 0:
        recorder.skipped += 1
        return
    prompt = recorder.tokens(line, row[prompt_at], columns.prompt)
    time_s: float | None = 0.0
    if arrival_at is not None and columns.arrival is not None:
        time_s = _time(recorder, line, row[arrival_at], columns)
    if prompt is not None and output is not None and time_s is not None:
        recorder.add(line, time_s, prompt, output)


def _time(recorder: Recorder, line: int, text: str, columns: Columns) -> float | None:
    name = columns.arrival or ""
    if columns.time_unit != "datetime":
        return recorder.time(line, text, name, TIME_UNITS[columns.time_unit])
    match = _DATETIME.fullmatch(text.strip())
    day = _day(match[1]) if match else None
    if match is None or day is None or int(match[2]) > 23 or int(match[3]) > 59 or float(match[4]) >= 61:
        recorder.fault(line, f"{text!r} is not a date and time; expected e.g. 2023-11-16 18:17:03.9799600", name)
        return None
    offset = (int(match[6]) * 3600 + int(match[7]) * 60) * (-1 if match[5] == "-" else 1) if match[5] else 0
    return day + int(match[2]) * 3600 + int(match[3]) * 60 + float(match[4]) - offset


@functools.lru_cache(maxsize=64)
def _day(text: str) -> float | None:
    """Seconds from 1 January 2000 (so that 100 ns fit a float) to the start of a day."""
    try:
        return (date.fromisoformat(text) - date(2000, 1, 1)).days * 86400.0
    except ValueError:
        return None
