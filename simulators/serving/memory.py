"""Cache memory in blocks of KV and slots of recurrent state, never above its capacity.

A sequence holds `⌈tokens / block⌉` KV blocks and one state slot.  Prompts are admitted below a watermark; decode
steps may use all of it.  Occupancy is integrated over time.

With a prefix cache the blocks of the first `units` units of a sequence are those of the cache, in use once however many
sequences read them.  What the cache holds beside is idle: it gives way whenever sequences need memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from simulators.serving.prefix import MISS, Hit, Path, PrefixCache

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
UNLIMITED = 1 << 62
"""Requests that fit where they hold nothing."""
FEW_STEPS = 48
"""So few are booked faster one by one."""


@dataclass(frozen=True)
class CacheShape:
    """Size of the cache and of what lies in it.

    Attributes:
        capacity_bytes: memory for KV and state.
        kv_bytes_per_token, state_bytes_per_sequence: of the served model.
        block_tokens: tokens per KV block.
        watermark: share of the capacity kept free at admission.
    """

    capacity_bytes: float
    kv_bytes_per_token: float
    state_bytes_per_sequence: float
    block_tokens: int = 16
    watermark: float = 0.01

    @property
    def block_bytes(self) -> float:
        """Bytes of one KV block."""
        return self.kv_bytes_per_token * self.block_tokens

    def blocks(self, tokens: int) -> int:
        """KV blocks that `tokens` tokens occupy."""
        return -(-tokens // self.block_tokens)

    def bytes_of(self, tokens: int) -> float:
        """Memory of one sequence with `tokens` cached tokens."""
        return self.blocks(tokens) * self.block_bytes + self.state_bytes_per_sequence

    @property
    def admission_bytes(self) -> float:
        """Memory that admissions may fill."""
        return self.capacity_bytes * (1.0 - self.watermark)


class CacheMemory:
    """Counts blocks and state slots in use; every change checks the capacity."""

    def __init__(self, shape: CacheShape, prefix: PrefixCache | None = None) -> None:
        self.shape = shape
        self.prefix = prefix
        self.blocks = 0
        self.states = 0
        self.peak_bytes = 0.0
        self.block_seconds = 0.0
        self.state_seconds = 0.0
        self.idle_byte_seconds = 0.0
        self.sharers: list[CacheMemory] = []
        self._block_bytes, self._state_bytes = shape.block_bytes, shape.state_bytes_per_sequence
        self._since_s = 0.0

    @property
    def used_blocks(self) -> int:
        """KV blocks in use by this model, shared ones counted once."""
        return self.blocks if self.prefix is None else self.blocks + self.prefix.pinned_blocks

    @property
    def own_bytes(self) -> float:
        """Bytes in use by this model."""
        blocks = self.blocks if self.prefix is None else self.used_blocks
        return blocks * self._block_bytes + self.states * self._state_bytes

    @property
    def used_bytes(self) -> float:
        """Bytes in use, those of models that share the memory included."""
        used = self.own_bytes
        for other in self.sharers:
            used += other.own_bytes
        return used

    @property
    def free_blocks(self) -> int:
        """Blocks that decode steps may still take."""
        if self._block_bytes <= 0.0:
            return UNLIMITED
        return math.floor((self.shape.capacity_bytes - self.used_bytes) / self._block_bytes)

    def admits(self, tokens: int, reserved_blocks: int = 0, freed_bytes: float = 0.0, hit: Hit = MISS) -> bool:
        """Whether a prompt of `tokens` tokens and `reserved_blocks` blocks fit below the watermark.

        `freed_bytes` of what is in use is taken as free.  Of the units of a `hit` only those take memory that nobody
        reads so far.
        """
        held = hit.units - hit.unpinned_units
        if held and self.prefix is not None:
            reserved_blocks -= held * self.prefix.shape.blocks_per_unit
        needed = self.shape.bytes_of(tokens) + reserved_blocks * self.shape.block_bytes
        return self.used_bytes - freed_bytes + needed <= self.shape.admission_bytes

    def admit(self, tokens: int, now_s: float, path: Path | None = None, units: int = 0) -> None:
        """Give a sequence its state slot and the blocks of its prompt, the first `units` units from the cache."""
        self.integrate(now_s)
        self.blocks += self.shape.blocks(tokens)
        self.states += 1
        if path is not None and self.prefix is not None:
            self.prefix.read(path, units)
            self.blocks -= units * self._blocks_per_unit
        self._check()

    @property
    def _blocks_per_unit(self) -> int:
        """Blocks of a unit that the cache holds; none of a model without KV."""
        has_kv = self.prefix is not None and self.prefix.shape.kv_bytes > 0.0
        return self.prefix.shape.blocks_per_unit if has_kv and self.prefix is not None else 0

    def share(self, path: Path, start: int, stop: int, now_s: float) -> None:
        """Pass units `start` to `stop` that a sequence has computed on to the cache; it goes on to read them."""
        if self.prefix is not None:
            self.integrate(now_s)
            self.prefix.add(path, start, stop)
            self.blocks -= (stop - start) * self._blocks_per_unit
            self._check()

    def grow(self, blocks: int, now_s: float) -> None:
        """Give decoding sequences `blocks` more blocks."""
        if blocks:
            self.integrate(now_s)
            self.blocks += blocks
            self._check()

    def grow_in_steps(self, blocks: IntArray, start_s: FloatArray) -> None:
        """Take `blocks[i]` at `start_s[i]`, with the same sums as `grow` one by one."""
        if self.prefix is not None or len(blocks) < FEW_STEPS:
            for count, time_s in zip(blocks.tolist(), start_s.tolist(), strict=True):
                self.grow(count, time_s)
            return
        taken = np.flatnonzero(blocks)
        if not len(taken):
            return
        times = np.concatenate(([self._since_s], start_s[taken]))
        held = self.blocks + np.concatenate(([0], np.cumsum(blocks[taken])))
        area = np.concatenate(([self.block_seconds], held[:-1] * np.diff(times)))
        self.block_seconds = float(np.cumsum(area)[-1])
        self.state_seconds = float(np.cumsum(np.concatenate(([self.state_seconds], self.states * np.diff(times))))[-1])
        self.blocks = int(held[-1])
        self._since_s = float(times[-1])
        self._check()

    def release(self, tokens: int, now_s: float, path: Path | None = None, units: int = 0) -> None:
        """Take back all that a sequence with `tokens` cached tokens holds; the cache keeps the first `units` units."""
        self.integrate(now_s)
        self.blocks -= self.shape.blocks(tokens)
        self.states -= 1
        if path is not None and self.prefix is not None:
            self.prefix.leave(path, units)
            self.blocks += units * self._blocks_per_unit
        self._check()

    def integrate(self, now_s: float) -> None:
        """Book the time since the last change."""
        elapsed = now_s - self._since_s
        if elapsed < 0.0:
            raise InvariantBroken(f"time ran backwards from {self._since_s} s to {now_s} s")
        self.block_seconds += (self.blocks if self.prefix is None else self.used_blocks) * elapsed
        self.state_seconds += self.states * elapsed
        if self.prefix is not None:
            self.idle_byte_seconds += self.prefix.idle_bytes * elapsed
        self._since_s = now_s

    def _check(self) -> None:
        used = self.used_bytes
        if used > self.shape.capacity_bytes or self.blocks < 0 or self.states < 0:
            raise InvariantBroken(
                f"cache memory holds {used:.0f} of {self.shape.capacity_bytes:.0f} bytes "
                f"in {self.blocks} blocks and {self.states} states"
            )
        if self.prefix is not None or self.sharers:
            self._give_way(self.shape.capacity_bytes - used)
            used = self.own_bytes
        if used > self.peak_bytes:
            self.peak_bytes = used

    def _give_way(self, room_bytes: float) -> None:
        """Let prefix caches shrink to what is free: the own one first, then those of models that share the memory."""
        caches = [memory.prefix for memory in (self, *self.sharers) if memory.prefix is not None]
        for index, cache in enumerate(caches):
            others = sum(other.idle_bytes for other in caches[index + 1 :])
            cache.shrink(max(room_bytes - others, 0.0) if others else room_bytes)
            room_bytes -= cache.idle_bytes
