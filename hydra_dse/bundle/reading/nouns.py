"""What is kept of a trace: columns of numbers, no event objects.

A kernel costs 37 bytes here, against about a kilobyte as a Python dict; names are kept once.  Times are in µs as in the
file.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall", "sendrecv", "broadcast", "reduce", "other")


ENGINE_COPY, KERNEL_COPY, HOST_COPY = 0, 1, 2
"""What made a copy: a copy engine, a kernel (which is among the kernels too), or an event of the host."""


class Names:
    """Text ↔ small numbers."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, text: str) -> int:
        """The number of a text."""
        found = self._codes.get(text)
        if found is None:
            found = self._codes[text] = len(self.texts)
            self.texts.append(text)
        return found

    def where(self, codes: IntArray, test: Callable[[str], bool]) -> NDArray[np.bool_]:
        """For each code whether its text passes a test; the test runs once a text."""
        table = np.array([test(text) for text in self.texts], dtype=bool)
        return table[codes] if len(codes) else np.zeros(0, dtype=bool)


class Column:
    """A growing column of numbers, read as an array without copying."""

    def __init__(self, kind: str = "d") -> None:
        self._kind = kind
        self.values: Any = array(kind)

    def array(self) -> NDArray[Any]:
        """The column as float64 (`d`) or int64 (`q`, `i`, `b`)."""
        return np.array(self.values, dtype=np.float64 if self._kind == "d" else np.int64)


@dataclass(frozen=True)
class Spans:
    """Events with a duration: `start` and `duration` in µs, `name` a code, `stream` the track."""

    start: FloatArray
    duration: FloatArray
    name: IntArray
    stream: IntArray

    @property
    def end(self) -> FloatArray:
        """Ends in µs."""
        return self.start + self.duration

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Collectives:
    """The arguments of communication kernels that say what was moved; one entry an event.

    Attributes:
        kind: index into `COLLECTIVES`.
        duration: µs.
        in_bytes, out_bytes: of a rank; NaN where the event does not say.
        group: ranks of the group, NaN where not said.
    """

    kind: IntArray
    duration: FloatArray
    in_bytes: FloatArray
    out_bytes: FloatArray
    group: FloatArray

    def __len__(self) -> int:
        return len(self.kind)


@dataclass(frozen=True)
class Steps:
    """Markers of iterations in their order: by number for `ProfilerStep#N`, else by start."""

    start: FloatArray
    duration: FloatArray

    def __len__(self) -> int:
        return len(self.start)

    @property
    def inner(self) -> Steps:
        """Without the first and the last where there are more than two."""
        return Steps(self.start[1:-1], self.duration[1:-1]) if len(self) > 2 else self


@dataclass(frozen=True)
class Carried:
    """Bytes on links or in memories: `name` is a code, `peak` in bytes/s (NaN where not said)."""

    spans: Spans
    amount_bytes: FloatArray
    peak_bytes_per_s: FloatArray


@dataclass(frozen=True)
class RankTrace:
    """One rank, chiplet or device.

    Attributes:
        label: file or device.
        names: texts of all codes.
        kernels: compute and communication kernels.
        kinds: index into `COLLECTIVES` of each kernel, −1 for compute; empty where only names tell (Nsight).
        blocks_per_multiprocessor: of each kernel; NaN where not said.
        copies: memory copies with a duration, kernels that copy included.
        copy_bytes: bytes of each copy; NaN where not said.
        copy_kind: `ENGINE_COPY`, `KERNEL_COPY` or `HOST_COPY` of each.
        collectives: what the communication kernels moved.
        steps: marker kind → markers.
        requests: instants of requests: (what, number, µs, tokens).
        power: times in µs and watts from then on.
        tokens: times in µs and output tokens emitted until then.
        flops: summed `args.flops` of the kernels, None where none says it.
        skipped: why events were left out → how many.
        truncated: what a cut file lacks.
        redistributions: host operators that end a training step of TorchTitan (`RedistributeBackward`).
    """

    label: str
    names: Names
    kernels: Spans
    blocks_per_multiprocessor: FloatArray
    copies: Spans
    copy_bytes: FloatArray
    copy_kind: IntArray
    collectives: Collectives
    steps: dict[str, Steps] = field(default_factory=dict)
    links: Carried | None = None
    memories: Carried | None = None
    requests: tuple[tuple[str, int, float, float], ...] = ()
    power: tuple[FloatArray, FloatArray] | None = None
    tokens: tuple[FloatArray, FloatArray] | None = None
    world_size: int | None = None
    flops: float | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    truncated: str | None = None
    redistributions: Steps | None = None
    kinds: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
