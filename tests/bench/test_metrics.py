"""Tier-1 metrics, FLOPs, bytes and rooflines against values worked out by hand."""

from __future__ import annotations

import pytest

from hydra_dse.bench.advice import layout_advice, relief_of
from hydra_dse.bench.flops import (
    Behind,
    Counting,
    block_activations,
    block_flops,
    forward_flops,
    level_bytes,
    parameters,
    step_flops,
)
from hydra_dse.bench.metrics import (
    allocation_ratios,
    chip_to_slowest_kernel,
    effective_use,
    load_imbalance,
    unweighted_imbalance,
)
from hydra_dse.bench.record import MemoryLevel, ModelShape, Profile, Unit
from hydra_dse.bench.roofline import behind_levels, levels_of, roofline_of
from hydra_dse.bench.tier1 import Settings, tier1_of
from hydra_dse.config.hardware import load_chiplet, load_memory

UNITS = (
    Unit("a", resources={"pe": 60.0}, rate_per_s=10.0),
    Unit("b", resources={"pe": 20.0}, rate_per_s=20.0),
    Unit("c", resources={"pe": 10.0}),
)
SMALL = ModelShape("gpt2", 12, 768, 12, None, None, 2, 50257)


def test_allocation_adds_up_units_over_the_stated_denominator() -> None:
    profile = Profile("p", "x", units=UNITS, totals={"pe": 100.0})
    assert allocation_ratios(profile)["pe"].mean == pytest.approx(0.9)
    assert allocation_ratios(profile, {"pe": 180.0})["pe"].mean == pytest.approx(0.5)
    assert allocation_ratios(profile, {"pe": 180.0})["pe"].total == 180


def test_sections_count_by_their_time() -> None:
    units = (Unit("a", "1", resources={"u": 8.0}, time=1.0), Unit("b", "2", resources={"u": 2.0}, time=3.0))
    ratio = allocation_ratios(Profile("p", "x", units=units, totals={"u": 10.0}))["u"]
    assert (ratio.mean, ratio.maximum) == (pytest.approx(0.35), pytest.approx(0.8))


def test_imbalance_weighs_units_by_their_resources_and_drops_those_without_a_rate() -> None:
    profile = Profile("p", "x", units=UNITS)
    assert load_imbalance(profile) == pytest.approx((60 + 20 * 0.5) / 80)
    assert unweighted_imbalance(profile) == pytest.approx(0.75)


def test_equal_units_are_even_and_one_unit_alone_says_nothing() -> None:
    even = tuple(Unit(name, resources={"pe": 5.0}, rate_per_s=3.0) for name in "abc")
    assert load_imbalance(Profile("p", "x", units=even)) == pytest.approx(1.0)
    assert load_imbalance(Profile("p", "x", units=even[:1])) is None


def test_imbalance_of_sections_is_weighted_by_time() -> None:
    units = (
        Unit("a", "1", resources={"u": 1.0}, rate_per_s=1.0, time=1.0),
        Unit("b", "1", resources={"u": 1.0}, rate_per_s=2.0, time=1.0),
        Unit("c", "2", resources={"u": 1.0}, rate_per_s=4.0, time=3.0),
        Unit("d", "2", resources={"u": 1.0}, rate_per_s=4.0, time=3.0),
    )
    assert load_imbalance(Profile("p", "x", units=units)) == pytest.approx((0.75 + 3 * 1.0) / 4)


def test_imbalance_of_a_pipeline_is_its_mean_over_its_largest_load() -> None:
    stages = tuple(Unit(f"s{index}", stage=index, time=time) for index, time in enumerate((1.0, 2.0, 3.0)))
    assert load_imbalance(Profile("p", "x", units=stages)) == pytest.approx(2 / 3)
    assert load_imbalance(Profile("p", "x", layout=(0, 6, 3, 3))) == pytest.approx(4 / 6)


