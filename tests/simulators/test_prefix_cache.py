"""The prefix cache on its own: what it finds, what it evicts, and that bytes and references add up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.errors import InvariantBroken
from hydra_dse.policy import Policy
from simulators.serving.prefix import MISS, Hit, PrefixCache, PrefixShape

TRANSFORMER = PrefixShape(10, 1, 1, 10.0, 0.0)
HYBRID = PrefixShape(10, 1, 1, 10.0, 40.0, checkpoint_units=2)
SSM = PrefixShape(10, 1, 1, 0.0, 40.0, checkpoint_units=2)
PATH = [1, 2, 3, 4, 5]


def served(cache: PrefixCache, path: list[int], units: int, most_bytes: float = 1e9) -> None:
    """A request that computes `units` units of a path and ends."""
    cache.add(path, 0, units)
    cache.leave(path, units)
    cache.shrink(most_bytes)


def test_a_unit_holds_whole_blocks_of_both_kinds() -> None:
    shape = PrefixShape.of(Policy(block_tokens=48, state_checkpoint_tokens=100), 32, 2.0, 7.0)
    assert (shape.unit_tokens, shape.blocks_per_unit, shape.ids_per_unit) == (96, 2, 3)
    assert (shape.kv_bytes, shape.state_bytes, shape.checkpoint_units) == (192.0, 7.0, 2)
    assert shape.path(range(8)) == [2, 5]


def test_an_empty_cache_finds_nothing() -> None:
    assert PrefixCache(TRANSFORMER).match(PATH, 60) == MISS


def test_the_longest_cached_prefix_is_found_but_one_token_is_always_computed() -> None:
    cache = PrefixCache(TRANSFORMER)
    served(cache, PATH, 4)
    assert cache.match(PATH, 60).units == 4
    assert cache.match(PATH, 40).units == 3
    assert cache.match([1, 2, 9, 4], 60).units == 2


def test_units_that_others_read_take_no_memory_of_a_hit() -> None:
    cache = PrefixCache(TRANSFORMER)
    served(cache, PATH, 3)
    cache.read(PATH, 2)
    assert cache.match(PATH, 60) == Hit(3, 1, 0.0)
    assert (cache.pinned_blocks, cache.idle_bytes) == (2, 10.0)


def test_a_hybrid_hit_ends_at_a_checkpoint() -> None:
    """Checkpoints at units 2 and 4; the KV of five units is cached."""
    cache = PrefixCache(HYBRID)
    served(cache, PATH, 5)
    assert cache.match(PATH, 60).units == 4
    assert cache.match([1, 2, 3, 9, 9], 60).units == 2
    assert cache.match([1, 9], 60).units == 0


def test_a_hybrid_hit_needs_both_kv_and_a_checkpoint() -> None:
    cache = PrefixCache(HYBRID)
    served(cache, PATH, 5)
    without = PrefixCache(PrefixShape(10, 1, 1, 10.0, 40.0, checkpoint_units=0))
    served(without, PATH, 5)
    assert cache.match(PATH, 60).units == 4
    assert without.match(PATH, 60) == MISS


def test_a_model_without_attention_needs_checkpoints_alone() -> None:
    cache = PrefixCache(SSM)
    served(cache, PATH, 5)
    assert cache.match(PATH, 60) == Hit(4, 0, 0.0)
    assert cache.idle_bytes == 80.0


def test_the_least_recently_used_is_evicted_first_and_deep_units_before_shallow_ones() -> None:
    cache = PrefixCache(TRANSFORMER)
    served(cache, [1, 2, 3], 3)
    served(cache, [7, 8], 2)
    cache.shrink(40.0)
    assert [cache.match(path, 99).units for path in ([1, 2, 3], [7, 8])] == [2, 2]
    cache.read([1, 2], 2)
    cache.leave([1, 2], 2)
    cache.shrink(20.0)
    assert [cache.match(path, 99).units for path in ([1, 2, 3], [7, 8])] == [2, 0]


def test_a_deep_checkpoint_is_evicted_before_the_kv_below_it() -> None:
    cache = PrefixCache(HYBRID)
    served(cache, PATH, 4)
    assert cache.idle_bytes == 4 * 10.0 + 2 * 40.0
    cache.shrink(119.0)
    assert cache.match(PATH, 99).units == 2
    assert cache.idle_bytes == 80.0


def test_what_is_read_is_never_evicted() -> None:
    cache = PrefixCache(TRANSFORMER)
    served(cache, PATH, 5)
    cache.read(PATH, 3)
    cache.shrink(0.0)
    assert cache.match(PATH, 99) == Hit(3, 0, 0.0)


def test_evicted_entries_lie_on_the_host_and_come_back_by_bytes() -> None:
    cache = PrefixCache(PrefixShape(10, 1, 1, 10.0, 0.0, host_bytes=30.0, host_bytes_per_s=1.0))
    served(cache, PATH, 5, most_bytes=20.0)
    assert (cache.idle_bytes, cache.host_bytes) == (20.0, 30.0)
    assert cache.match(PATH, 99) == Hit(5, 5, 30.0)
    cache.read(PATH, 5)
    assert (cache.pinned_blocks, cache.host_bytes) == (5, 0.0)


def test_a_full_host_forgets_what_was_evicted_first() -> None:
    cache = PrefixCache(PrefixShape(10, 1, 1, 10.0, 0.0, host_bytes=20.0, host_bytes_per_s=1.0))
    served(cache, PATH, 5, most_bytes=10.0)
    assert cache.match(PATH, 99) == Hit(3, 3, 20.0)


def test_a_reader_that_never_leaves_is_noticed() -> None:
    cache = PrefixCache(TRANSFORMER)
    cache.read(PATH, 0)
    cache.add(PATH, 0, 2)
    with pytest.raises(InvariantBroken, match="still read"):
        cache.check_unread()


paths = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 6)), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(paths, st.sampled_from((TRANSFORMER, HYBRID, SSM)), st.floats(0.0, 600.0))
def test_bytes_and_references_add_up_and_no_hole_is_left(
    requests: list[tuple[int, int]], shape: PrefixShape, most_bytes: float
) -> None:
    """Chains that share nothing or all: a hit is never longer than what some request of the chain computed."""
    cache, longest = PrefixCache(shape), dict.fromkeys(range(1, 6), 0)
    running: list[tuple[list[int], int]] = []
    for chain, length in requests:
        path = [100 * chain + index for index in range(length)]
        hit = cache.match(path, 10 * length + 5)
        assert hit.units <= min(length, longest[chain])
        cache.read(path, hit.units)
        cache.add(path, hit.units, length)
        longest[chain] = max(longest[chain], length)
        running.append((path, length))
        if len(running) > 3:
            cache.leave(*running.pop(0))
        cache.shrink(most_bytes)
        assert cache.idle_bytes <= most_bytes
    for path, length in running:
        cache.leave(path, length)
    cache.check_unread()
    assert cache.pinned_blocks == 0
