"""Graphcore: sweeps, plans, memory reports of PopVision, training logs, and published measurements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hydra_dse.bench.readers.nouns import Head, Layout, Reader
from hydra_dse.bench.readers.table import Row, number_in, rows_of
from hydra_dse.bench.record import MemoryLevel, ModelShape, Profile, Unit

IPU = "bow-ipu"
_RATE = ("throughput", "throughput_samples_per_s", "throughput_samples_per_sec")


def _sweep(path: Path) -> Iterable[Profile]:
    """One run or plan a row; columns in any order.  Without a throughput column every row is a plan."""
    for row in rows_of(path):
        column = next((name for name in _RATE if name in row.cells), "")
        replicas = row.whole("replication_factor") if "replication_factor" in row.cells else None
        per_replica = row.whole("ipus_per_replica")
        chips = (row.whole("total_ipus") if "total_ipus" in row.cells else None) or (per_replica or 1) * (replicas or 1)
        micro = row.number("micro_batch_size", "batch_size")
        accumulated = row.whole("gradient_accumulation") if "gradient_accumulation" in row.cells else None
        batch = micro * accumulated * (replicas or 1) if micro and accumulated else micro
        layers = row.whole("n_layer", "layers")
        yield Profile(
            name=row.text("run_id") or f"{row.text('script')}:{row.text('line')}".strip(":"),
            platform=IPU,
            chips=chips,
            mode="pipelined",
            kind="measured" if column else "plan",
            model=ModelShape(row.text("model"), layers=layers),
            precision="",
            batch=batch,
            sequence=row.whole("max_sequence_length", "sequence_length")
            if "max_sequence_length" in row.cells
            else None,
            parallelism="pipeline",
            micro_batches=accumulated,
            replicas=replicas,
            layout=row.wholes("layers_per_ipu"),
            samples_per_s=row.number(column) if column else None,
            failure=row.failure(column) if column else "",
            source=row.file,
            line=row.line,
        )


def _memory(path: Path) -> Iterable[Profile]:
    """Memory in use on every IPU of compiled programs, one program a row."""
    for row in rows_of(path):
        chips, size = row.whole("num_ipus") or 1, row.number("bytes_per_ipu")
        used = [row.number(f"ipu_{index}_memory_used") for index in range(chips)
                if f"ipu_{index}_memory_used" in row.cells]  # fmt: skip
        units = tuple(
            Unit(f"chip {index}", stage=index, resources={"memory": value})
            for index, value in enumerate(used)
            if value is not None
        )
        fullest = max((value for value in used if value is not None), default=None)
        level = MemoryLevel("sram", True, capacity_bytes=size, used_bytes=fullest)
        over = fullest is not None and size is not None and fullest > size
        yield Profile(
            name=Path(row.text("file_path")).parent.name or row.text("file_path"),
            platform=IPU,
            chips=chips,
            mode="pipelined",
            kind="estimate",
            parallelism="pipeline",
            units=units,
            totals={} if size is None else {"memory": size * chips},
            memory=(level,),
            failure="" if fullest is not None and not over else "out of memory" if over else "no value in the table",
            source=row.file,
            line=row.line,
        )


_STEP = re.compile(r"step\s+(\d+)\s+of\s+epoch\s+\d+.*?throughput:\s*([\d.]+)\s*samples/sec", re.IGNORECASE)
_PLACED = re.compile(r"Layer\s+(\d+)\s*-->\s*IPU\s+(\d+)")


def _log(path: Path) -> Iterable[Profile]:
    """A training log; the first step warms up and is dropped."""
    rates: list[float] = []
    placed: dict[int, int] = {}
    last = 1
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if found := _STEP.search(line):
                rates.append(number_in(found[2], str(path), number, "throughput"))
                last = number
            for layer, chip in _PLACED.findall(line):
                placed[int(layer)] = int(chip)
    steady = rates[1:]
    chips = max(placed.values(), default=0) + 1
    layout = tuple(sum(chip == index for chip in placed.values()) for index in range(chips)) if placed else ()
    yield Profile(
        path.name,
        IPU,
        chips,
        "pipelined",
        model=ModelShape(layers=len(placed) or None),
        parallelism="pipeline" if chips > 1 else "",
        layout=layout,
        samples_per_s=sum(steady) / len(steady) if steady else None,
        failure="" if steady else "the log holds no step after the first",
        source=str(path),
        line=last,
    )


_LAYOUT = re.compile(r"(\d+(?:/\d+)+) layers per IPU")
_REPLICAS = re.compile(r"replication (\d+)")
_ACCUMULATED = re.compile(r"grad-acc (\d+)")
_INSTANCES = re.compile(r",\s*\d+ (host instances|IPU)$")


def _published(profile: Profile, row: Row) -> Profile | None:
    metric = row.text("metric_with_unit")
    if not metric.startswith("throughput"):
        return None
    workload = row.text("workload")
    device = row.text("device")
    layout = _LAYOUT.search(workload)
    accumulated, replicas = _ACCUMULATED.search(workload), _REPLICAS.search(workload)
    # The batch column holds the micro batch where the workload says how many of them make a step.
    steps = int(accumulated[1]) * int(replicas[1]) if accumulated and replicas else 1
    return replace(
        profile,
        name=workload,
        platform=IPU if device.startswith("Bow") else device.split()[0].lower(),
        mode="pipelined" if layout or "pipeline" in workload else "",
        model=ModelShape(_INSTANCES.sub("", workload)),
        parallelism="pipeline" if layout or "pipeline" in workload else "data",
        batch=profile.batch * steps if profile.batch else None,
        layout=tuple(int(part) for part in layout[1].split("/")) if layout else (),
        micro_batches=int(accumulated[1]) if accumulated else None,
        replicas=int(replicas[1]) if replicas else None,
        rate_unit="image" if "image" in metric else "",
    )


def _is_sweep(head: Head) -> bool:
    return {"layers_per_ipu", "ipus_per_replica"} <= head.columns


READERS = (
    Reader("Graphcore sweep or plan", _is_sweep, _sweep),
    Reader("PopVision memory export", lambda head: {"num_ipus", "bytes_per_ipu"} <= head.columns, _memory),
    Reader("Graphcore training log",
           lambda head: bool(_STEP.search(head.text) or _PLACED.search(head.text)), _log),
    Layout("IPU measurements", frozenset({"device", "workload", "ipu_count", "metric_with_unit"}), Profile("", IPU),
           numbers={"samples_per_s": "value", "batch": "batch_size_global_or_micro"},
           wholes={"chips": "ipu_count", "sequence": "sequence_length"}, rates=("value",), finish=_published).reader(),
)  # fmt: skip
