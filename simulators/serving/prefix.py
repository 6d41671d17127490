"""Prefix cache: KV blocks and state checkpoints of requests that have ended, in the memory that running ones leave.

Entries are named by the ids of prefix blocks.  The unit is the least common multiple of a KV block and a prefix
block.  A unit that running requests read is pinned and counts as theirs, once however many read it; all other entries
are idle and lie in one least-recently-used order, deeper ones of a prefix before shallower ones, so that what is
evicted never leaves a hole below what stays.  What the device evicts goes to the host, where there is room.

A hit on a model with state ends at its deepest checkpoint that is not beyond the cached KV; the running request gets a
copy of the state, so that checkpoints are never pinned.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.policy import Policy

Path = list[int]


@dataclass(frozen=True)
class PrefixShape:
    """Sizes of what a prefix cache holds.

    Attributes:
        unit_tokens: tokens of a unit; blocks_per_unit: KV blocks; ids_per_unit: prefix blocks.
        kv_bytes: KV of a unit, 0 for a model without attention; state_bytes: a checkpoint, 0 without state.
        checkpoint_units: units between checkpoints, 0 = none.
        host_bytes: memory of the host; host_bytes_per_s: link from it.
    """

    unit_tokens: int
    blocks_per_unit: int
    ids_per_unit: int
    kv_bytes: float
    state_bytes: float
    checkpoint_units: int = 0
    host_bytes: float = 0.0
    host_bytes_per_s: float = 0.0

    @classmethod
    def of(cls, policy: Policy, id_tokens: int, kv_bytes_per_token: float, state_bytes: float) -> PrefixShape:
        """The shape of a policy under prefix blocks of `id_tokens` tokens."""
        unit = math.lcm(policy.block_tokens, id_tokens)
        return cls(
            unit,
            unit // policy.block_tokens,
            unit // id_tokens,
            unit * kv_bytes_per_token,
            state_bytes,
            -(-policy.state_checkpoint_tokens // unit),
            policy.host_cache_bytes,
            policy.host_bytes_per_s,
        )

    def path(self, blocks: Sequence[int] | NDArray[np.int64]) -> Path:
        """Ids of the units of a request: each is named by its last prefix block, which names all before it."""
        units: Path = np.asarray(blocks, dtype=np.int64)[self.ids_per_unit - 1 :: self.ids_per_unit].tolist()
        return units


class Hit(NamedTuple):
    """The reusable prefix of a prompt: units, KV units of it that running requests do not hold, bytes on the host."""

    units: int
    unpinned_units: int
    host_bytes: float


MISS = Hit(0, 0, 0.0)


def _kv(unit: int) -> int:
    return 2 * unit


def _state(unit: int) -> int:
    return 2 * unit + 1


class _Tier:
    """Entries in order of their last use, oldest first."""

    def __init__(self, shape: PrefixShape) -> None:
        self._shape = shape
        self._order: OrderedDict[int, None] = OrderedDict()
        self._counts = [0, 0]

    def __contains__(self, entry: int) -> bool:
        return entry in self._order

    def __len__(self) -> int:
        return len(self._order)

    @property
    def used_bytes(self) -> float:
        return self._counts[0] * self._shape.kv_bytes + self._counts[1] * self._shape.state_bytes

    def put(self, entry: int) -> None:
        """Add an entry, or make it the most recent."""
        if entry in self._order:
            self._order.move_to_end(entry)
        else:
            self._order[entry] = None
            self._counts[entry & 1] += 1

    def take(self, entry: int) -> bool:
        """Remove an entry if it is here."""
        if entry not in self._order:
            return False
        del self._order[entry]
        self._counts[entry & 1] -= 1
        return True

    def pop(self) -> int:
        """Remove the oldest."""
        entry, _ = self._order.popitem(last=False)
        self._counts[entry & 1] -= 1
        return entry


class PrefixCache:
    """The entries and who reads them.  It counts bytes; `CacheMemory` decides how many there may be."""

    def __init__(self, shape: PrefixShape) -> None:
        self.shape = shape
        self._readers: dict[int, int] = {}
        self._idle = _Tier(shape)
        self._host = _Tier(shape)

    @property
    def pinned_blocks(self) -> int:
        """KV blocks that running requests read."""
        return len(self._readers) * self.shape.blocks_per_unit

    @property
    def idle_bytes(self) -> float:
        """What may be evicted."""
        return self._idle.used_bytes

    @property
    def host_bytes(self) -> float:
        """What lies on the host."""
        return self._host.used_bytes

    @property
    def readers(self) -> int:
        """References of running requests to units."""
        return sum(self._readers.values())

    def match(self, path: Path, tokens: int) -> Hit:
        """The longest reusable prefix of a prompt of `tokens` tokens; at least one token is always computed."""
        units = min(len(path), (tokens - 1) // self.shape.unit_tokens)
        if self.shape.kv_bytes > 0.0:
            units = next((index for index in range(units) if not self._has_kv(path[index])), units)
        if self.shape.state_bytes > 0.0:
            units = self._checkpoint_before(path, units)
        if units <= 0:
            return MISS
        unpinned = sum(path[index] not in self._readers for index in range(units)) if self.shape.kv_bytes > 0.0 else 0
        return Hit(units, unpinned, self._on_host(path, units))

    def _has_kv(self, unit: int) -> bool:
        return unit in self._readers or _kv(unit) in self._idle or _kv(unit) in self._host

    def _checkpoint_before(self, path: Path, units: int) -> int:
        every = self.shape.checkpoint_units
        if every == 0:
            return 0
        units -= units % every
        while units > 0:
            entry = _state(path[units - 1])
            if entry in self._idle or entry in self._host:
                break
            units -= every
        return units

    def _on_host(self, path: Path, units: int) -> float:
        if not len(self._host):
            return 0.0
        blocks = sum(_kv(path[index]) in self._host for index in range(units))
        state = self.shape.state_bytes > 0.0 and _state(path[units - 1]) in self._host
        return blocks * self.shape.kv_bytes + state * self.shape.state_bytes

    def read(self, path: Path, units: int) -> None:
        """Pin the first `units` units for a request; its checkpoint becomes the most recent entry."""
        self._pin(path, 0, units)
        if units and self.shape.state_bytes > 0.0:
            self._host.take(_state(path[units - 1]))
            self._idle.put(_state(path[units - 1]))

    def add(self, path: Path, start: int, stop: int) -> None:
        """Take units `start` to `stop` that a request has computed, with their checkpoints, and pin them for it."""
        self._pin(path, start, stop)
        every = self.shape.checkpoint_units
        if self.shape.state_bytes > 0.0 and every:
            for unit in range(stop - stop % every, start, -every):
                self._host.take(_state(path[unit - 1]))
                self._idle.put(_state(path[unit - 1]))

    def _pin(self, path: Path, start: int, stop: int) -> None:
        if self.shape.kv_bytes <= 0.0:
            return
        for unit in path[start:stop]:
            readers = self._readers.get(unit, 0)
            if not readers:
                self._idle.take(_kv(unit))
                self._host.take(_kv(unit))
            self._readers[unit] = readers + 1

    def leave(self, path: Path, units: int) -> None:
        """Let a request go that read `units` units: they become the most recent entries, the first last."""
        every = self.shape.checkpoint_units
        for index in range(units - 1, -1, -1):
            unit = path[index]
            if every and (index + 1) % every == 0 and _state(unit) in self._idle:
                self._idle.put(_state(unit))
            if self.shape.kv_bytes > 0.0:
                readers = self._readers[unit] - 1
                if readers:
                    self._readers[unit] = readers
                else:
                    del self._readers[unit]
                    self._idle.put(_kv(unit))

    def shrink(self, most_bytes: float) -> None:
        """Evict idle entries until they take at most `most_bytes`."""
        if most_bytes < 0.0 < self._idle.used_bytes:
            most_bytes = 0.0
        while self._idle.used_bytes > most_bytes and len(self._idle):
            self._spill(self._idle.pop())

    def _spill(self, entry: int) -> None:
        if self.shape.host_bytes <= 0.0:
            return
        self._host.put(entry)
        while self._host.used_bytes > self.shape.host_bytes:
            self._host.pop()

    def read_by_others(self, path: Path, units: int) -> int:
        """Of the units that a request reads, those that another reads too."""
        return sum(self._readers.get(unit, 0) > 1 for unit in path[:units])

    def check_unread(self) -> None:
        """Check that no request reads anything any more."""
        if self._readers:
            raise InvariantBroken(f"{len(self._readers)} prefix units are still read by requests that have ended")
