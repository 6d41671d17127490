"""Pools and their contention as the estimator sees them: batches of (designs, k) in, arrays of (designs, k) out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number
from hydra_dse.network_load import pair_speeds
from hydra_dse.profile.batches import amounts_of, joined, width_of
from hydra_dse.profile.block import PoolBlock, Spent, as_slice

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
    site_most_s: FloatArray
    link_most_s: FloatArray

    @property
    def busy_s(self) -> Mapping[str, FloatArray]:
        """Busy seconds by die group, and of the busiest site and link."""
        return {**self.dies_s, "hbm": self.site_most_s, "noi": self.link_most_s}

    def columns(self, start: int, stop: int) -> Outcome:
        """The batches from `start` up to `stop`."""
        cut = slice(start, stop)
        return Outcome(
            self.time_s[:, cut],
            self.energy_j[:, cut],
            {name: busy[:, cut] for name, busy in self.dies_s.items()},
            self.sites_s[:, cut],
            self.links_s[:, cut],
            self.site_most_s[:, cut],
            self.link_most_s[:, cut],
        )

    def usage(self, dies: Sequence[str], where: tuple[IntArray, IntArray]) -> FloatArray:
        """Busy share of links, sites and `dies` over some iterations, shape (iterations, resources).

        Args:
            dies: names of die groups.
            where: designs and columns of the iterations; a single column stands for all.
        """
        designs, columns = where
        columns = columns if self.time_s.shape[1] > 1 else np.zeros_like(columns)
        at = (designs, columns)
        own = [self.dies_s[name][at][:, None] for name in dies]
        busy = np.concatenate([self.links_s[at], self.sites_s[at], *own], axis=-1)
        return busy / self._spent[at][:, None]

    def most(self, dies: Sequence[str]) -> list[FloatArray]:
        """Busy share of the busiest link, the busiest site and each of the `dies`, shape (n, k) each."""
        busy = [self.link_most_s, self.site_most_s, *(self.dies_s[name] for name in dies)]
        return [seconds / self._spent for seconds in busy]

    @cached_property
    def _spent(self) -> FloatArray:
        # An empty iteration takes no time and loads nothing.
        return np.where(self.time_s == 0.0, 1.0, self.time_s)


class ProfiledPool:
    """The `PoolModel` of `n` designs; designs in no block (infeasible ones) have NaN everywhere."""

    def __init__(self, members: Sequence[Members], in_flight: FloatArray) -> None:
        self.members, self.in_flight, self.size = tuple(members), in_flight, len(in_flight)
        self.names = tuple(dict.fromkeys(name for member in members for name in member.block.names))
        self._known: list[tuple[Batch, Outcome]] = []

        self._one_each = bool((in_flight == 1.0).all())

    def _flight(self, designs: IntArray) -> Number:
        """Batches in flight of some designs; a plain 1 where that is so of all."""
        return 1.0 if self._one_each else self.in_flight[designs]

    def time_s(self, batch: Batch) -> FloatArray:
        """Seconds in which every sequence of the pool advances once, shape (n, k)."""
        known = self._remembered(batch)
        if known is not None:
            return known.time_s
        shape = (self.size, width_of(batch))
        time = np.full(shape, np.nan)
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                time[designs] = member.block.time_s(take(batch, designs, shape), rows, self._flight(designs))
        return time

    def row_tile(self) -> FloatArray:
        """Rows of a decode iteration in whose multiples the dies of each design work, shape (n,); 1 = any number."""
        tile = np.ones(self.size)
        for member in self.members:
            tile[member.designs] = member.block.row_tile(member.rows)
        return tile * np.where(tile > 1.0, self.in_flight, 1.0)

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Busy seconds in that time by die group (an operator occupies its dies while it runs), `"hbm"`, `"noi"`."""
        return self.outcome(batch).busy_s

    def energy_j(self, batch: Batch) -> FloatArray:
        """Dynamic joules in that time, shape (n, k)."""
        return self.outcome(batch).energy_j

    def spent(self, batch: Batch) -> Spent:
        """What the dynamic energy is spent on, shape (n, k) each."""
        shape = (self.size, width_of(batch))
        dies = {name: np.zeros(shape) for name in self.names}
        memory, links = np.full(shape, np.nan), np.full(shape, np.nan)
        for member in self.members:
            for designs, rows in chunks(member.designs, member.rows, shape[1]):
                found = member.block.spent(take(batch, designs, shape), rows, self._flight(designs))
                memory[designs], links[designs] = found.memory_j, found.links_j
                for name, joules in found.dies_j.items():
                    dies[name][designs] = joules
        return Spent(dies, memory, links)

    def outcome(self, batch: Batch) -> Outcome:
        """All of it; the last few batches (by identity) are remembered, times of them included."""
        known = self._remembered(batch)
        if known is None:
            known = self._evaluate(batch)
            self._known = [*self._known[1 - _REMEMBERED :], (batch, known)]
        return known

    def prepare(self, batches: Sequence[Batch]) -> None:
        """Evaluate several batches in one pass and remember them, for those who ask for one after the other."""
        whole, start = self._evaluate(joined(batches)), 0
        for batch in batches:
            stop = start + width_of(batch)
            self._known = [*self._known[1 - _REMEMBERED :], (batch, whole.columns(start, stop))]
            start = stop

    def _remembered(self, batch: Batch) -> Outcome | None:
        return next((outcome for known, outcome in self._known if known is batch), None)

    def _evaluate(self, batch: Batch) -> Outcome:
        shape = (self.size, width_of(batch))
        parts = [
            (designs, self._part(member.block, batch, designs, rows, shape))
            for member in self.members
            for designs, rows in chunks(member.designs, member.rows, shape[1])
        ]
        if len(parts) == 1 and len(parts[0][0]) == self.size:
            return parts[0][1]
        first = self.members[0].block if self.members else None
        links, sites = (first.link_s.shape[2], first.site_s.shape[2]) if first else (0, 0)
        whole = Outcome(
            time_s=np.full(shape, np.nan),
            energy_j=np.full(shape, np.nan),
            dies_s={name: np.full(shape, np.nan) for name in self.names},
            sites_s=np.full((*shape, sites), np.nan),
            links_s=np.full((*shape, links), np.nan),
            site_most_s=np.full(shape, np.nan),
            link_most_s=np.full(shape, np.nan),
        )
        for designs, part in parts:
            for name in ("time_s", "energy_j", "sites_s", "links_s", "site_most_s", "link_most_s"):
                getattr(whole, name)[designs] = getattr(part, name)
            for name in self.names:
                whole.dies_s[name][designs] = part.dies_s[name]
        return whole

    def _part(
        self, block: PoolBlock, batch: Batch, designs: IntArray, rows: IntArray, shape: tuple[int, int]
    ) -> Outcome:
        """The designs of a chunk."""
        cost = block.iteration(take(batch, designs, shape), rows, self._flight(designs))
        none = np.zeros_like(cost.time_s)
        return Outcome(
            time_s=cost.time_s,
            energy_j=cost.energy_j,
            dies_s={name: cost.die_busy_s.get(name, none) for name in self.names},
            sites_s=cost.site_busy_s,
            links_s=cost.link_busy_s,
            site_most_s=cost.site_most_s,
            link_most_s=cost.link_most_s,
        )


