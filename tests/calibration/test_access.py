"""Memory efficiency by size and number of accesses: limits by hand, and kernels that no fit has seen."""

from __future__ import annotations

import pytest

from hydra_dse.calibration.access import access_share, half_size_bytes
from hydra_dse.calibration.chips import chip_figures
from hydra_dse.calibration.records import ParameterSection, read_fits
from hydra_dse.config.hardware import load_calibration

FITS = read_fits()
MADE = {
    "floor": ParameterSection(value=1e-6, low=1e-6, high=1e-6, unit="s"),
    "entry": ParameterSection(value=1e-9, low=5e-10, high=2e-9, unit="s"),
    "streamed": ParameterSection(value=0.8, low=0.7, high=0.9, unit="1"),
}


def test_few_small_accesses_pay_the_floor_and_many_large_ones_stream() -> None:
    one = access_share("decode-attention", MADE, 1e12, 1000.0, 1.0)
    assert one.value == pytest.approx(1e-9 / (1e-6 + 1e-9 + 1e-9 / 0.8))
    many = access_share("decode-attention", MADE, 1e12, 1e9, 1e6)
    assert many.value == pytest.approx(0.8, rel=1e-5)
    assert (many.low, many.high) == (pytest.approx(0.7, rel=1e-5), pytest.approx(0.9, rel=1e-5))
    assert one.low < one.value < one.high


def test_at_the_half_size_an_entry_takes_as_long_as_its_bytes() -> None:
    size = half_size_bytes(MADE, 1e12)
    assert access_share("decode-attention", MADE, 1e12, size, 1e9).value == pytest.approx(0.4, rel=1e-3)


@pytest.mark.parametrize("chip", ["h100", "b200"])
def test_the_entry_of_a_kv_access_is_worth_about_ten_kilobytes_on_both_chips(chip: str) -> None:
    found = FITS.chips[chip]["decode-attention"].parameters
    assert 5e3 < half_size_bytes(found, chip_figures(chip).memory_bytes_per_s) < 2e4


@pytest.mark.parametrize(
    ("chip", "sequences", "measured"),
    [("h100", 1, 0.268), ("h100", 32, 0.807), ("h100", 256, 0.888), ("h100", 1024, 0.898),
     ("b200", 1, 0.12), ("b200", 32, 0.743), ("b200", 256, 0.815), ("b200", 1024, 0.835)],
)  # fmt: skip
def test_state_updates_of_another_framework_reach_the_share_of_the_form(
    chip: str, sequences: int, measured: float
) -> None:
    """SGLang's gated delta net, 32 heads of 128 × 128 fp32 states (aiconfigurator); the fit saw vLLM's kernels."""
    found = FITS.chips[chip]["state-update-gdn"].parameters
    size = 2.0 * 128 * 128 * 4
    share = access_share("state-update", found, chip_figures(chip).memory_bytes_per_s, size, 32.0 * sequences)
    assert share.value == pytest.approx(measured, rel=0.2 if sequences == 1 else 0.07)


@pytest.mark.parametrize("size", [1e3, 3e4, 1e6])
def test_the_start_of_an_access_in_the_cost_model_is_that_of_the_fitted_form(size: float) -> None:
    no_floor = {**MADE, "floor": ParameterSection(value=0.0, low=0.0, high=0.0, unit="s")}
    form = access_share("decode-attention", no_floor, 1e12, size, 64.0)
    starts = half_size_bytes(MADE, 1e12)  # what `kv_access` holds: bytes of KV that stream in the time of an entry
    assert form.value == pytest.approx(MADE["streamed"].value / (1.0 + starts / size))


def test_the_measured_calibration_charges_the_start_that_both_gpus_show() -> None:
    measured = load_calibration("measured")
    sizes = [
        half_size_bytes(FITS.chips[chip]["decode-attention"].parameters, chip_figures(chip).memory_bytes_per_s)
        for chip in ("h100", "b200")
    ]
    for style in ("dataflow", "gpu", "vector"):
        part = measured.of(style)
        assert min(sizes) * 0.99 < part.kv_access_bytes < max(sizes) * 1.01
        assert part.basis["kv_access"] == ("fitted" if style == "gpu" else "transferred")
    assert load_calibration("default").default.kv_access_bytes == 0.0