def test_the_chip_over_its_slowest_unit_shows_a_limit_outside_the_units() -> None:
    profile = Profile("p", "x", units=UNITS, samples_per_s=2.0, totals={"pe": 100.0}, utilization=0.5)
    assert chip_to_slowest_kernel(profile) == pytest.approx(0.2)
    assert effective_use(profile) == pytest.approx(0.45)
    relief = relief_of(profile, None)
    assert relief is not None
    assert relief.binding == "data movement outside the units"
    assert relief.gain_free == pytest.approx(4.0)


def test_a_short_batch_through_a_modelled_pipeline_is_bound_by_its_fill_and_drain() -> None:
    profile = Profile("p", "x", kind="modelled", units=UNITS, samples_per_s=2.0)
    relief = relief_of(profile, None)
    assert relief is not None
    assert (relief.binding, relief.gain_free) == ("fill, drain and host", pytest.approx(4.0))


def test_sections_in_turn_are_not_taken_for_units_side_by_side() -> None:
    units = tuple(Unit(name, name, rate_per_s=10.0) for name in "ab")
    relief = relief_of(Profile("p", "x", units=units, samples_per_s=4.0, compute_rate_per_s=10.0), None)
    assert relief is not None
    assert relief.binding == "compute of the chip"


def test_block_flops_follow_the_formula_term_by_term() -> None:
    shape = ModelShape(layers=2, hidden=8, kv_width=4, ffn=16, matrices=3, vocabulary=100)
    b, s, h = 3, 5, 8
    hand = 2 * b * s * h * (2 * h + 2 * 4) + 4 * b * s * s * h + 2 * 3 * b * s * h * 16
    assert block_flops(shape, b, s) == hand
    assert block_flops(shape, b, s, causal=True) == hand - 2 * b * s * s * h
    assert forward_flops(shape, b, s) == 2 * hand + 2 * b * s * h * 100
    assert step_flops(shape, b, s, "training", Counting()) == 3 * forward_flops(shape, b, s)
    assert step_flops(shape, b, s, "training", Counting(recompute=True)) == 4 * forward_flops(shape, b, s)


def test_gpt2_has_its_published_size_and_six_flops_a_parameter_and_token() -> None:
    # 124 M with positions, biases and norms; matrices and the table alone: 123.5 M.
    assert parameters(SMALL) == pytest.approx(123.5e6, rel=1e-3)
    tokens = 1024.0
    attention = 3 * 12 * 4 * tokens**2 * 768
    assert step_flops(SMALL, 1, 1024, "training", Counting()) - attention == pytest.approx(
        6 * parameters(SMALL) * tokens
    )


def test_bytes_of_a_level_are_weights_thrice_state_twice_and_activations_both_ways() -> None:
    count, tokens = parameters(SMALL), 4 * 1024
    weights = level_bytes(SMALL, 4, 1024, "training", Behind(weights=True))
    assert weights == pytest.approx(3 * count * 2)
    state = level_bytes(SMALL, 4, 1024, "training", Behind(optimizer=True), state_bytes=12)
    assert state == pytest.approx(24 * count)
    kept = level_bytes(SMALL, 4, 1024, "training", Behind(activations=True))
    assert kept == pytest.approx(2 * tokens * 12 * (6 * 768 + 2 * 768 + 2 * 4 * 768) * 2)
    assert block_activations(SMALL, recompute=True) == 768


@pytest.mark.parametrize(
    ("chip", "level", "ridge"), [("wse-2", "sram", 0.375), ("gc200", "sram", 5.263), ("gc200", "far memory", 12_500)]
)
def test_ridge_points_are_peak_over_bandwidth(chip: str, level: str, ridge: float) -> None:
    line = roofline_of(Profile("p", chip), load_chiplet(chip))
    assert {roof.name: roof.ridge for roof in line.levels}[level] == pytest.approx(ridge, rel=1e-3)


def test_the_lowest_roof_binds_and_is_named() -> None:
    run = Profile("p", "sn30", model=SMALL, batch=1.0, sequence=1024, samples_per_s=10.0)
    line = roofline_of(run, load_chiplet("sn30"))
    by_name = {roof.name: roof for roof in line.levels}
    assert line.binding == "memory"
    assert line.attainable_flops_per_s == by_name["memory"].attainable_flops_per_s
    flops = step_flops(SMALL, 1, 1024, "training", Counting())
    moved = level_bytes(SMALL, 1, 1024, "training", Behind(True, True, True))
    assert line.attainable_flops_per_s == pytest.approx(200e9 * flops / moved)
    assert line.efficiency == pytest.approx(10 * flops / 688e12)


