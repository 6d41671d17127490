"""Cerebras: compile reports (megabytes of kernels), run logs, `performance.json`, and tables made from them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra_dse.bench.readers.nouns import Head, Layout, Reader
from hydra_dse.bench.readers.table import Row, column_key, number_in, rows_of
from hydra_dse.bench.record import Profile, Unit
from hydra_dse.errors import Fault, InputError

WAFER = "wse-2"
REGION = "patio"
"""Row of a kernel table that is no kernel: its count is that of the whole region."""

_STATED = re.compile(
    r"^\s*(Compute Samples/s|Transmission Samples/s|Samples/s|Active PEs|Compute Utilization)\s*:\s*(\S+)"
)
_FIELDS = {
    "Samples/s": "samples_per_s",
    "Compute Samples/s": "compute_rate_per_s",
    "Transmission Samples/s": "transmission_rate_per_s",
}
_COLUMNS = (
    "kernel_name",
    "samples_s",
    "compute_samples_s",
    "transmission_samples_s",
    "active_pes",
    "compute_utilization",
)


def is_child(kernel: str) -> bool:
    """Whether a row of a kernel table lies inside another one, or is a link buffer: neither adds PEs."""
    return "." in kernel


def _report(path: Path) -> Iterable[Profile]:
    """A compile report, line by line: only rows of the top level are kept."""
    stated: dict[str, Any] = {}
    units: list[Unit] = []
    totals: dict[str, float] = {}
    columns: list[str] = []
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            found = _STATED.match(line)
            if found and not columns:
                _state(stated, found[1], number_in(found[2], str(path), number, found[1]))
                continue
            if columns and _passed_over(line, len(columns), path, number):
                continue
            cells = _cells(line)
            if len(cells) < 2:
                continue
            if column_key(cells[0]) == _COLUMNS[0]:
                columns = _table_columns(cells, path, number)
            elif columns and not is_child(cells[0]):
                _kernel(Row(str(path), number, _paired(columns, cells, path, number)), units, totals)
    if not stated and not units:
        raise InputError(Fault("holds neither a rate nor a kernel", str(path)))
    base = Profile(path.name, WAFER, mode="resident", kind="estimate", source=str(path), line=1)
    yield replace(base, units=tuple(units), totals=totals, failure="" if stated or units else "no result", **stated)


def _passed_over(line: str, columns: int, path: Path, number: int) -> bool:
    """Whether a barred line is a child: most lines of a report are, so it is split no further than its name."""
    name, bar, rest = line.strip().strip("|").partition("|")
    if not bar or not is_child(name):
        return False
    if rest.count("|") != columns - 2:
        raise InputError(Fault(f"has {rest.count('|') + 2} cells, the table {columns} columns", str(path), number))
    return True


def _state(stated: dict[str, Any], name: str, value: float) -> None:
    if name in _FIELDS:
        stated[_FIELDS[name]] = value
    elif name == "Active PEs":
        stated["allocation"] = {"pe": value / 100}
    else:
        stated["utilization"] = value / 100


def _cells(line: str) -> list[str]:
    """Cells of a line of an ASCII table: between bars, or two blanks apart; rules have none."""
    text = line.strip()
    if not text or not text.strip("+-=| "):
        return []
    return [cell.strip() for cell in (text.strip("|").split("|") if "|" in text else re.split(r"\s{2,}", text))]


def _table_columns(cells: list[str], path: Path, line: int) -> list[str]:
    keys = [re.sub(r"_(pct|count)$", "", column_key(cell)) for cell in cells]
    missing = [name for name in _COLUMNS if name not in keys]
    if missing:
        raise InputError(Fault(f"the kernel table lacks {', '.join(missing)}", str(path), line))
    return keys


def _paired(columns: list[str], cells: list[str], path: Path, line: int) -> dict[str, str]:
    if len(cells) != len(columns):
        raise InputError(Fault(f"has {len(cells)} cells, the table {len(columns)} columns", str(path), line))
    return dict(zip(columns, cells, strict=True))


def _kernel(row: Row, units: list[Unit], totals: dict[str, float]) -> None:
    name, count = row.text("kernel_name", "kernel"), row.number("active_pes", "active_pes_count")
    if count is None:
        return
    if name == REGION:
        totals["pe"] = count
        return
    busy = row.number("compute_utilization", "compute_utilization_pct")
    units.append(
        Unit(
            name=name,
            resources={"pe": count},
            rate_per_s=row.number("samples_s", "samples_per_s"),
            compute_rate_per_s=row.number("compute_samples_s", "compute_samples_per_s"),
            transmission_rate_per_s=row.number("transmission_samples_s", "transmission_samples_per_s"),
            utilization=None if busy is None else busy / 100,
        )
    )


def _kernels_csv(path: Path) -> Iterable[Profile]:
    """Kernel rows of several reports in one table, in the order of the reports."""
    reports: dict[str, tuple[list[Unit], dict[str, float], int]] = {}
    for row in rows_of(path):
        units, totals, _ = reports.setdefault(row.text("report_file"), ([], {}, row.line))
        if not is_child(row.text("kernel")):
            _kernel(row, units, totals)
    for name, (units, totals, line) in reports.items():
        base = Profile(name, WAFER, mode="resident", kind="estimate", source=str(path), line=line)
        yield replace(base, units=tuple(units), totals=totals)


_STEP = re.compile(r"Step=(\d+).*?(?<!Global)Rate=\s*([\d.]+)\s*samples/sec", re.IGNORECASE)
_GLOBAL = re.compile(r"GlobalRate=\s*([\d.]+)\s*samples/sec")
_BATCH = re.compile(r"[Ee]ffective batch size is (\d+)")
_SYSTEMS = re.compile(r"Preparing to execute using (\d+) CSX")


def _log(path: Path) -> Iterable[Profile]:
    rate, batch, systems, last = None, None, 1, 1
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if found := _GLOBAL.search(line) or _STEP.search(line):
                rate, last = number_in(found[found.lastindex or 1], str(path), number, "rate"), number
            if found := _BATCH.search(line):
                batch = float(found[1])
            if found := _SYSTEMS.search(line):
                systems = int(found[1])
    failure = "" if rate is not None else "the log holds no step with a rate"
    yield Profile(path.name, WAFER, systems, "streaming", batch=batch, samples_per_s=rate, failure=failure,
                  source=str(path), line=last)  # fmt: skip


_PERFORMANCE = frozenset(
    {"compile_time", "est_samples_per_sec", "programming_time", "samples_per_sec", "total_samples", "total_time"}
)


def _is_performance(head: Head) -> bool:
    text = head.text.strip()
    if not text.startswith("{") or len(head.start) > 4096:
        return False
    try:
        data = json.loads(text)
    except ValueError:
        return '"samples_per_sec"' in text
    return isinstance(data, dict) and set(data) <= _PERFORMANCE


def _performance(path: Path) -> Iterator[Profile]:
    """One run; `{}` is a run that left no result.  An estimate stands only where nothing was measured."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise InputError(Fault(f"is not JSON: {error}", str(path), line)) from None
    values = {key: number_in(str(value), str(path), 1, key) for key, value in data.items() if value is not None}
    measured, estimated = values.get("samples_per_sec"), values.get("est_samples_per_sec")
    rate = measured if measured is not None else estimated
    kind = "estimate" if measured is None and estimated is not None else "measured"
    failure = "" if rate is not None else "the file holds no rate"
    yield Profile(path.name, WAFER, mode="streaming", kind=kind, samples_per_s=rate, failure=failure,
                  source=str(path), line=1)  # fmt: skip


