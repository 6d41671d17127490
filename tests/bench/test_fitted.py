"""Modelled chips at rates fitted to the chip itself: they reproduce their tables, and nothing outruns physics."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner

from hydra_dse.bench.modelled import Case, Machine, modelled
from hydra_dse.bench.record import ModelShape, Profile
from hydra_dse.bench.sweep import modelled_profiles
from hydra_dse.bench.tier1 import Settings, tier1_of
from hydra_dse.cli.app import app
from hydra_dse.config.library import LIBRARY, library_names
from hydra_dse.config.machines import load_machine_fits
from hydra_dse.hardware.machine_fit import FittedValue, MachineFit

MODES = {"wse-2": "resident", "sn30": "sections", "sn40l": "sections", "bow-ipu": "pipelined", "gc200": "pipelined"}
GPT2 = "layers=12,hidden=768,vocabulary=50257"


def swept(chip: str, sweep: str, phase: str = "training", calibration: str = "fitted") -> list[Profile]:
    return modelled_profiles(chip, sweep, phase, calibration, Settings())


@pytest.mark.parametrize("chip", library_names("chiplets"))
def test_every_shipped_die_runs_the_fitted_sweep_in_its_mode_and_running_out_of_memory_is_a_row(chip: str) -> None:
    profiles = swept(chip, "layers=1/12/200,hidden=768/6144")
    assert {profile.mode for profile in profiles} == {MODES.get(chip, "kernels")}
    assert profiles[0].samples_per_s
    assert "out of memory" in profiles[-1].failure
    assert profiles[-1].samples_per_s is None


@pytest.mark.parametrize("chip", ["wse-2", "sn30", "sn40l", "bow-ipu", "gc200", "h100"])
@pytest.mark.parametrize("phase", ["training", "prefill", "decode"])
def test_no_fitted_step_is_faster_than_its_roofline(chip: str, phase: str) -> None:
    ways = "/streaming" if chip == "wse-2" else ""
    mode = f",mode={MODES.get(chip, 'kernels')}{ways}"
    for profile in swept(chip, f"layers=2/12,hidden=768/8192,batch=1/16{mode}", phase):
        line = tier1_of(profile).roofline
        assert line is not None
        if not profile.failure:
            assert line.achieved_flops_per_s is not None
            assert line.attainable_flops_per_s is not None
            assert line.achieved_flops_per_s <= line.attainable_flops_per_s


@pytest.mark.parametrize(("layers", "device_s", "host_s"), [(1, 0.314, 1.445), (12, 1.088, 1.532), (36, 2.783, 1.668)])
def test_sections_of_an_rdu_take_the_time_of_its_published_runs(layers: int, device_s: float, host_s: float) -> None:
    """Device and host milliseconds of the SN30 sweep at width 1,600 (the fit saw these rows, over all widths)."""
    [profile] = swept("sn30", f"layers={layers},hidden=1600,batch=16,vocabulary=50257")
    assert profile.device_s == pytest.approx(device_s, rel=0.06)
    assert profile.host_s == pytest.approx(host_s, rel=0.05)
    assert profile.step_s == pytest.approx(device_s + host_s, rel=0.05)


def test_a_resident_gpt2_runs_near_the_rate_of_its_compile_report() -> None:
    """860.3 samples/s; the fit saw what its kernels do while busy, not which share of the elements each has."""
    [profile] = swept("wse-2", f"{GPT2},batch=2048")
    assert 1 / 1.4 < profile.samples_per_s / 860.3 < 1.4


def test_a_measured_speed_of_fp32_replaces_the_ratio_of_peaks() -> None:
    (shipped,) = load_machine_fits("bow-ipu")

    def rate(speed: float | None, precision: str = "fp32") -> float:
        parameters = {name: each for name, each in shipped.parameters.items() if name not in ("fp32", "fixed")}
        if speed is not None:
            parameters["fp32"] = FittedValue(speed, speed, speed, "measured", "made up")
        fit = replace(shipped, parameters=parameters)
        sweep = f"{GPT2},batch=64,precision={precision}"
        (profile,) = modelled_profiles("bow-ipu", sweep, "training", "fitted", Settings(), fits=(fit,))
        assert profile.samples_per_s is not None
        return profile.samples_per_s

    # The peaks of Bow differ by 4; at a speed of 1 a format costs nothing.
    assert rate(0.25) == pytest.approx(rate(None), rel=0.02)
    assert rate(1.0) == pytest.approx(rate(None, "fp16"), rel=0.02)
    assert rate(0.25) < rate(0.425) < rate(1.0)


def test_a_decode_step_on_rdus_pays_for_every_kv_head_of_every_sequence() -> None:
    few, many = (
        swept("sn40l", f"layers=32,hidden=4096,kv_width={width},batch=16,sequence=128", "decode")[0].device_s
        for width in (1024, 4096)
    )
    entry = next(fit for fit in load_machine_fits("sn40l") if fit.phase == "decode").value("entry")
    # 24 heads of 128 more in 32 layers, and the wider projections and caches that come with them.
    assert many - few == pytest.approx(16 * 24 * 32 * entry, rel=0.6)
    assert many - few > 16 * 24 * 32 * entry


def test_operators_in_turn_take_the_time_of_the_other_compile_mode() -> None:
    [profile] = swept("sn30", "layers=36,hidden=1600,batch=16,vocabulary=50257,mode=kernels")
    assert profile.device_s == pytest.approx(9.626, rel=0.03)


def test_the_pipeline_of_another_generation_follows_from_the_first_ones_rows() -> None:
    """Bow at the ratio of peaks; a POD16 runs four replicas at 1,059 samples/s, which no fit has seen."""
    [profile] = swept("bow-ipu", f"{GPT2},batch=2048")
    assert profile.layout == (0, 4, 4, 4)
    assert profile.samples_per_s is not None
    assert 4 * profile.samples_per_s == pytest.approx(1059, rel=0.06)


def test_a_compilation_for_the_wafer_leaves_some_elements_and_counts_them_its_own_way() -> None:
    """GPT-2's report fills 91.72 % of 307,840 elements; the fit saw another model of width 256."""
    [profile] = swept("wse-2", f"{GPT2},batch=256")
    [share] = tier1_of(profile).allocation.values()
    assert share.total == 307_840
    assert share.mean == pytest.approx(0.9172, rel=0.04)


