"""Pools and their contention as the estimator sees them: batches of (designs, k) in, arrays of (designs, k) out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number
from hydra_dse.network_load import pair_speeds
from hydra_dse.profile.block import PoolBlock

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Arrays of this many elements stay in cache while an operator is evaluated.
CHUNK_ELEMENTS = 16_384
# Time, busy seconds and energy of a batch come from one pass; callers ask for them one after the other.
_REMEMBERED = 8


@dataclass(frozen=True, eq=False)
class Members:
    """Designs of a profile that share a block, and the row of each in it."""

    designs: IntArray
    rows: IntArray
    block: PoolBlock


@dataclass(frozen=True, eq=False)
class Outcome:
    """All that an iteration costs; arrays of shape (n, k), of resources (n, k, resources)."""

    time_s: FloatArray
    energy_j: FloatArray
    dies_s: Mapping[str, FloatArray]
    sites_s: FloatArray
    links_s: FloatArray

    @cached_property
    def busy_s(self) -> Mapping[str, FloatArray]:
        """Busy seconds by die group, and of the busiest site and link."""
        return {**self.dies_s, "hbm": _most(self.sites_s), "noi": _most(self.links_s)}

    def usage(self, dies: Sequence[str]) -> FloatArray:
        """Busy share of links, sites and `dies` over the iteration, shape (n, k, resources)."""
        busy = [self.links_s, self.sites_s, *(self.dies_s[name][..., None] for name in dies)]
        # An empty iteration takes no time and loads nothing.
        time = np.where(self.time_s == 0.0, 1.0, self.time_s)[..., None]
        return np.concatenate([seconds / time for seconds in busy], axis=-1)


def _most(busy: FloatArray) -> FloatArray:
    return np.asarray(busy.max(axis=-1, initial=0.0))


class ProfiledPool:
    """The `PoolModel` of `n` designs; designs in no block (infeasible ones) have NaN everywhere."""

    def __init__(self, members: Sequence[Members], in_flight: FloatArray) -> None:
        self.members, self.in_flight, self.size = tuple(members), in_flight, len(in_flight)
        self.names = tuple(dict.fromkeys(name for member in members for name in member.block.names))
        self._known: list[tuple[Batch, Outcome]] = []

    def time_s(self, batch: Batch) -> FloatArray:
        """Seconds in which every sequence of the pool advances once, shape (n, k)."""
        known = self._remembered(batch)
        if known is not None:
            return known.time_s
        shape = (self.size, width_of(batch, self.size))
        time = np.full(shape, np.nan)
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                part = take(batch, designs, shape)
                found = member.block.time_s(part, rows, _flight(self.in_flight[designs]))
                time[designs] = _by_design(found, len(designs), shape[1])
        return time

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Busy seconds in that time by die group (an operator occupies its dies while it runs), `"hbm"`, `"noi"`."""
        return self.outcome(batch).busy_s

    def energy_j(self, batch: Batch) -> FloatArray:
        """Dynamic joules in that time, shape (n, k)."""
        return self.outcome(batch).energy_j

    def outcome(self, batch: Batch) -> Outcome:
        """All of it; the last few batches (by identity) are remembered, times of them included."""
        known = self._remembered(batch)
        if known is None:
            known = self._evaluate(batch)
            self._known = [*self._known[1 - _REMEMBERED :], (batch, known)]
        return known

    def _remembered(self, batch: Batch) -> Outcome | None:
        return next((outcome for known, outcome in self._known if known is batch), None)

    def _evaluate(self, batch: Batch) -> Outcome:
        shape = (self.size, width_of(batch, self.size))
        first = self.members[0].block if self.members else None
        links, sites = (first.link_s.shape[2], first.site_s.shape[2]) if first else (0, 0)
        time, energy = np.full((2, *shape), np.nan)
        dies = {name: np.full(shape, np.nan) for name in self.names}
        sites_s, links_s = np.full((*shape, sites), np.nan), np.full((*shape, links), np.nan)
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                part = take(batch, designs, shape)
                cost = member.block.iteration(part, rows, _flight(self.in_flight[designs]))
                time[designs] = _by_design(cost.time_s, len(designs), shape[1])
                energy[designs] = _by_design(cost.energy_j, len(designs), shape[1])
                sites_s[designs], links_s[designs] = cost.site_busy_s, cost.link_busy_s
                for name, seconds in dies.items():
                    found = cost.die_busy_s.get(name, 0.0)
                    seconds[designs] = _by_design(found, len(designs), shape[1])
        return Outcome(time, energy, dies, sites_s, links_s)


class ProfiledContention:
    """Max-min sharing of stacks and links (and of dies that serve both phases) between the two pools.

    The load of a resource is its busy share over an iteration that runs alone.
    """

    def __init__(self, prefill: ProfiledPool, decode: ProfiledPool) -> None:
        self.prefill, self.decode = prefill, decode
        self.shared_dies = [name for name in prefill.names if name in decode.names]

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Return the speeds in (0, 1] of prefill and decode while both run, shape (n, k) each."""
        first, second = self.prefill.outcome(prefill), self.decode.outcome(decode)
        speeds = _speeds(first.usage(self.shared_dies), second.usage(self.shared_dies))
        unknown = np.isnan(first.time_s) | np.isnan(second.time_s)
        if unknown.any():
            speeds[:, unknown] = np.nan
        return speeds[0], speeds[1]


def _speeds(prefill: FloatArray, decode: FloatArray) -> FloatArray:
    """Speeds of both pools, shape (2, n, k); where nothing is asked for more than there is, both run at full speed."""
    crowded = ((prefill + decode) > 1.0).any(axis=-1)
    speeds = np.ones((2, *crowded.shape))
    if crowded.any():
        mine, theirs = np.broadcast_arrays(prefill, decode)
        speeds[:, crowded] = pair_speeds(mine[crowded], theirs[crowded])
    return speeds


def _by_design(values: Number, designs: int, width: int) -> FloatArray:
    """Values of shape (k, designs), or that broadcast to it, as (designs, k)."""
    return np.broadcast_to(values, (width, designs)).T


def _flight(values: FloatArray) -> Number:
    return 1.0 if np.all(values == 1.0) else values


def width_of(batch: Batch, size: int) -> int:
    """Number of batches per design, `k`."""
    shapes = [np.shape(getattr(batch, field.name)) for field in fields(batch)]
    return int(np.broadcast_shapes((size, 1), *shapes)[1])


def take(batch: Batch, designs: IntArray, shape: tuple[int, int]) -> Batch:
    """Return the batches of some designs with designs on the last axis; plain numbers stay plain."""

    def pick(value: Number) -> Number:
        return value if np.ndim(value) == 0 else np.ascontiguousarray(np.broadcast_to(value, shape)[designs].T)

    return Batch(
        prefill_tokens=pick(batch.prefill_tokens),
        prefill_sequences=pick(batch.prefill_sequences),
        prefill_pairs=pick(batch.prefill_pairs),
        prefill_context_tokens=pick(batch.prefill_context_tokens),
        decode_sequences=pick(batch.decode_sequences),
        decode_context_tokens=pick(batch.decode_context_tokens),
        emitted_tokens=pick(batch.emitted_tokens),
        tokens_per_sequence=batch.tokens_per_sequence,
    )


def chunks(designs: IntArray, rows: IntArray, width: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield designs and their rows in pieces of about `CHUNK_ELEMENTS` batches."""
    step = max(1, CHUNK_ELEMENTS // max(1, width))
    for start in range(0, len(designs), step):
        yield designs[start : start + step], rows[start : start + step]