def _headers(profile: Profile, row: Row) -> Profile:
    layers = (row.whole("encoder_layers") or 0) + (row.whole("decoder_layers") or 0)
    active, busy = row.number("active_pes_pct", "active_pe_pct"), row.number("compute_utilization_pct")
    counted = row.number("sum_pe_count")
    model = replace(profile.model, layers=row.whole("total_layers") or layers or None)
    size = f"{model.layers} layers, width {model.hidden}" + (f", batch {profile.batch:g}" if profile.batch else "")
    return replace(
        profile,
        name=profile.name or size,
        model=model,
        allocation={} if active is None else {"pe": active / 100},
        utilization=None if busy is None else busy / 100,
        units=() if counted is None else (Unit("all kernels", resources={"pe": counted}),),
        totals={} if counted is None else {"pe": 307840.0},
    )


def _mode(profile: Profile, row: Row) -> Profile:
    mode = row.text("execution_mode").lower()
    systems, system = row.whole("system_count") or 1, row.text("system")
    words = [part for part in (row.text("model") or row.text("folder"), row.text("run"), profile.precision) if part]
    return replace(
        profile,
        name=" ".join(words),
        platform="wse-3" if system.endswith("-3") else WAFER,
        chips=systems,
        mode="resident" if "pipelined" in mode or "pipelined" in row.text("folder") else "streaming",
        kind="estimate" if "estimate" in row.text("note").lower() else "measured",
        configuration=" ".join(part for part in (row.text("execution_mode"), row.text("run")) if part),
        parallelism="weight-streaming" if systems > 1 else "",
    )


