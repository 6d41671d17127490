from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.mapping.layout import bandwidth_shares, fetch_matrix, imbalance, memory_sites, overlaps, work_shares
from tests.mapping.pieces import chiplet, package, stack

shares = st.lists(st.floats(0.05, 1.0), min_size=1, max_size=8).map(lambda x: np.array(x) / sum(x))


def test_equal_shares_charge_the_die_that_takes_one_head_more() -> None:
    assert imbalance(8, (0.2,) * 5) == pytest.approx(2 * 5 / 8)
    assert imbalance(8, (1 / 11,) * 11) == pytest.approx(11 / 8)


def test_a_degree_that_divides_the_heads_costs_nothing() -> None:
    assert imbalance(24, (1 / 3,) * 3) == 1.0
    assert imbalance(0, (1 / 3,) * 3) == 1.0


def test_unequal_dies_take_whole_heads_by_the_best_deal() -> None:
    # 7 heads on dies of 50, 30, 20 %: 4 + 2 + 1; the first does 4 where 3.5 would be fair.
    assert imbalance(7, (0.5, 0.3, 0.2)) == pytest.approx(4 / 3.5)


@given(st.integers(1, 40), st.integers(1, 12))
def test_imbalance_of_equal_dies_is_the_ceiling_rule(units: int, dies: int) -> None:
    assert imbalance(units, (1 / dies,) * dies) == pytest.approx(-(-units // dies) * dies / units)


@given(shares, shares)
def test_overlaps_keep_every_share(rows: np.ndarray, columns: np.ndarray) -> None:
    matrix = overlaps(rows, columns)
    assert matrix.sum(axis=1) == pytest.approx(rows)
    assert matrix.sum(axis=0) == pytest.approx(columns)


@given(shares, shares)
def test_aligned_homes_touch_fewest_stacks(rows: np.ndarray, columns: np.ndarray) -> None:
    # Two cuts of the unit interval meet in at most rows + columns − 1 pieces.
    assert np.count_nonzero(overlaps(rows, columns) > 1e-9) <= len(rows) + len(columns) - 1


def test_interleaved_homes_spread_every_die_over_all_stacks() -> None:
    matrix = fetch_matrix(np.array([0.25, 0.75]), np.array([0.5, 0.5]), "interleaved")
    assert matrix == pytest.approx(np.array([[0.125, 0.125], [0.375, 0.375]]))


def test_work_follows_matrix_peaks_and_vector_peaks_where_none_multiplies() -> None:
    assert work_shares([chiplet(), chiplet(matmul_flops_per_s=30e12)]) == pytest.approx([0.25, 0.75])
    dies = [chiplet(matmul_flops_per_s=0.0), chiplet(matmul_flops_per_s=0.0, vector_flops_per_s=4e12)]
    assert work_shares(dies) == pytest.approx([0.2, 0.8])


def test_memory_of_dies_follows_the_stacks() -> None:
    gpu = chiplet(memory_bytes=80e9, memory_bandwidth_bytes_per_s=3e12)
    on = package((DieGroup("G", gpu, 1),), (MemoryGroup("H", stack(), 2),))
    sites = memory_sites(on)
    assert [site.component for site in sites] == [1, 2, 0]
    assert bandwidth_shares(sites) == pytest.approx(np.array([0.6, 0.6, 3.0]) / 4.2)
