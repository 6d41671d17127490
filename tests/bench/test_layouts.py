"""Layouts of pipelines: contradictions, and the best cut against every possible one."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.bench.layouts import best_partition, check_layouts, contradictions, pipeline_rate
from hydra_dse.bench.record import ModelShape, Profile


def all_cuts(count: int, chips: int) -> list[tuple[int, ...]]:
    edges = itertools.combinations_with_replacement(range(count + 1), chips - 1)
    return [tuple(b - a for a, b in itertools.pairwise((0, *cut, count))) for cut in edges]


def heaviest(loads: list[float], counts: tuple[int, ...], first: float) -> float:
    starts = [sum(counts[:index]) for index in range(len(counts))]
    sums = [sum(loads[start : start + count]) for start, count in zip(starts, counts, strict=True)]
    return max(sums[0] + first, *sums[1:]) if len(sums) > 1 else sums[0] + first


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
    st.integers(1, 5),
    st.integers(0, 10),
    st.integers(1, 40),
)
def test_no_contiguous_cut_is_lighter_than_the_best(sizes: list[int], chips: int, first: int, capacity: int) -> None:
    loads = [float(size) for size in sizes]
    found = best_partition(loads, chips, loads, float(capacity), float(first))
    fitting = [cut for cut in all_cuts(len(loads), chips) if heaviest(loads, cut, 0.0) <= capacity]
    if not fitting:
        assert found is None
        return
    assert found is not None
    assert sum(found.counts) == len(loads)
    assert found.heaviest == min(heaviest(loads, cut, float(first)) for cut in fitting)
    assert found.heaviest == heaviest(loads, found.counts, float(first))


def test_more_chips_than_items_leave_the_last_ones_empty() -> None:
    found = best_partition([2.0, 3.0], 6)
    assert found is not None
    assert (sum(found.counts), len(found.counts), len(found.loads), found.heaviest) == (2, 6, 6, 3.0)


def test_a_thousand_layers_on_a_hundred_chips_are_cut_evenly() -> None:
    found = best_partition([1.0] * 1000, 100)
    assert found is not None
    assert found.counts == (10,) * 100


def test_equal_layers_are_cut_evenly() -> None:
    found = best_partition([1.0] * 12, 3)
    assert found is not None
    assert (found.counts, found.heaviest) == ((4, 4, 4), 4.0)


@pytest.mark.parametrize(
    ("layers", "chips", "layout", "reasons"),
    [
        (12, 4, (0, 4, 4, 4), 0),
        (12, 4, (0, 3, 3, 3, 3), 1),
        (12, 4, (0, 4, 4, 3), 1),
        (36, 16, (0, *(2,) * 16), 2),
        (None, 2, (3, 3), 0),
    ],
)
def test_a_layout_has_an_entry_a_chip_and_all_layers(
    layers: int | None, chips: int, layout: tuple[int, ...], reasons: int
) -> None:
    assert len(contradictions(layers, chips, layout)) == reasons


def test_chips_of_all_replicas_are_divided_among_them() -> None:
    plan = Profile("p", "x", 16, model=ModelShape(layers=12), replicas=4, layout=(0, 4, 4, 4))
    assert check_layouts([plan, Profile("no layout", "x")]) == []


def test_a_pipeline_fills_and_drains() -> None:
    # 8 micro batches through 4 chips: 11 turns of the slowest.
    assert pipeline_rate(8, 2.0, [0.5, 1.0, 0.5, 0.5], fixed_s=5.0) == pytest.approx(16 / (11 + 5))
