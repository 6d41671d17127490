"""ServeGen's per-client description of traffic, sampled into a trace (arXiv 2505.09999).

A folder holds, for each client i, `chunk-i-trace.csv` (without a header: window start in s, rate in req/s, CV,
family `Gamma` or `Weibull` or empty, shape, scale) and `chunk-i-dataset.json` (window start → tables of
probability by token count).  Gaps inside a window are drawn from the client's family, scaled to its rate.
"""

from __future__ import annotations

import ast
import csv
import json
import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from hydra_dse.errors import Fault, InputError
from hydra_dse.rng import derive
from hydra_dse.workload.marginals import MAX_TOKENS
from hydra_dse.workload.nouns import FloatArray, IntArray
from hydra_dse.workload.traces.record import Recorder, Trace, opened

MAX_CLIENTS = 10_000
LAST_WINDOW_S = 600.0
FAMILIES = ("Gamma", "Weibull")


@dataclass(frozen=True)
class Window:
    """A stretch of a client's traffic; `rate_per_s` 0 means silence."""

    start_s: float
    rate_per_s: float
    family: str
    shape: float


@dataclass(frozen=True)
class Table:
    """Token counts and their probabilities."""

    tokens: IntArray
    probability: FloatArray


def read_servegen(folder: Path, limit: int, seed: int = 0) -> Trace:
    """Sample the traffic of all clients of a folder from the start until `limit` requests have arrived.

    Raises:
        InputError: no clients, or a fault in one of their files.
    """
    traces = sorted(folder.glob("chunk-*-trace.csv"), key=lambda path: (len(path.name), path.name))
    clients = [(path, path.with_name(path.name.replace("-trace.csv", "-dataset.json"))) for path in traces]
    clients = [(trace, dataset) for trace, dataset in clients if dataset.is_file()][:MAX_CLIENTS]
    if not clients:
        raise InputError(
            Fault("is a folder without a ServeGen trace (chunk-*-trace.csv with its chunk-*-dataset.json)", str(folder))
        )
    parts = [_client(trace, dataset, limit, derive(seed, "servegen", trace.name)) for trace, dataset in clients]
    # Every client was cut at `limit` arrivals: beyond the earliest cut the merged traffic would thin out.
    end = min((times[-1] for times, _, _ in parts if len(times) >= limit), default=math.inf)
    times, prompts, outputs = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(times, kind="stable")
    order = order[times[order] <= end]
    recorder = Recorder(str(folder), limit)
    for index in order[:limit].tolist():
        recorder.add(0, float(times[index]), int(prompts[index]), int(outputs[index]))
    return recorder.finish("servegen", complete=len(order) <= limit and end == math.inf)


def _client(trace: Path, dataset: Path, limit: int, rng: np.random.Generator) -> tuple[FloatArray, IntArray, IntArray]:
    tables = _tables(dataset)
    starts = sorted(tables)
    times, prompts, outputs, total = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    windows = _windows(trace)
    ends = [window.start_s for window in windows[1:]] + [windows[-1].start_s + _width(windows)]
    for window, end in zip(windows, ends, strict=True):
        if total >= limit:
            break
        arrivals = _arrivals(window, end, rng)[: limit - total]
        if len(arrivals):
            prompt, output = tables[_nearest(starts, window.start_s)]
            times.append(arrivals)
            prompts.append(rng.choice(prompt.tokens, size=len(arrivals), p=prompt.probability))
            outputs.append(rng.choice(output.tokens, size=len(arrivals), p=output.probability))
            total += len(arrivals)
    return np.concatenate(times), np.concatenate(prompts), np.concatenate(outputs)


def _width(windows: list[Window]) -> float:
    gaps = [b.start_s - a.start_s for a, b in pairwise(windows)]
    return min(gaps) if gaps else LAST_WINDOW_S


