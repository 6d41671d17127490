"""Collective times against step-by-step schedules that move every part by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hydra_dse.network_load import (
    all_reduce_s,
    mesh_all_reduce_s,
    mesh_all_to_all_s,
    ring_all_reduce_s,
    ring_reduce_scatter_s,
    tree_all_reduce_s,
)

ALPHA, BETA, SIZE = 20e-9, 100e9, 1e6


def ring_schedule(dies: int) -> tuple[int, float]:
    """Run a ring all-reduce on real vectors; returns the steps and the share of the vector sent per step and die."""
    rng = np.random.default_rng(dies)
    parts = rng.integers(0, 100, size=(dies, dies)).astype(float)  # parts[die, chunk]
    expected = parts.sum(axis=0)
    steps = 0
    for step in range(dies - 1):
        sent = [((die - step) % dies, parts[die, (die - step) % dies]) for die in range(dies)]
        for die, (chunk, value) in enumerate(sent):
            parts[(die + 1) % dies, chunk] += value
        steps += 1
    for step in range(dies - 1):
        sent = [((die + 1 - step) % dies, parts[die, (die + 1 - step) % dies]) for die in range(dies)]
        for die, (chunk, value) in enumerate(sent):
            parts[(die + 1) % dies, chunk] = value
        steps += 1
    assert (parts == expected).all()
    return steps, 1 / dies


@pytest.mark.parametrize("dies", [2, 3, 4, 7, 16])
def test_a_ring_takes_the_steps_of_a_schedule_that_really_reduces(dies: int) -> None:
    steps, share = ring_schedule(dies)
    assert ring_all_reduce_s(dies, SIZE, ALPHA, BETA) == pytest.approx(steps * (ALPHA + share * SIZE / BETA))


def test_two_dies_exchange_halves_twice() -> None:
    assert ring_all_reduce_s(2, SIZE, 0.0, BETA) == pytest.approx(SIZE / BETA)
    assert ring_reduce_scatter_s(2, SIZE, 0.0, BETA) == pytest.approx(SIZE / 2 / BETA)


@pytest.mark.parametrize(("columns", "rows"), [(2, 2), (4, 3), (6, 4)])
def test_a_mesh_moves_the_bytes_of_a_ring_in_fewer_steps(columns: int, rows: int) -> None:
    dies = columns * rows
    assert mesh_all_reduce_s(columns, rows, SIZE, 0.0, BETA) == pytest.approx(ring_all_reduce_s(dies, SIZE, 0.0, BETA))
    steps = mesh_all_reduce_s(columns, rows, 0.0, 1.0, BETA)
    assert steps == 2 * (columns - 1) + 2 * (rows - 1)
    assert steps < ring_all_reduce_s(dies, 0.0, 1.0, BETA)


@pytest.mark.parametrize("dies", [2, 4, 16])
def test_no_all_reduce_beats_the_bandwidth_bound(dies: int) -> None:
    # Every die must send and receive at least 2(p - 1)/p of the vector.
    bound = 2 * (dies - 1) / dies * SIZE / BETA
    assert ring_all_reduce_s(dies, SIZE, 0.0, BETA) >= bound * (1 - 1e-12)
    assert tree_all_reduce_s(dies, SIZE, 0.0, BETA) >= bound


def test_a_mesh_row_of_one_die_is_a_ring() -> None:
    assert mesh_all_reduce_s(5, 1, SIZE, ALPHA, BETA) == ring_all_reduce_s(5, SIZE, ALPHA, BETA)


def test_both_directions_halve_the_bandwidth_term_only() -> None:
    one, two = (mesh_all_reduce_s(4, 4, SIZE, ALPHA, BETA, directions=count) for count in (1, 2))
    latency = mesh_all_reduce_s(4, 4, 0.0, ALPHA, BETA)
    assert two - latency == pytest.approx((one - latency) / 2)


def test_small_vectors_go_by_tree_and_large_ones_by_mesh() -> None:
    assert all_reduce_s(4, 4, 1.0, ALPHA, BETA) == pytest.approx(tree_all_reduce_s(16, 1.0, ALPHA, BETA))
    assert tree_all_reduce_s(16, 0.0, 1.0, BETA) == 2 * math.log2(16)
    assert all_reduce_s(4, 4, 1e9, ALPHA, BETA) == mesh_all_reduce_s(4, 4, 1e9, ALPHA, BETA)
    assert all_reduce_s(1, 1, 1e9, ALPHA, BETA) == 0.0


def test_all_to_all_is_bounded_by_the_bytes_that_cross_the_middle() -> None:
    # 4 × 2: four dies send a block of SIZE/8 to each of four dies across two links.
    assert mesh_all_to_all_s(4, 2, SIZE, 0.0, BETA) == pytest.approx(4 * 4 * SIZE / 8 / 2 / BETA)
    assert mesh_all_to_all_s(1, 1, SIZE, ALPHA, BETA) == 0.0


def test_all_to_all_pays_a_latency_for_every_hop_between_the_corners() -> None:
    assert mesh_all_to_all_s(4, 2, 0.0, ALPHA, BETA) == pytest.approx((3 + 1) * ALPHA)


def test_two_dies_exchange_a_half_each_over_their_link() -> None:
    assert mesh_all_to_all_s(2, 1, SIZE, ALPHA, BETA) == pytest.approx(ALPHA + SIZE / 2 / BETA)
