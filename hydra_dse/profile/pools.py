"""Pools and their contention as the estimator sees them: batches of (designs, k) in, arrays of (designs, k) out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number
from hydra_dse.network_load import pair_speeds
from hydra_dse.profile.block import PoolBlock

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Arrays of this many elements stay in cache while an operator is evaluated.
CHUNK_ELEMENTS = 16_384
# Busy seconds and energy of a batch come from one pass; callers ask for them one after the other.
_REMEMBERED = 4


@dataclass(frozen=True, eq=False)
class Members:
    """Designs of a profile that share a block, and the row of each in it."""

    designs: IntArray
    rows: IntArray
    block: PoolBlock


@dataclass(frozen=True, eq=False)
class _Outcome:
    energy_j: FloatArray
    busy_s: Mapping[str, FloatArray]


class ProfiledPool:
    """The `PoolModel` of `n` designs; designs in no block (infeasible ones) have NaN everywhere."""

    def __init__(self, members: Sequence[Members], in_flight: FloatArray) -> None:
        self.members, self.in_flight, self.size = tuple(members), in_flight, len(in_flight)
        self.names = tuple(dict.fromkeys(name for member in members for name in member.block.names))
        self._known: list[tuple[Batch, _Outcome]] = []

    def time_s(self, batch: Batch) -> FloatArray:
        """Seconds in which every sequence of the pool advances once, shape (n, k)."""
        shape = (self.size, width_of(batch, self.size))
        time = np.full(shape, np.nan)
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                part = take(batch, designs, shape)
                time[designs] = member.block.time_s(part, rows, _flight(self.in_flight[designs]))
        return time

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Busy seconds in that time by die group (an operator occupies its dies while it runs), `"hbm"`, `"noi"`."""
        return self._outcome(batch).busy_s

    def energy_j(self, batch: Batch) -> FloatArray:
        """Dynamic joules in that time, shape (n, k)."""
        return self._outcome(batch).energy_j

    def _outcome(self, batch: Batch) -> _Outcome:
        for known, outcome in self._known:
            if known is batch:
                return outcome
        outcome = self._evaluate(batch)
        self._known = [*self._known[1 - _REMEMBERED :], (batch, outcome)]
        return outcome

    def _evaluate(self, batch: Batch) -> _Outcome:
        shape = (self.size, width_of(batch, self.size))
        energy = np.full(shape, np.nan)
        busy = {name: np.full(shape, np.nan) for name in (*self.names, "hbm", "noi")}
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                part = take(batch, designs, shape)
                cost = member.block.iteration(part, rows, _flight(self.in_flight[designs]))
                energy[designs] = cost.energy_j
                busy["hbm"][designs] = cost.site_busy_s.max(axis=-1, initial=0.0)
                busy["noi"][designs] = cost.link_busy_s.max(axis=-1, initial=0.0)
                for name in self.names:
                    busy[name][designs] = cost.die_busy_s.get(name, 0.0)
        return _Outcome(energy, busy)


class ProfiledContention:
    """Max-min sharing of stacks and links (and of dies that serve both phases) between the two pools.

    The load of a resource is its busy share over an iteration that runs alone.
    """

    def __init__(self, prefill: ProfiledPool, decode: ProfiledPool) -> None:
        self.prefill, self.decode = prefill, decode
        self.shared_dies = [name for name in prefill.names if name in decode.names]

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Return the speeds in (0, 1] of prefill and decode while both run, shape (n, k) each."""
        size = self.prefill.size
        shape = (size, max(width_of(prefill, size), width_of(decode, size)))
        first, second = np.full(shape, np.nan), np.full(shape, np.nan)
        for one in self.prefill.members:
            for other in self.decode.members:
                designs = np.intersect1d(one.designs, other.designs)
                for part, _ in chunks(designs, designs, shape[1]):
                    mine = _usage(self.prefill, one, take(prefill, part, shape), part, self.shared_dies)
                    theirs = _usage(self.decode, other, take(decode, part, shape), part, self.shared_dies)
                    first[part], second[part] = _speeds(mine, theirs)
        return first, second


def _usage(pool: ProfiledPool, members: Members, batch: Batch, designs: IntArray, dies: Sequence[str]) -> FloatArray:
    """Busy share of links, sites and `dies` over an iteration alone, shape (designs, k, resources)."""
    rows = members.rows[np.searchsorted(members.designs, designs)]
    cost = members.block.iteration(batch, rows, _flight(pool.in_flight[designs]))
    busy = [cost.link_busy_s, cost.site_busy_s]
    time = np.broadcast_to(cost.time_s, busy[0].shape[:2])[..., None]
    busy += [np.broadcast_to(cost.die_busy_s.get(name, 0.0), time.shape[:2])[..., None] for name in dies]
    # An empty iteration takes no time and loads nothing.
    return np.concatenate(busy, axis=-1) / np.where(time > 0, time, 1.0)


def _speeds(prefill: FloatArray, decode: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Speeds of both pools; where no resource is asked for more than it has, both run at full speed."""
    crowded = ((prefill + decode) > 1.0).any(axis=-1)
    first, second = np.ones(crowded.shape), np.ones(crowded.shape)
    first[crowded], second[crowded] = pair_speeds(prefill[crowded], decode[crowded])
    return first, second


def _flight(values: FloatArray) -> Number:
    return 1.0 if np.all(values == 1.0) else values[:, None]


def width_of(batch: Batch, size: int) -> int:
    """Number of batches per design, `k`."""
    shapes = [np.shape(getattr(batch, field.name)) for field in fields(batch)]
    return int(np.broadcast_shapes((size, 1), *shapes)[1])


def take(batch: Batch, designs: IntArray, shape: tuple[int, int]) -> Batch:
    """Return the batches of some designs; plain numbers stay plain."""

    def pick(value: Number) -> Number:
        return value if np.ndim(value) == 0 else np.broadcast_to(value, shape)[designs]

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