class ProfiledContention:
    """Max-min sharing of stacks and links (and of dies that serve both phases) between the two pools.

    The load of a resource is its busy share over an iteration that runs alone.
    """

    def __init__(self, prefill: ProfiledPool, decode: ProfiledPool) -> None:
        self.prefill, self.decode = prefill, decode
        self.shared_dies = [name for name in prefill.names if name in decode.names]

    def prepare(self, prefill: Sequence[Batch], decode: Sequence[Batch]) -> None:
        """Evaluate the batches of each pool in one pass before `speeds` asks for them."""
        self.prefill.prepare(prefill)
        self.decode.prepare(decode)

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        """Return the speeds in (0, 1] of prefill and decode while both run, shape (n, k) each."""
        first, second = self.prefill.outcome(prefill), self.decode.outcome(decode)
        known = ~(np.isnan(first.time_s) | np.isnan(second.time_s))
        speeds = np.where(known, 1.0, np.full((2, *known.shape), np.nan))
        designs, columns = np.nonzero(known & self._close(first, second))
        where = (designs, columns)
        mine, theirs = first.usage(self.shared_dies, where), second.usage(self.shared_dies, where)
        crowded = ((mine + theirs) > 1.0).any(axis=-1)
        if crowded.any():
            at = (slice(None), where[0][crowded], where[1][crowded])
            speeds[at] = pair_speeds(mine[crowded], theirs[crowded])
        return speeds[0], speeds[1]

    def _close(self, prefill: Outcome, decode: Outcome) -> NDArray[np.bool_]:
        """Where a resource may be asked for more than it has: the busiest ones of both pools together are."""
        pairs = zip(prefill.most(self.shared_dies), decode.most(self.shared_dies), strict=True)
        return np.asarray(np.any([mine + theirs > 1.0 for mine, theirs in pairs], axis=0))


def take(batch: Batch, designs: IntArray, shape: tuple[int, int]) -> Batch:
    """Return the batches of some designs, of shape (designs, k); plain numbers stay plain."""
    whole = len(designs) == shape[0] and isinstance(as_slice(designs), slice)
    if whole and all(np.ndim(value) == 0 or np.shape(value) == shape for value in amounts_of(batch)):
        return batch

    def pick(value: Number) -> Number:
        if np.ndim(value) == 0:
            return value
        return np.broadcast_to(value, shape)[designs]

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
