"""The library that ships: every entry loads, is sourced, and says what its sources say."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from hydra_dse.config.hardware import load_calibration, load_chiplet, load_link, load_memory
from hydra_dse.config.library import library_names
from hydra_dse.errors import InputError
from hydra_dse.hardware.calibration import ACCESS_KINDS
from hydra_dse.hardware.components import MemoryStack
from hydra_dse.model.operators import OperatorClass

# Dense bf16 or fp16 peak in TFLOP/s, memory in GB and GB/s, die in mm2: data sheets as listed in the library's sources.
PRODUCTS = {
    "a100": (312, 80, 2039, 826),
    "h100": (989, 80, 3350, 814),
    "h200": (989, 141, 4800, 814),
    "b200": (2250, 180, 7700, None),
    "tpu-v5e": (197, 16, 819, None),
    "tpu-v6e": (918, 32, 1640, None),
    "wse-2": (7500, 40, 20e6, 46225),
    "sn40l": (638, 64, 1600, None),
    "bow-ipu": (350, 0.9, 66e3, None),
    "sn30": (688, 1000, 200, None),
    "gc200": (250, 0.9, 47.5e3, None),
}


@pytest.mark.parametrize("name", library_names("chiplets"))
def test_every_die_loads_and_is_sourced(name: str) -> None:
    die = load_chiplet(name)
    assert len(die.source) > 20
    assert min(die.area_mm2, die.matmul_flops_per_s, die.vector_flops_per_s, die.joules_per_flop) > 0
    dynamic = die.matmul_flops_per_s * die.joules_per_flop + die.sram_bandwidth_bytes_per_s * die.joules_per_sram_byte
    assert die.static_power_w < 0.33 * (dynamic + die.static_power_w)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_have_their_published_figures_and_their_memory_on_the_die(name: str) -> None:
    peak, capacity, bandwidth, area = PRODUCTS[name]
    die = load_chiplet(name)
    assert die.matmul_flops_per_s == peak * 1e12
    assert die.memory_bytes == capacity * 1e9
    assert die.memory_bandwidth_bytes_per_s == bandwidth * 1e9
    assert area is None or die.area_mm2 == area


def test_a_product_keeps_its_size_at_any_link_bandwidth() -> None:
    assert load_chiplet("h100", 640e9) == load_chiplet("h100")


def test_an_h100_at_full_rate_draws_no_more_than_its_board_limit() -> None:
    die = load_chiplet("h100")
    gemm = die.static_power_w + 0.71 * die.matmul_flops_per_s * die.joules_per_flop  # 697 of 989 TFLOP/s, as measured
    assert gemm == pytest.approx(691, rel=0.02)


@pytest.mark.parametrize("name", library_names("memories"))
def test_every_stack_loads_and_is_sourced(name: str) -> None:
    stack = load_memory(name)
    assert len(stack.source) > 20
    assert 1e-12 * 8 * 2 < stack.joules_per_byte < 1e-12 * 8 * 10
    assert stack.phy_area_mm2 > 0


def test_hydra_memory_is_sixteen_gigabytes_at_six_hundred_usable() -> None:
    stack = load_memory("hydra-hbm3")
    assert stack.capacity_bytes == 16e9
    assert stack.bandwidth_bytes_per_s == 600e9


def test_efficiency_counts_against_the_interface_peak_and_never_exceeds_the_usable_bandwidth() -> None:
    stack = load_memory("hydra-hbm3")
    assert stack.achievable_bytes_per_s(0.8) == 600e9
    assert stack.achievable_bytes_per_s(0.5) == pytest.approx(409.5e9)
    plain = MemoryStack("m", "HBM3", 16e9, 100e9, 0.0, 1.0)
    assert plain.achievable_bytes_per_s(0.8) == pytest.approx(80e9)


def test_generations_of_hbm_gain_bandwidth() -> None:
    bandwidth = [load_memory(name).bandwidth_bytes_per_s for name in ("hbm2e", "hbm3", "hbm3e", "hbm4")]
    assert bandwidth == sorted(bandwidth)
    assert bandwidth[0] == pytest.approx(1024 * 3.6e9 / 8, rel=1e-3)


def test_ucie_densities_are_lanes_times_rate_over_module_width() -> None:
    standard, advanced = load_link("ucie-standard"), load_link("ucie-advanced")
    assert standard.density_bytes_per_s_per_mm == pytest.approx(16 * 32e9 / 8 / 0.5715, rel=0.01)
    assert advanced.density_bytes_per_s_per_mm == pytest.approx(64 * 32e9 / 8 / 0.3888, rel=0.01)
    assert advanced.reach_mm == 2
    assert advanced.joules_per_byte == pytest.approx(0.3e-12 * 8)


@pytest.mark.parametrize("name", library_names("links"))
def test_every_link_class_loads_and_is_sourced(name: str) -> None:
    link = load_link(name)
    assert len(link.source) > 20
    assert 0.5 < link.efficiency < 1
    # Links between packages, whose ports are silicon of their own, go over a board.
    assert 1e-9 < link.latency_s < (20e-9 if math.isinf(link.phy_bytes_per_s_per_mm2) else 1e-6)


@pytest.mark.parametrize("style", ["systolic", "mac-array", "vector", "gpu", "dataflow"])
def test_the_default_calibration_covers_every_operator_and_access(style: str) -> None:
    calibration = load_calibration().of(style)
    assert set(calibration.compute) == set(OperatorClass)
    assert set(calibration.memory) == set(ACCESS_KINDS)
    assert "assumption" in calibration.source


def test_the_scan_of_a_gpu_stays_at_the_three_to_four_percent_that_were_measured() -> None:
    assert 0.03 <= load_calibration().of("gpu").compute[OperatorClass.SSM_SCAN] <= 0.04


def test_the_scan_of_a_vector_die_is_ordinary_element_wise_work() -> None:
    compute = load_calibration().of("vector").compute
    assert compute[OperatorClass.SSM_SCAN] == compute[OperatorClass.NORM]


def test_a_misspelt_die_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"no chiplet called 'h1000'.*did you mean 'h100'"):
        load_chiplet("h1000")


@pytest.mark.parametrize("load", [load_memory, load_link, load_calibration])
def test_an_unknown_name_is_answered_with_the_known_ones(load: Callable[[str], object]) -> None:
    with pytest.raises(InputError, match=r"in the library.*known: "):
        load("nothing-like-it")