_SHAPE = {"layers": "layers", "hidden": "hidden_size", "heads": "heads"}
_ESTIMATE = Profile("", WAFER, mode="resident", kind="estimate")
_RATE = {"samples_per_s": "throughput_samples_per_s"}
_STATED_RATES = {
    "samples_per_s": "samples_per_s",
    "compute_rate_per_s": "compute_samples_per_s",
    "transmission_rate_per_s": "transmission_samples_per_s",
}
_PROJECTED = Profile("", WAFER, mode="streaming")

READERS = (
    Reader("Cerebras compile report", lambda head: ("Samples/s" in head.text and "Kernel Name" in head.text)
           or bool(re.search(r"^\s*Active PEs\s*:", head.text, re.MULTILINE)), _report),
    Reader("Cerebras run log", lambda head: "GlobalRate=" in head.text or bool(_STEP.search(head.text))
           or bool(_SYSTEMS.search(head.text)), _log),
    Reader("Cerebras performance.json", _is_performance, _performance),
    Reader("kernel table of compile reports",
           lambda head: {"report_file", "kernel", "active_pes_count"} <= head.columns, _kernels_csv),
    Layout("headers of compile reports", frozenset({"report_file", "sum_top_level_pe_count"}), _ESTIMATE,
           numbers=_STATED_RATES, texts={"name": "report_file"}, shape={"name": "model"}, rates=("samples_per_s",),
           finish=_headers).reader(),
    Layout("depth and width sweep of compile reports", frozenset({"active_pe_pct", "sum_pe_count", "total_layers"}),
           _ESTIMATE,
           numbers={**_RATE, "transmission_rate_per_s": "transmission_samples_per_s", "batch": "batch_size"},
           shape={"hidden": "d_model", "heads": "heads", "ffn": "d_ff"}, rates=("throughput_samples_per_s",),
           finish=_headers).reader(),
    Layout("training throughput", frozenset({"system_count", "execution_mode", "throughput_samples_per_s"}),
           Profile("", WAFER), numbers={**_RATE, "batch": "global_batch_size"}, wholes={"sequence": "sequence_length"},
           texts={"precision": "precision"}, shape={"name": "model"}, rates=("throughput_samples_per_s",),
           finish=_mode).reader(),
    Layout("sparse matrix products", frozenset({"weight_sparsity_fraction", "throughput_samples_per_s"}),
           Profile("", WAFER, rate_unit="row"), numbers=_RATE, rates=("throughput_samples_per_s",),
           finish=_mode).reader(),
    *(
        Layout(f"training projections ({name})",
               frozenset({name, "max_sequence_length", "derived_throughput_samples_per_s"}),
               _PROJECTED, numbers={"samples_per_s": "derived_throughput_samples_per_s", "batch": "batch_size"},
               wholes={"sequence": "max_sequence_length"}, texts={"name": name}, shape={**_SHAPE, "name": name},
               rates=("derived_throughput_samples_per_s",)).reader()
        for name in ("gpt3_size", "model")
    ),
)  # fmt: skip
