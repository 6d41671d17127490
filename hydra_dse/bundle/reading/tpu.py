"""A TPU profiler's Chrome JSON as columns: operations of the devices and step markers of the host.

Devices are the processes that an `M` event names `/device:TPU:N`; without any, every process counts.  An operation's
time is `args.device_duration_ps` where it is there, else `dur`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hydra_dse.bundle.reading.meaning import number
from hydra_dse.bundle.reading.nouns import Column, FloatArray, IntArray, Names, Steps
from hydra_dse.bundle.reading.stream import EventStream

_SHAPE = re.compile(r"([a-z0-9]+)\[([^\]]*)\]", re.IGNORECASE)
_WIDTHS = {
    **dict.fromkeys(("s8", "u8", "pred"), 1),
    **dict.fromkeys(("bf16", "f16", "s16", "u16"), 2),
    **dict.fromkeys(("f32", "s32", "u32"), 4),
    **dict.fromkeys(("f64", "s64", "u64"), 8),
}
ENGINE_STEP, MARKER = "$core.py:331 step", "StepMarker"


@dataclass(frozen=True)
class TpuTrace:
    """Events of the devices in one file.

    Attributes:
        start, duration: of the event in the trace, µs.
        device_s: seconds by the device's own clock; NaN where it does not say.
        name, category: codes of the name and of `hlo_category` (code of "" where there is none).
        device: process number.
        offset_s: start by the device's own clock (`device_offset_ps`); NaN where it does not say.
        accessed_bytes, raw_bytes: of `bytes_accessed` and `raw_bytes_accessed`, NaN where not said.
        message_bytes: of the operand by `shape_with_layout`, else the raw or accessed bytes; NaN where not said.
        model_flops: FLOPs, NaN where not said.
        steps: markers of engine steps, else the large `StepMarker`s (above a tenth of the longest).
    """

    names: Names
    start: FloatArray
    duration: FloatArray
    device_s: FloatArray
    name: IntArray
    category: IntArray
    device: IntArray
    offset_s: FloatArray
    accessed_bytes: FloatArray
    raw_bytes: FloatArray
    message_bytes: FloatArray
    model_flops: FloatArray
    steps: Steps
    engine_steps: bool
    skipped: dict[str, int] = field(default_factory=dict)

    def of_categories(self, *texts: str) -> NDArray[np.bool_]:
        """Which events have one of these `hlo_category`s."""
        return self.names.where(self.category, lambda text: text in texts)

    @property
    def busy_s(self) -> FloatArray:
        """Seconds of each event: the device's own, else the trace's."""
        return np.where(np.isnan(self.device_s), self.duration / 1e6, self.device_s)


def read_tpu(paths: Sequence[str | Path]) -> TpuTrace:
    """Read the files of a TPU trace.

    Raises:
        InputError: a file cannot be read, or is not JSON.
    """
    table = _Operations()
    for path in paths:
        for events in EventStream(path):
            table.take(events)
    return table.trace()


class _Operations:
    def __init__(self) -> None:
        self.names = Names()
        self.columns = {
            name: Column(kind)
            for name, kind in (
                ("start", "d"), ("duration", "d"), ("device_s", "d"), ("name", "i"), ("category", "i"), ("device", "q"),
                ("offset_s", "d"), ("accessed", "d"), ("raw", "d"), ("message", "d"), ("flops", "d"),
            )
        }  # fmt: skip
        self.devices: dict[int, None] = {}
        self.steps: list[tuple[float, float]] = []
        self.markers: list[tuple[float, float]] = []
        self.skipped: dict[str, int] = {}

    def take(self, events: list[object]) -> None:
        """Add a list of events."""
        for event in events:
            if type(event) is not dict:
                continue
            arguments = event.get("args")
            arguments = arguments if isinstance(arguments, dict) else {}
            if event.get("ph") == "M" and event.get("name") == "process_name":
                said, process = arguments.get("name"), event.get("pid")
                if isinstance(said, str) and "/device:TPU:" in said and type(process) is int:
                    self.devices[process] = None
            elif event.get("ph") == "X":
                self._span(event, arguments)

    def _span(self, event: dict[str, Any], arguments: dict[str, Any]) -> None:
        name, start, duration = event.get("name"), number(event.get("ts")), number(event.get("dur"))
        if not isinstance(name, str) or start is None or duration is None or duration < 0:
            self.skipped["no name, time or duration"] = self.skipped.get("no name, time or duration", 0) + 1
            return
        if name == ENGINE_STEP:
            self.steps.append((start, duration))
        elif name == MARKER:
            self.markers.append((start, duration))
        category, process = arguments.get("hlo_category"), event.get("pid")
        picoseconds = _loose(arguments.get("device_duration_ps"))
        row = (
            start, duration, picoseconds / 1e12, self.names.code(name),
            self.names.code(category if isinstance(category, str) else ""), process if type(process) is int else -1,
            _loose(arguments.get("device_offset_ps")) / 1e12,
            _loose(arguments.get("bytes_accessed")), _loose(arguments.get("raw_bytes_accessed")), _message(arguments),
            _loose(arguments.get("model_flops")),
        )  # fmt: skip
        for column, value in zip(self.columns.values(), row, strict=True):
            column.values.append(value)

    def trace(self) -> TpuTrace:
        """The finished columns, of the devices only where any is named."""
        data = {name: column.array() for name, column in self.columns.items()}
        chosen = (
            np.isin(data["device"], list(self.devices)) if self.devices else np.ones(len(data["start"]), dtype=bool)
        )
        data = {name: column[chosen] for name, column in data.items()}
        longest = max((duration for _, duration in self.markers), default=0.0)
        steps = self.steps or [row for row in self.markers if row[1] > longest / 10]
        ordered = np.array(sorted(steps), dtype=float).reshape(-1, 2)
        return TpuTrace(
            names=self.names,
            start=data["start"],
            duration=data["duration"],
            device_s=data["device_s"],
            name=data["name"].astype(int),
            category=data["category"].astype(int),
            device=data["device"].astype(int),
            offset_s=data["offset_s"],
            accessed_bytes=data["accessed"],
            raw_bytes=data["raw"],
            message_bytes=data["message"],
            model_flops=data["flops"],
            steps=Steps(ordered[:, 0], ordered[:, 1]),
            engine_steps=bool(self.steps),
            skipped=self.skipped,
        )


def _message(arguments: dict[str, Any]) -> float:
    """Bytes of what a collective carries."""
    shape = arguments.get("shape_with_layout")
    found = _SHAPE.match(shape.strip()) if isinstance(shape, str) else None
    width = _WIDTHS.get(found.group(1).lower()) if found else None
    if found is not None and width is not None:
        sizes = [int(text) for text in re.split(r"[,\s]+", found.group(2)) if text.isdigit() and len(text) < 16]
        return float(math.prod(sizes) * width)
    for key in ("raw_bytes_accessed", "bytes_accessed"):
        size = _loose(arguments.get(key))
        if size > 0:
            return size
    return math.nan


def _loose(value: object) -> float:
    """A number that may be written as text, as TPU traces do; NaN for all else."""
    if isinstance(value, str) and value.strip().isdigit() and len(value) < 30:
        return float(value)
    found = number(value)
    return math.nan if found is None else found