def test_a_run_on_more_chips_has_their_peak_and_bandwidth_together() -> None:
    one = roofline_of(Profile("p", "sn30"), load_chiplet("sn30"))
    four = roofline_of(Profile("p", "sn30", chips=4), load_chiplet("sn30"))
    assert four.peak_flops_per_s == 4 * one.peak_flops_per_s
    assert four.levels[-1].bandwidth_bytes_per_s == 4 * one.levels[-1].bandwidth_bytes_per_s


def test_a_die_without_memory_reaches_a_stack_no_faster_than_its_links() -> None:
    die, stack = load_chiplet("hydra-tscs-prefill-28nm", 50e9), load_memory("hydra-hbm3")
    assert levels_of(die, stack)[-1].bandwidth_bytes_per_s == 200e9
    assert levels_of(load_chiplet("hydra-tscs-prefill-28nm"), stack)[-1].bandwidth_bytes_per_s == 600e9


def test_streamed_weights_pass_the_farthest_memory_and_resident_models_none() -> None:
    levels = (MemoryLevel("in", True), MemoryLevel("near", False), MemoryLevel("far", False))
    assert behind_levels(levels, "streaming")[1:] == (Behind(), Behind(weights=True))
    assert behind_levels(levels, "resident")[1:] == (Behind(), Behind())
    assert behind_levels(levels, "sections")[1:] == (Behind(True, True, True), Behind())


def test_parts_in_turn_bind_by_time_and_relief_is_the_rest() -> None:
    relief = relief_of(Profile("p", "x", batch=16.0, host_s=1.5, device_s=0.5, samples_per_s=8.0), None)
    assert relief is not None
    assert (relief.binding, relief.next_binding) == ("host", "device")
    assert relief.gain_free == pytest.approx(2.0 / 0.5 - 1)
    assert relief.gain_doubled == pytest.approx(2.0 / 1.25 - 1)


def test_limits_side_by_side_bind_by_rate() -> None:
    profile = Profile("p", "x", samples_per_s=9.0, compute_rate_per_s=10.0, transmission_rate_per_s=9.0)
    relief = relief_of(profile, None)
    assert relief is not None
    assert relief.binding == "transmission of the chip"
    assert relief.gain_free == pytest.approx(10 / 9 - 1)


def test_a_lopsided_pipeline_is_told_a_better_cut_and_its_gain() -> None:
    profile = Profile("p", "x", 4, model=ModelShape(layers=12), layout=(0, 6, 3, 3), micro_batches=1000)
    advice = layout_advice(profile)
    assert advice is not None
    assert advice.best == (0, 4, 4, 4)
    assert advice.gain == pytest.approx(6 / 4 - 1)


def test_the_head_on_the_first_chip_counts_as_layers_where_the_shape_tells() -> None:
    profile = Profile("p", "x", 4, model=SMALL, sequence=1024, layout=(3, 3, 3, 3), micro_batches=64)
    advice = layout_advice(profile)
    head = 2 * 768 * 50257 / (block_flops(SMALL, 1, 1024) / 1024)
    assert advice is not None
    assert advice.current_load == pytest.approx(3 + head)
    # The head is worth 4.7 layers: the first chip holds none, the others four each.
    assert advice.best == (0, 4, 4, 4)
    assert advice.best_load == pytest.approx(max(4.0, head))


def test_a_layout_that_contradicts_itself_gets_no_advice() -> None:
    assert layout_advice(Profile("p", "x", 4, model=ModelShape(layers=36), layout=(0, 4, 4, 4))) is None


def test_an_unknown_platform_has_no_roofline_and_says_why() -> None:
    report = tier1_of(Profile("p", "newcomer", samples_per_s=1.0), Settings())
    assert report.roofline is None
    assert any("not in the hardware library" in note for note in report.notes)
