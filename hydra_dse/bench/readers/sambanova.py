"""SambaNova: SambaTune section and stage reports, and summaries of runs on RDUs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hydra_dse.bench.readers.nouns import Head, Layout, Reader
from hydra_dse.bench.readers.table import Row, rows_of
from hydra_dse.bench.record import MemoryLevel, Profile, Unit
from hydra_dse.errors import Fault, InputError

RDU = "sn30"
_CLASSES = ("pcu", "pmu")
# What the summaries of runs are called, ours first.
_LATENCY = ("step_latency_s", "step_latency", "step_latency_sec")
_HOST = ("host_latency_ms", "host_ms")
_DEVICE = ("rdu_latency_ms", "rdu_ms")
_BUSIEST = ("highest_pcu_utilization_pct", "highest_pcu_pct", "highest_pcu")
_HIDDEN = ("embedding_size", "hidden", "hidden_size")
_THROUGHPUT = ("throughput_samples_per_s", "throughput")
_SECTIONS = ("section_count", "total_sections")


def _column(row: Row, *words: str) -> str:
    """The first column whose name holds all the words, measured before predicted; empty where there is none."""
    names = [name for name in row.cells if all(word in name for word in words)]
    return next((name for name in names if "measured" in name), names[0] if names else "")


def _number(row: Row, *words: str) -> float | None:
    name = _column(row, *words)
    return row.number(name) if name else None


def _sections(path: Path) -> Iterable[Profile]:
    """Sections that run in turn, each with what it holds of the chip and what it moves."""
    units: list[Unit] = []
    totals: dict[str, float] = {}
    moved, seconds, chips = 0.0, 0.0, set()
    for row in rows_of(path):
        time = _number(row, "latency", "sec")
        label = f"{row.text('chip_id') or '0'}/{row.text('section_id')}"
        resources = {}
        for kind in _CLASSES:
            count, share = _number(row, kind, "count"), _number(row, kind, "utilization")
            if count is None and share is not None:
                count, share, totals[kind] = share, None, 100.0
            if count is not None:
                resources[kind] = count
            if count and share:
                totals[kind] = max(totals.get(kind, 0.0), round(count / (share / 100)))
        if time is not None:
            moved += (_number(row, "ddr", "total", "bw") or _moved(row)) * 1e9 * time
            seconds += time
        chips.add(row.text("chip_id"))
        kind_of = row.text(_column(row, "section", "type"))
        rate = _number(row, "throughput")
        units.append(Unit(f"section {label} {kind_of}".strip(), label, resources=resources, rate_per_s=rate, time=time))
    memory = (MemoryLevel("ddr", False, traffic_bytes_per_s=moved / seconds),) if seconds else ()
    failure = "" if seconds else "no section has a latency"
    yield Profile(path.name, RDU, max(len(chips), 1), "sections", units=tuple(units), totals=totals, memory=memory,
                  device_s=seconds or None, sections=len(units), failure=failure, source=str(path), line=2)  # fmt: skip


def _moved(row: Row) -> float:
    return (_number(row, "ddr", "read") or 0.0) + (_number(row, "ddr", "write") or 0.0)


def _stages(path: Path) -> Iterable[Profile]:
    """Stages of sections as pipelines; buffers (stage −1) are passed over."""
    units: list[Unit] = []
    unit = "s"
    for row in rows_of(path):
        if row.text("stage_id") == "-1":
            continue
        column = _column(row, "latency", "sec") or _column(row, "latency", "cycles") or _column(row, "latency")
        if not column:
            raise InputError(Fault("has no latency column", row.file, row.line))
        unit = "s" if "sec" in column else "cycles"
        depth = row.whole("stage_depth")
        units.append(Unit(f"stage {row.text('stage_id')}", row.text("section_id"), depth, time=row.number(column)))
    failure = "" if any(part.time for part in units) else "no stage has a latency"
    yield Profile(path.name, RDU, mode="sections", units=tuple(units), time_unit=unit, failure=failure,
                  source=str(path), line=2)  # fmt: skip


def _summary(profile: Profile, row: Row) -> Profile:
    """One run a row; the share of the busiest section is the only allocation that the table states."""
    host, device, step = row.number(*_HOST), row.number(*_DEVICE), row.number(*_LATENCY)
    share, rate = row.number(*_BUSIEST), row.number(*_THROUGHPUT)
    batch = profile.batch or (round(rate * step) if rate and step else None)
    hidden, layers = row.whole(*_HIDDEN), row.whole("layers")
    mode = row.text("compile_mode", "mode")
    chips = row.whole("chips", "rdus", "rdu_count") or 1
    return replace(
        profile,
        name=" ".join(part for part in (mode, f"{layers} layers, width {hidden}") if part),
        model=replace(
            profile.model, hidden=hidden, layers=layers, heads=row.whole("heads") if "heads" in row.cells else None
        ),
        configuration=mode,
        batch=batch,
        samples_per_s=rate,
        chips=chips,
        parallelism="tensor" if chips > 1 else "",
        step_s=step,
        host_s=None if host is None else host / 1e3,
        device_s=None if device is None else device / 1e3,
        sections=row.whole(*_SECTIONS),
        units=() if share is None else (Unit("busiest section", resources={"pcu": share}),),
        totals={} if share is None else {"pcu": 100.0},
        failure=row.failure(*_THROUGHPUT),
    )


def _precision(profile: Profile, row: Row) -> Profile:
    return replace(profile, name=profile.precision, rate_unit=row.text("unit"))


def _is_summary(head: Head) -> bool:
    return bool(set(_DEVICE) & head.columns) and bool(set(_SECTIONS) & head.columns)


_RUN = Layout("summary of RDU runs", frozenset(), Profile("", RDU, mode="sections"),
              numbers={}, finish=_summary)  # fmt: skip


def _summary_read(path: Path) -> Iterable[Profile]:
    for profile, row in zip(_RUN.read(path), rows_of(path), strict=True):
        yield replace(
            profile,
            batch=row.number("batch_size", "batch") if {"batch_size", "batch"} & set(row.cells) else profile.batch,
            sequence=row.whole("sequence_length", "sequence") if "sequence_length" in row.cells else None,
        )


READERS = (
    Reader("SambaTune section report", lambda head: {"section_id", "chip_id"} <= head.columns, _sections),
    Reader("SambaTune stage report", lambda head: {"section_id", "stage_id", "stage_depth"} <= head.columns, _stages),
    Reader("summary of RDU runs", _is_summary, _summary_read),
    Layout("precision configurations", frozenset({"configuration", "throughput_value", "unit"}),
           Profile("", RDU, mode="sections"), numbers={"samples_per_s": "throughput_value"},
           texts={"precision": "configuration"}, rates=("throughput_value",), finish=_precision).reader(),
)  # fmt: skip
