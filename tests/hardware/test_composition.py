"""Composition of dies from components, against HYDRA's published dies (arXiv 2608.19395, artifact component tables)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.config.hardware import load_chiplet, load_die
from hydra_dse.errors import InputError
from hydra_dse.hardware.composition import DieRecipe, compose, counts

BANDWIDTHS_GB_PER_S = (128, 256, 384, 512, 640)
# Cores and SRAM in MB at 128, 256, 384, 512 and 640 GB/s a link: die table of the paper.
PUBLISHED = {
    "hydra-tscs-prefill": ((49, 43), (44, 40), (40, 36), (35, 33), (32, 28)),
    "hydra-marca-decode": ((34, 54), (31, 49), (28, 45), (25, 40), (22, 35)),
}
# Areas of the components at 28 nm, mm2: core, SRAM bank of 1 MB, special-function unit, and a link's PHY, bumps and DMA
# engine per 128 GB/s.
CORE_MM2 = {"tscs": 1.3129, "marca": 1.4268}
BANK_MM2, SFU_MM2, LINK_MM2 = 1.5336, 0.02, 2.56 + 0.238 + 0.0672
HYDRA_DIES = [
    f"hydra-{core}-{phase}-{node}nm" for core in CORE_MM2 for phase in ("prefill", "decode") for node in (28, 22)
]


def recipe(name: str) -> DieRecipe:
    die = load_die(name)
    assert isinstance(die, DieRecipe)
    return die


@pytest.mark.parametrize("node", ["28nm", "22nm"])
@pytest.mark.parametrize("die", PUBLISHED)
@pytest.mark.parametrize("index", range(5))
def test_counts_of_a_hydra_die_are_the_published_ones_within_one(die: str, node: str, index: int) -> None:
    cores, megabytes = PUBLISHED[die][index]
    composed = load_chiplet(f"{die}-{node}", BANDWIDTHS_GB_PER_S[index] * 1e9)
    assert abs(composed.cores - cores) <= 1
    assert abs(composed.sram_bytes / 1e6 - megabytes) <= 1


def test_all_but_two_of_the_twenty_counts_in_the_paper_are_exact() -> None:
    wrong = 0
    for die, published in PUBLISHED.items():
        for bandwidth, (cores, megabytes) in zip(BANDWIDTHS_GB_PER_S, published, strict=True):
            wrong += sum(
                a != b for a, b in zip(counts(recipe(f"{die}-28nm"), bandwidth * 1e9), (cores, megabytes), strict=True)
            )
    assert wrong == 2


@pytest.mark.parametrize("name", HYDRA_DIES)
@pytest.mark.parametrize("bandwidth", BANDWIDTHS_GB_PER_S)
def test_components_of_a_hydra_die_sum_to_its_area(name: str, bandwidth: int) -> None:
    die = load_chiplet(name, bandwidth * 1e9)
    shrink = 0.845 if name.endswith("22nm") else 1.0
    core = CORE_MM2[name.split("-")[1]]
    by_hand = die.cores * (core + SFU_MM2) + die.sram_bytes / 1e6 * BANK_MM2 + 4 * LINK_MM2 * bandwidth / 128
    assert die.area_mm2 == pytest.approx(shrink * by_hand, rel=1e-12)
    assert math.fsum(item.area_mm2 for item in die.items) == pytest.approx(die.area_mm2, rel=1e-12)


@pytest.mark.parametrize("name", HYDRA_DIES)
def test_hydra_dies_have_the_stated_area(name: str) -> None:
    low, high = (119.5, 121.7) if name.endswith("22nm") else (142.0, 144.0)
    for bandwidth in BANDWIDTHS_GB_PER_S:
        assert low <= load_chiplet(name, bandwidth * 1e9).area_mm2 <= high


@pytest.mark.parametrize("name", HYDRA_DIES)
@given(low=st.floats(64e9, 1.0e12), factor=st.floats(1.0, 1.3))
def test_link_bandwidth_displaces_compute_and_never_exceeds_the_budget(name: str, low: float, factor: float) -> None:
    die = recipe(name)
    slow, fast = compose(die, low), compose(die, low * factor)
    assert fast.cores <= slow.cores
    assert fast.matmul_flops_per_s <= slow.matmul_flops_per_s
    assert fast.area_mm2 <= die.budget_mm2
    # What is left over is less than one core and one bank.
    assert die.budget_mm2 - fast.area_mm2 < die.core.area_mm2 + die.components.bank_mm2


def test_peak_counts_two_flops_per_mac_where_hydra_counts_one() -> None:
    die = load_chiplet("hydra-tscs-prefill-28nm", 256e9)
    assert die.matmul_flops_per_s == 44 * 256 * 1e9 * 2
    assert die.vector_flops_per_s == pytest.approx(44 * (16e9 + 4 * 2.4e9))
    assert die.sram_bandwidth_bytes_per_s == 40 * 96e9


def test_a_mamba_die_has_more_vector_rate_than_an_attention_die_of_the_same_area() -> None:
    marca, tscs = load_chiplet("hydra-marca-prefill-22nm"), load_chiplet("hydra-tscs-prefill-22nm")
    assert marca.vector_flops_per_s > 5 * tscs.vector_flops_per_s
    assert marca.matmul_flops_per_s < tscs.matmul_flops_per_s


def test_links_that_leave_no_room_for_a_core_are_refused_with_the_areas() -> None:
    with pytest.raises(InputError, match=r"4 links of 1\.6 TB/s take 143\.3 mm2 of 144\.0 mm2"):
        load_chiplet("hydra-tscs-prefill-28nm", 1.6e12)


def test_a_die_of_fixed_counts_grows_with_its_links() -> None:
    slow, fast = load_chiplet("systolic-prefill-7nm", 256e9), load_chiplet("systolic-prefill-7nm", 1024e9)
    assert slow.cores == fast.cores == 192
    assert slow.sram_bytes == 192 * 2e6
    # PHY and bumps shrink by 2.28 (analog) and the DMA engine by 8.45 (logic) from 28 to 7 nm, ECO-CHIP's tables.
    step = (2.56 + 0.238) / 2.28 + 0.0672 / 8.45
    assert fast.area_mm2 - slow.area_mm2 == pytest.approx(4 * 6 * step, rel=1e-3)


def test_seven_nanometre_dies_have_the_published_counts_and_fit_a_reticle() -> None:
    prefill, decode = load_chiplet("systolic-prefill-7nm"), load_chiplet("vector-decode-7nm")
    assert (prefill.cores, prefill.array_rows, prefill.array_columns, prefill.ports) == (192, 64, 32, 4)
    assert prefill.link_bandwidth_bytes_per_s == 256e9
    assert prefill.matmul_flops_per_s == 192 * 64 * 32 * 2e9
    assert (decode.cores, decode.array_columns, decode.sram_bytes) == (96, 32, 192e6)
    assert decode.link_bandwidth_bytes_per_s == 1024e9
    assert max(prefill.area_mm2, decode.area_mm2) < 26 * 33
