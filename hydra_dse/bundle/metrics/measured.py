"""A bundle as metrics see it: its card, and its traces read once and kept as columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hydra_dse.bundle import conventions as words
from hydra_dse.bundle.cards import CardFile
from hydra_dse.bundle.metrics.intervals import Union, union
from hydra_dse.bundle.metrics.registry import Unavailable
from hydra_dse.bundle.reading import RankTrace, TpuTrace, TraceFolder, open_folder, read_nsys, read_rank, read_tpu
from hydra_dse.bundle.reading.meaning import COPY
from hydra_dse.bundle.reading.nouns import KERNEL_COPY, Spans, Steps

COMMUNICATION = re.compile(
    r"nccl|all[_-]?reduce|all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|broadcast|cross[_-]?device|sendrecv",
    re.IGNORECASE,
)
"""Kernels that communicate, by name: the patterns of the original tools in one."""

_STEP_KINDS = (words.TRAINING_STEP, words.SERVING_STEP, words.BATCH_STEP)


@dataclass(frozen=True)
class RankTimes:
    """What many metrics ask of one rank, computed once."""

    trace: RankTrace

    @cached_property
    def communicates(self) -> NDArray[np.bool_]:
        """Which kernels communicate."""
        names = self.trace.names
        return names.where(self.trace.kernels.name, lambda text: COMMUNICATION.search(text) is not None)

    @cached_property
    def busy(self) -> Union:
        """When any kernel runs."""
        return _union(self.trace.kernels)

    @cached_property
    def communication(self) -> Union:
        """When a communication kernel runs."""
        return _union(self.trace.kernels, self.communicates)

    @cached_property
    def compute(self) -> Union:
        """When a kernel that does not communicate runs."""
        return _union(self.trace.kernels, ~self.communicates)

    @cached_property
    def overlap(self) -> Union:
        """When both run."""
        return self.communication.intersect(self.compute)

    @cached_property
    def copying(self) -> Union:
        """When bytes are copied by an engine or a copy kernel."""
        return _union(self.trace.copies, self.trace.copy_kind <= KERNEL_COPY)

    @cached_property
    def working(self) -> Union:
        """When a kernel runs that neither communicates nor copies."""
        copies = self.trace.names.where(self.trace.kernels.name, lambda text: COPY.search(text) is not None)
        return _union(self.trace.kernels, ~self.communicates & ~copies)

    @property
    def span_us(self) -> tuple[float, float]:
        """First start and last end of kernels and device copies."""
        kernels, copies = self.trace.kernels, self.trace.copies
        device = self.trace.copy_kind <= KERNEL_COPY
        start = np.concatenate([kernels.start, copies.start[device]])
        end = np.concatenate([kernels.end, copies.end[device]])
        return (float(start.min()), float(end.max())) if len(start) else (0.0, 0.0)

    @cached_property
    def steps(self) -> tuple[str, Steps] | None:
        """Kind and markers of the steps: training, else serving, else batches."""
        return next(((kind, self.trace.steps[kind]) for kind in _STEP_KINDS if kind in self.trace.steps), None)


def _union(spans: Spans, chosen: NDArray[np.bool_] | None = None) -> Union:
    return union(spans.start, spans.end) if chosen is None else union(spans.start[chosen], spans.end[chosen])


@dataclass
class Measured:
    """A bundle's card and traces; traces are read when a metric first asks for them."""

    folder: TraceFolder
    _ranks: dict[str, list[RankTimes]] = field(default_factory=dict)
    _tpu: TpuTrace | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of traces of the bundle: those that the card names and the folder holds; without a card, the latter."""
        held = {
            "nsys": bool(self.folder.databases),
            "json": bool(self.folder.ranks),
            "json_tpu": bool(self.folder.others),
        }
        named = self.folder.card.trace_kinds if self.folder.card is not None else ()
        wanted = [kind for kind in held if kind in named] or list(held)
        if "json_tpu" in named and not held["json_tpu"] and held["json"]:
            held["json_tpu"] = True  # a TPU trace under the name of a rank's
        return tuple(kind for kind in wanted if held[kind])

    def ranks(self, kind: str) -> list[RankTimes]:
        """The ranks of Chrome traces, or the devices of an Nsight export.

        Raises:
            Unavailable: there is no such trace.
            InputError: a trace is not readable.
        """
        if kind not in self._ranks:
            traces = self._read(kind)
            self._ranks[kind] = [RankTimes(trace) for trace in traces]
        return self._ranks[kind]

    def _read(self, kind: str) -> list[RankTrace]:
        if kind == "json":
            if not self.folder.ranks:
                raise Unavailable("no rank<N>_trace.json or kineto_trace_<N>.json in the folder")
            return [read_rank(file) for file in self.folder.ranks]
        if not self.folder.databases:
            raise Unavailable("no .sqlite export in the folder")
        plain = [file for file in self.folder.databases if "profiling" not in file.name.lower()]
        return read_nsys((plain or list(self.folder.databases))[0])

    @property
    def read(self) -> list[RankTrace]:
        """The traces read so far."""
        return [rank.trace for ranks in self._ranks.values() for rank in ranks]

    @property
    def tpu(self) -> TpuTrace:
        """The TPU trace."""
        if self._tpu is None:
            files = self.folder.others or self.folder.ranks
            if not files:
                raise Unavailable("no JSON trace in the folder")
            self._tpu = read_tpu(files)
        if not len(self._tpu.start):
            raise Unavailable("the trace has no events of a device with a time and a duration")
        return self._tpu

    def with_kernels(self, kind: str) -> list[RankTimes]:
        """Ranks that have kernels.

        Raises:
            Unavailable: none has.
        """
        found = [rank for rank in self.ranks(kind) if len(rank.trace.kernels)]
        if not found:
            raise Unavailable("no rank has events of category 'kernel' (a trace of the host alone)")
        return found

    def number(self, *path: str) -> float:
        """A number of the card.

        Raises:
            Unavailable: no card, or no number there.
        """
        card = self._card()
        value = card.number(*path)
        if value is None:
            raise Unavailable(f"the card has no number {'.'.join(path)}")
        return value

    def positive(self, *path: str) -> float:
        """A number of the card to divide by.

        Raises:
            Unavailable: no card, or no number above zero there.
        """
        value = self.number(*path)
        if value <= 0:
            raise Unavailable(f"the card's {'.'.join(path)} is {value:g}")
        return value

    def number_or(self, default: float, *path: str) -> float:
        """A number of the card, or a default."""
        value = self.folder.card.number(*path) if self.folder.card is not None else None
        return default if value is None else value

    def text(self, *path: str) -> str:
        """Text of the card, "" where there is none.

        Raises:
            Unavailable: no card.
        """
        return self._card().text_at(*path) or ""

    def _card(self) -> CardFile:
        if self.folder.card is None:
            raise Unavailable(f"no readable card: {self.folder.card_reason}")
        return self.folder.card


def measure(path: str | Path) -> Measured:
    """The bundle in a folder.

    Raises:
        InputError: no such folder, or nothing of a bundle in it.
    """
    return Measured(open_folder(path))


def mean(values: list[float], why: str) -> float:
    """The mean of what the ranks say.

    Raises:
        Unavailable: none says anything; `why` tells.
    """
    if not values:
        raise Unavailable(why)
    return float(np.mean(np.array(values)))


def share(part: float, whole: float, why: str) -> float:
    """A ratio.

    Raises:
        Unavailable: the whole is nothing; `why` tells.
    """
    if not whole > 0:
        raise Unavailable(why)
    return part / whole