def test_transport_slows_a_stack_deeper_than_where_it_was_first_seen() -> None:
    fits = load_machine_fits("wse-2")
    start = fits[0].value("transport_layers")
    assert 72 < start < 96  # the regimes of the depth sweep
    shallow, deep = swept("wse-2", "layers=72/144,hidden=64,sequence=64,batch=100000")
    assert shallow.samples_per_s
    assert deep.samples_per_s
    # Twice the layers share the elements, and the power law takes its part.
    expected = 0.5 * (start / 144) ** fits[0].value("transport_exponent")
    assert deep.samples_per_s / shallow.samples_per_s == pytest.approx(expected, rel=0.05)


def test_the_busiest_section_of_an_rdu_takes_three_quarters_of_its_cores() -> None:
    [share] = tier1_of(swept("sn30", "layers=12,hidden=1600,batch=16")[0]).allocation.values()
    assert share.mean == pytest.approx(0.76, abs=0.01)


def test_what_is_not_the_multipliers_time_does_not_grow_with_the_format() -> None:
    """SN30's published pair of configurations gains 34.6 %."""
    slow, fast = swept("sn30", "layers=32,hidden=4096,batch=16,precision=fp32/mixed")
    assert slow.device_s is not None
    assert fast.device_s is not None
    assert slow.device_s / fast.device_s == pytest.approx(1.346, rel=0.1)


def test_a_step_without_work_takes_its_fixed_part_and_its_launches() -> None:
    [die] = [fit for fit in load_machine_fits("sn30") if fit.mode == "sections"]
    [profile] = swept("sn30", "layers=40,hidden=64,batch=1,sequence=1")
    assert profile.device_s == pytest.approx(die.value("fixed") + 40 * die.value("launch"), rel=0.01)


def test_made_up_launches_add_up_by_hand() -> None:
    from hydra_dse.bench.flops import Counting
    from hydra_dse.config.hardware import load_calibration, load_chiplet

    die = load_chiplet("sn30")
    made = {"share": 1e-3, "launch": 0.5, "fixed": 3.0, "host": 7.0, "host_layer": 0.25}
    values = {name: FittedValue(value, value, value, "assumption", "made") for name, value in made.items()}
    fit = MachineFit("sn30", "sections", "training", values)
    board = Machine(die, load_calibration("measured"), None, Counting(), (fit,))
    shape = ModelShape("", 6, 512)
    profile = modelled(board, Case(shape, 4.0, 256, "bf16"))
    flops = 3 * 6 * (24 * 512**2 * 1024 + 4 * 1024 * 256 * 512)
    work = flops / (1e-3 * die.matmul_flops_per_s)
    assert profile.device_s == pytest.approx(3.0 + 6 * 0.5 + work, rel=0.03)
    assert profile.host_s == 7.0 + 6 * 0.25
    bare = modelled(replace(board, fits=()), Case(shape, 4.0, 256, "bf16"))
    assert bare.step_s is not None
    assert bare.step_s < 0.1


def test_the_output_says_what_is_fitted_and_what_is_assumed() -> None:
    words = ["bench", "tier1", "--chip", "bow-ipu", "--sweep", "layers=12,hidden=768"]
    said = json.loads(CliRunner().invoke(app, [*words, "--json"]).output)["profiles"][0]["profile"]["basis"]
    assert "transferred (GC200, ipu-pipeline-gpt-117m)" in said
    assert "calibration measured" in said
    text = CliRunner().invoke(app, ["bench", "tier2", "--chip", "h100"]).output
    assert "nothing fitted to this chip" in " ".join(text.split())


def test_the_library_of_machines_is_what_the_shipped_fits_give() -> None:
    from hydra_dse.calibration.machines import machines_yaml
    from hydra_dse.calibration.records import read_fits

    held = (LIBRARY / "machines.yaml").read_text(encoding="utf-8")
    assert held == machines_yaml(read_fits()), "run `python benchmarks/derive_calibrations.py`"