def _arrivals(window: Window, end_s: float, rng: np.random.Generator) -> FloatArray:
    """Renewal arrivals of the window's family at its rate."""
    span = end_s - window.start_s
    if window.rate_per_s == 0:
        return np.zeros(0)
    at, pieces = 0.0, []
    while at < span:
        size = int(window.rate_per_s * (span - at) * 1.2) + 16
        if window.family == "Gamma":
            gaps = rng.gamma(window.shape, 1 / window.shape, size)
        else:
            gaps = rng.weibull(window.shape, size) / math.gamma(1 + 1 / window.shape)
        pieces.append(at + np.cumsum(gaps / window.rate_per_s))
        at = float(pieces[-1][-1])
    times = np.concatenate(pieces)
    return np.asarray(window.start_s + times[times < span])


def _nearest(starts: list[float], time_s: float) -> float:
    before = [start for start in starts if start <= time_s]
    return before[-1] if before else starts[0]


def _windows(path: Path) -> list[Window]:
    recorder = Recorder(str(path))
    windows: list[Window] = []
    with opened(path) as stream:
        for line, row in enumerate(csv.reader(stream), 1):
            if row:
                window = _window(recorder, line, row)
                if window is not None and windows and window.start_s <= windows[-1].start_s:
                    recorder.fault(line, f"window starts at {row[0]} s, not after the one above it")
                elif window is not None:
                    windows.append(window)
    if not windows and not recorder.faults:
        recorder.fault(1, "is empty; expected one window a line")
    if recorder.faults:
        raise InputError(recorder.faults)
    return windows


def _window(recorder: Recorder, line: int, row: list[str]) -> Window | None:
    if len(row) < 5:
        recorder.fault(line, f"has {len(row)} of 6 fields; the file may be truncated")
        return None
    start, rate = recorder.time(line, row[0], "start", 1.0), recorder.time(line, row[1], "rate", 1.0)
    shape = recorder.time(line, row[4], "shape", 1.0)
    if start is None or rate is None or shape is None:
        return None
    if rate > 0 and (row[3] not in FAMILIES or not 0.01 <= shape <= 1e4):
        recorder.fault(line, f"expected Gamma or Weibull with a shape from 0.01 to 10000, got {row[3]!r}, {row[4]}")
        return None
    return Window(start, rate, row[3], shape)


def _tables(path: Path) -> dict[float, tuple[Table, Table]]:
    with opened(path) as stream:
        try:
            data: Any = json.load(stream)
        except (ValueError, RecursionError) as error:
            place = (getattr(error, "lineno", None), getattr(error, "colno", None))
            raise InputError(Fault(f"is not JSON: {getattr(error, 'msg', error)}", str(path), *place)) from None
    if not isinstance(data, dict) or not data:
        raise InputError(Fault("expected windows with tables of token probabilities", str(path)))
    tables = {}
    for key, fields in data.items():
        recorder = Recorder(str(path))
        start = recorder.time(1, key, "window", 1.0)
        if start is None or not isinstance(fields, dict):
            raise InputError(Fault(f"window {key!r}: expected a start in s and tables", str(path)))
        names = ("input_tokens", "output_tokens")
        tables[start] = tuple(_table(str(path), f"{key}.{name}", fields.get(name)) for name in names)
    return tables  # type: ignore[return-value]


def _table(path: str, where: str, raw: object) -> Table:
    """A table given as a mapping or as the text of one."""
    try:
        mapping = ast.literal_eval(raw) if isinstance(raw, str) else raw
        tokens = [int(float(key)) for key in mapping]  # type: ignore[union-attr]
        chances = [float(value) for value in mapping.values()]  # type: ignore[union-attr]
    except (ValueError, SyntaxError, TypeError, AttributeError, RecursionError, MemoryError, OverflowError):
        raise InputError(Fault("expected a table of probability by token count", path, path=where)) from None
    good = tokens and all(1 <= count <= MAX_TOKENS for count in tokens)
    if not good or not all(math.isfinite(chance) and chance >= 0 for chance in chances) or sum(chances) <= 0:
        message = f"expected token counts from 1 to {MAX_TOKENS} with probabilities of 0 or more"
        raise InputError(Fault(message, path, path=where))
    return Table(np.array(tokens, dtype=np.int64), np.array(chances) / sum(chances))
