"""The cache memory by hand: what is admitted, what is held when, and what prefixes and other models take of it."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.errors import InvariantBroken
from simulators.serving import CacheShape
from simulators.serving.memory import CacheMemory
from simulators.serving.prefix import Hit, PrefixCache, PrefixShape

# Blocks of 10 bytes, states of 40; of 320 bytes admissions may fill 240.
SHAPE = CacheShape(320.0, 1.0, 40.0, block_tokens=10, watermark=0.25)
# Units of 20 tokens are two blocks; a checkpoint every two units.
UNITS = PrefixShape(20, 2, 1, 20.0, 40.0, checkpoint_units=2)
PATH = [1, 2, 3, 4, 5]


def test_a_sequence_holds_whole_blocks_and_one_state() -> None:
    assert [SHAPE.bytes_of(tokens) for tokens in (0, 1, 10, 11)] == [40.0, 50.0, 50.0, 60.0]


def test_prompts_are_admitted_up_to_the_watermark_exactly() -> None:
    memory = CacheMemory(SHAPE)
    assert memory.admits(200) and not memory.admits(201)
    assert memory.admits(190, reserved_blocks=1) and not memory.admits(190, reserved_blocks=2)
    memory.admit(100, 0.0)
    assert memory.used_bytes == 140.0
    assert memory.admits(60) and not memory.admits(61)
    assert memory.admits(61, freed_bytes=10.0)


def test_decode_steps_may_fill_what_admissions_leave_free() -> None:
    memory = CacheMemory(SHAPE)
    memory.admit(95, 0.0)
    assert memory.free_blocks == (320 - 140) // 10
    memory.grow(memory.free_blocks, 1.0)
    assert memory.used_bytes == memory.peak_bytes == 320.0
    with pytest.raises(InvariantBroken, match="330 of 320"):
        memory.grow(1, 2.0)


def test_without_kv_steps_never_lack_blocks() -> None:
    memory = CacheMemory(CacheShape(100.0, 0.0, 40.0))
    memory.admit(1_000_000, 0.0)
    assert memory.used_bytes == 40.0
    assert memory.free_blocks > 1 << 60


def test_nothing_is_given_back_twice() -> None:
    memory = CacheMemory(SHAPE)
    memory.admit(100, 0.0)
    memory.release(100, 1.0)
    with pytest.raises(InvariantBroken, match="-10 blocks"):
        memory.release(100, 2.0)


def test_blocks_and_states_are_integrated_over_the_time_that_they_are_held() -> None:
    memory = CacheMemory(SHAPE)
    memory.admit(95, 1.0)
    memory.admit(10, 3.0)
    memory.grow(2, 4.0)
    memory.release(95, 6.0)
    memory.integrate(10.0)
    # 10 blocks for 2 s, 11 for 1 s, 13 for 2 s, 3 for 4 s; one state for 2 s, two for 3 s, one for 4 s.
    assert memory.block_seconds == 10 * 2 + 11 + 13 * 2 + 3 * 4
    assert memory.state_seconds == 2 + 2 * 3 + 4
    assert memory.peak_bytes == 13 * 10 + 2 * 40


@pytest.mark.parametrize("steps", [10, 200])
def test_many_steps_at_once_are_booked_as_one_by_one_to_the_last_bit(steps: int) -> None:
    rng = np.random.default_rng(steps)
    blocks, start_s = rng.integers(0, 3, steps), 0.1 + np.cumsum(rng.exponential(size=steps))
    together, apart = (CacheMemory(CacheShape(1e9, 1.0, 40.0, block_tokens=10)) for _ in range(2))
    for memory in (together, apart):
        memory.admit(100, 0.1)
    together.grow_in_steps(blocks, start_s)
    for count, time_s in zip(blocks.tolist(), start_s.tolist(), strict=True):
        apart.grow(count, time_s)
    for memory in (together, apart):
        memory.integrate(1e4)
    for name in ("blocks", "block_seconds", "state_seconds", "peak_bytes"):
        assert getattr(together, name) == getattr(apart, name)


def test_a_shared_prefix_is_held_once_and_stays_while_anyone_reads_it() -> None:
    memory = CacheMemory(SHAPE, PrefixCache(UNITS))
    assert memory.prefix is not None
    memory.admit(100, 0.0, PATH, 0)
    memory.share(PATH, 0, 4, 1.0)
    # Ten blocks as before, of which eight are the cache's; checkpoints after units 2 and 4 lie idle.
    assert (memory.blocks, memory.used_blocks, memory.used_bytes, memory.prefix.idle_bytes) == (2, 10, 140.0, 80.0)
    hit = memory.prefix.match(PATH, 100)
    assert hit == Hit(4, 0, 0.0)
    # The second needs two blocks and a state beside the eight blocks that the first holds: 60 of the 100 that are left.
    assert not memory.admits(100)
    assert memory.admits(100, reserved_blocks=4, hit=hit) and not memory.admits(100, reserved_blocks=5, hit=hit)
    memory.admit(100, 2.0, PATH, 4)
    assert (memory.used_blocks, memory.states, memory.peak_bytes) == (12, 2, 200.0)
    memory.release(100, 3.0, PATH, 4)
    assert (memory.used_blocks, memory.states) == (10, 1)
    memory.release(100, 5.0, PATH, 4)
    assert (memory.blocks, memory.used_blocks, memory.used_bytes) == (0, 0, 0.0)
    assert memory.prefix.idle_bytes == 80.0 + 4 * 20.0
    assert memory.block_seconds == 10 * 2 + 12 + 10 * 2
    assert memory.state_seconds == 2 + 2 + 2
    assert memory.idle_byte_seconds == 80.0 * 4


def test_units_that_nobody_reads_any_more_take_memory_again_when_hit() -> None:
    memory = CacheMemory(SHAPE, PrefixCache(UNITS))
    assert memory.prefix is not None
    memory.admit(100, 0.0, PATH, 0)
    memory.share(PATH, 0, 4, 0.0)
    memory.release(100, 1.0, PATH, 4)
    hit = memory.prefix.match(PATH, 100)
    assert hit == Hit(4, 4, 0.0)
    # A stranger of 100 bytes leaves 140 below the watermark: all that the hit needs, its idle units included.
    memory.admit(60, 1.0)
    assert memory.admits(100, hit=hit) and not memory.admits(100, reserved_blocks=1, hit=hit)
    memory.admit(100, 1.0, PATH, 4)
    assert memory.used_bytes == 240.0
    assert memory.prefix.idle_bytes == 80.0


def test_running_requests_push_idle_entries_out() -> None:
    memory = CacheMemory(SHAPE, PrefixCache(UNITS))
    assert memory.prefix is not None
    memory.admit(100, 0.0, PATH, 0)
    memory.share(PATH, 0, 4, 0.0)
    memory.release(100, 1.0, PATH, 4)
    assert memory.prefix.idle_bytes == 160.0
    memory.admit(200, 2.0)
    assert memory.prefix.idle_bytes <= 320.0 - 240.0
    memory.grow(8, 3.0)
    assert (memory.used_bytes, memory.prefix.idle_bytes) == (320.0, 0.0)


def test_models_that_share_the_memory_see_what_the_other_holds() -> None:
    one, other = CacheMemory(SHAPE), CacheMemory(SHAPE)
    one.sharers, other.sharers = [other], [one]
    one.admit(100, 0.0)
    assert (other.used_bytes, other.own_bytes) == (140.0, 0.0)
    assert other.admits(60) and not other.admits(61)
    other.admit(60, 1.0)
    assert one.free_blocks == other.free_blocks == (320 - 240) // 10
    assert (one.peak_bytes, other.peak_bytes) == (140.0, 100.0)
    with pytest.raises(InvariantBroken):
        other.grow(9, 2.0)


def test_caches_of_models_that_share_the_memory_shrink_together_the_grower_first() -> None:
    one, other = (CacheMemory(SHAPE, PrefixCache(UNITS)) for _ in range(2))
    one.sharers, other.sharers = [other], [one]
    assert one.prefix is not None and other.prefix is not None
    for memory in (one, other):
        memory.admit(100, 0.0, PATH, 0)
        memory.share(PATH, 0, 4, 0.0)
        memory.release(100, 1.0, PATH, 4)
    kept = other.prefix.idle_bytes
    assert kept > 0.0
    one.admit(100, 2.0)
    # 140 of 320 are in use: what the other's cache has stays, its own shrinks to what is left of 180.
    assert other.prefix.idle_bytes == kept
    assert 0.0 < one.prefix.idle_bytes <= 180.0 - kept
    one.admit(100, 3.0)
    assert one.prefix.idle_bytes == 0.0
    assert 0.0 < other.prefix.idle_bytes <= 40.0
