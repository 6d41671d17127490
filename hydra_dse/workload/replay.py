"""Replay of recorded arrivals: another window of the record for every random stream."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import ArrivalStatistics, FloatArray, IntArray, Requests


def digest(*arrays: FloatArray | IntArray) -> str:
    """A name for the content of arrays, by which frozen records compare."""
    text = hashlib.sha256()
    for array in arrays:
        text.update(np.ascontiguousarray(array).tobytes())
    return text.hexdigest()


@dataclass(frozen=True)
class Replay:
    """Recorded arrival times; a window that passes the end goes on at the start, one mean gap later.

    Attributes:
        times_s: ascending; from 0 unless `keep_start`.
        keep_start: a window that begins with the record keeps its times, so that the first request arrives when it did.
        name: digest of the times; two replays are equal where it is.
    """

    times_s: FloatArray = field(compare=False, repr=False)
    name: str = ""
    keep_start: bool = False

    def __post_init__(self) -> None:
        if len(self.times_s) < 2 or self.times_s[-1] <= self.times_s[0]:
            raise InputError(f"a replay needs two requests at different times, got {len(self.times_s)} request(s)")
        object.__setattr__(self, "name", digest(self.times_s))

    @property
    def rate_per_s(self) -> float:
        """Gaps per second of the record."""
        return float((len(self.times_s) - 1) / (self.times_s[-1] - self.times_s[0]))

    def window(self, count: int, start: int) -> tuple[FloatArray, IntArray]:
        """Times (from 0, see `keep_start`) and record indices of `count` requests from the record's `start`-th on."""
        index = start + np.arange(count)
        size = len(self.times_s)
        period = self.times_s[-1] - self.times_s[0] + 1 / self.rate_per_s
        times = self.times_s[index % size] + (index // size) * period
        return (times if self.keep_start and start == 0 else times - times[0]), index % size

    def start(self, count: int, rng: np.random.Generator) -> int:
        """Where a window of `count` requests begins: the start of the record where it takes all of it."""
        return int(rng.integers(len(self.times_s))) if count < len(self.times_s) else 0

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s."""
        return self.window(count, self.start(count, rng))[0]

    def statistics(self) -> ArrivalStatistics:
        """Rate and CV of the record's gaps."""
        gaps = np.diff(self.times_s)
        return ArrivalStatistics(self.rate_per_s, float(np.std(gaps, ddof=1) / np.mean(gaps)) if len(gaps) > 1 else 0.0)

    def with_rate(self, rate_per_s: float) -> Replay:
        """The same record in faster or slower time."""
        return Replay(self.times_s * (self.rate_per_s / rate_per_s), keep_start=self.keep_start)


def pick(record: Requests, index: IntArray, times_s: FloatArray) -> Requests:
    """The recorded requests at `index`, arriving at `times_s`; a turn whose turn before is left out starts anew."""
    blocks = None if record.blocks is None else tuple(record.blocks[i] for i in index.tolist())
    parent = think = turn = None
    if record.parent is not None and record.think_s is not None and record.turn is not None:
        parent, think, turn = _parents(record.parent, index), record.think_s[index], record.turn[index]
    return Requests(
        times_s,
        record.prompt_tokens[index],
        record.output_tokens[index],
        record.class_index[index],
        blocks,
        record.block_tokens,
        parent,
        think,
        turn,
    )


def _parents(parent: IntArray, index: IntArray) -> IntArray:
    """Places of the turns before among the picked ones; one picked later (a window that wraps) is no turn before."""
    place = np.full(len(parent), -1, dtype=np.int64)
    place[index[::-1]] = np.arange(len(index))[::-1]
    before = np.where(parent[index] >= 0, place[parent[index]], -1)
    return np.asarray(np.where(before < np.arange(len(index)), before, -1))
