from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.hardware.components import MemoryGroup
from hydra_dse.mapping import memory_sites
from hydra_dse.operator_cost import site_bandwidth, site_seconds_per_byte
from tests.mapping.pieces import stack, two_of_each


def test_an_access_reaches_its_share_of_the_interface_peak_but_not_more_than_is_usable() -> None:
    # 819 GB/s interface of which 600 GB/s are usable: at 0.5 the share counts, at 0.8 the usable bandwidth.
    on = replace(two_of_each(), memories=(MemoryGroup("H", stack(peak_bandwidth_bytes_per_s=819e9), 1),))
    reached = site_bandwidth(memory_sites(on), np.array([1e13]), np.array([0.5, 0.8]))
    assert reached == pytest.approx(np.array([[409.5e9, 600e9]]))


def test_a_stack_gives_no_more_than_its_links_carry() -> None:
    reached = site_bandwidth(memory_sites(two_of_each()), np.array([512e9, 1e13]), np.array([1.0]))
    assert reached == pytest.approx(np.array([[512e9], [600e9]]))


def test_accesses_of_several_dies_queue_at_a_site() -> None:
    fetch = np.array([[0.5, 0.25], [0.0, 0.25]])
    bandwidth = np.array([[100.0, 50.0], [100.0, 50.0]])
    assert site_seconds_per_byte(fetch, bandwidth) == pytest.approx([0.5 / 100 + 0.25 / 50, 0.25 / 50])
