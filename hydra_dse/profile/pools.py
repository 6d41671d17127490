"""Pools and their contention as the estimator sees them: batches of (designs, k) in, arrays of (designs, k) out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number
from hydra_dse.network_load import pair_speeds
from hydra_dse.profile.block import PoolBlock, weighted_sum

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Arrays of this many elements stay in cache while an operator is evaluated.
CHUNK_ELEMENTS = 16_384
# Time, busy seconds and energy of a batch come from one pass; callers ask for them one after the other.
_REMEMBERED = 4


@dataclass(frozen=True, eq=False)
class Members:
    """Designs of a profile that share a block, and the row of each in it."""

    designs: IntArray
    rows: IntArray
    block: PoolBlock


@dataclass(frozen=True, eq=False)
class _Outcome:
    time_s: FloatArray
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
        return self._outcome(batch).time_s

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
        time, energy = np.full(shape, np.nan), np.full(shape, np.nan)
        busy = {name: np.full(shape, np.nan) for name in (*self.names, "hbm", "noi")}
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                part = take(batch, designs, shape)
                cost = member.block.iteration(part, rows, _flight(self.in_flight[designs]))
                time[designs], energy[designs] = cost.time_s, cost.energy_j
                busy["hbm"][designs], busy["noi"][designs] = cost.hbm_busy_s, cost.noi_busy_s
                for name in self.names:
                    busy[name][designs] = cost.die_busy_s.get(name, 0.0)
        return _Outcome(time, energy, busy)


@dataclass(frozen=True, eq=False)
class SharedResources:
    """What both pools of some designs load: seconds per byte, shape (patterns, resources, rows).

    The patterns of the prefill pool come first; only resources that may bind are kept.
    """

    designs: IntArray
    rows: IntArray
    prefill: PoolBlock
    decode: PoolBlock
    prefill_rows: IntArray
    decode_rows: IntArray
    link_s: FloatArray
    site_s: FloatArray


class ProfiledContention:
    """Max-min sharing of stacks and links (and of dies that serve both phases) between the two pools.

    The load of a resource is its busy share over an iteration that runs alone.
    """

    def __init__(self, prefill: ProfiledPool, decode: ProfiledPool, shared: Sequence[SharedResources]) -> None:
        self.prefill, self.decode, self.shared = prefill, decode, tuple(shared)

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Return the speeds in (0, 1] of prefill and decode while both run, shape (n, k) each."""
        size = self.prefill.size
        shape = (size, max(width_of(prefill, size), width_of(decode, size)))
        first, second = np.full(shape, np.nan), np.full(shape, np.nan)
        first_time = np.broadcast_to(self.prefill.time_s(prefill), shape)
        second_time = np.broadcast_to(self.decode.time_s(decode), shape)
        for group in self.shared:
            for designs, at in chunks(group.designs, np.arange(len(group.designs)), shape[1]):
                mine = self._usage(group, 0, take(prefill, designs, shape), at, first_time[designs])
                other = self._usage(group, 1, take(decode, designs, shape), at, second_time[designs])
                first[designs], second[designs] = pair_speeds(mine, other)
        dies = [name for name in self.prefill.names if name in self.decode.names]
        for name in dies:
            mine = _ratio(self.prefill.busy_s(prefill)[name], first_time)
            other = _ratio(self.decode.busy_s(decode)[name], second_time)
            slow = pair_speeds(mine[..., None], other[..., None])
            first, second = np.minimum(first, slow[0]), np.minimum(second, slow[1])
        return first, second

    def _usage(self, group: SharedResources, pool: int, batch: Batch, at: IntArray, time: FloatArray) -> FloatArray:
        """Busy share of each shared resource, shape (designs, k, resources)."""
        block, rows = (group.prefill, group.prefill_rows) if pool == 0 else (group.decode, group.decode_rows)
        model = self.prefill if pool == 0 else self.decode
        flight = _flight(model.in_flight[group.designs[at]])
        moved, fetched = block.usage(batch, rows[at], flight)
        seconds = []
        for loads, amounts in ((group.link_s, moved), (group.site_s, fetched)):
            part = loads[: len(amounts)] if pool == 0 else loads[-len(amounts) :]
            part = part[..., group.rows[at]]
            seconds += [weighted_sum(part[:, resource], amounts) for resource in range(part.shape[1])]
        return np.stack([np.broadcast_to(_ratio(busy, time), time.shape) for busy in seconds], axis=-1)


def _ratio(busy: Number, time: FloatArray) -> FloatArray:
    # An empty iteration takes no time and loads nothing.
    return np.asarray(busy / np.where(time > 0, time, 1.0))


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
