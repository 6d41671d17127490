"""Modelled chips: every shipped die runs the decoder-block sweep in its own way, within physics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.bench.blocks import allocate, batch_of, forward_pass, model_of
from hydra_dse.bench.flops import Counting, forward_flops, parameters
from hydra_dse.bench.modelled import Case, Machine, all_reduce_s, modelled
from hydra_dse.bench.record import ModelShape, Profile
from hydra_dse.bench.sweep import modelled_profiles, parse_sweep
from hydra_dse.bench.tier1 import Settings, tier1_of
from hydra_dse.bench.tier2 import tier2_of
from hydra_dse.config.hardware import load_calibration, load_chiplet, load_memory
from hydra_dse.config.library import library_names
from hydra_dse.errors import InputError
from hydra_dse.model.lowering import operators_of

SHAPE = ModelShape("", 12, 768)
MODES = {"wse-2": "resident", "sn30": "sections", "sn40l": "sections", "bow-ipu": "pipelined", "gc200": "pipelined"}


def machine(chip: str) -> Machine:
    die = load_chiplet(chip)
    stack = load_memory("hydra-hbm3") if die.memory_bytes <= 0 else None
    return Machine(die, load_calibration(), stack, Counting())


def case(chip: str, **changes: object) -> Case:
    start = Case(SHAPE, 16.0, 1024, load_chiplet(chip).matmul_format)
    return replace(start, **changes)  # type: ignore[arg-type]


def swept(chip: str, sweep: str, phase: str = "training", tier: int = 1) -> list[Profile]:
    return modelled_profiles(chip, sweep, phase, "default", Settings(), tier)


@pytest.mark.parametrize("chip", library_names("chiplets"))
def test_every_shipped_die_runs_the_sweep_in_its_mode_and_running_out_of_memory_is_a_row(chip: str) -> None:
    profiles = swept(chip, "layers=1/12/200,hidden=768/6144")
    assert len(profiles) == 6
    assert {profile.mode for profile in profiles} == {MODES.get(chip, "kernels")}
    assert profiles[0].samples_per_s
    largest = profiles[-1]
    # 200 layers of width 6,144 are 90.6 G parameters, 1.4 TB with their training state.
    assert "out of memory" in largest.failure
    assert largest.samples_per_s is None


@pytest.mark.parametrize("chip", library_names("chiplets"))
@pytest.mark.parametrize("phase", ["training", "prefill", "decode"])
def test_no_modelled_step_is_faster_than_its_roofline(chip: str, phase: str) -> None:
    for profile in swept(chip, "layers=2/12,hidden=768/2048,batch=1/16", phase):
        line = tier1_of(profile).roofline
        assert line is not None
        if not profile.failure:
            assert line.achieved_flops_per_s is not None
            assert line.attainable_flops_per_s is not None
            assert line.achieved_flops_per_s <= line.attainable_flops_per_s


def test_the_stack_of_blocks_has_the_parameters_and_flops_of_the_formula() -> None:
    shape = ModelShape("", 3, 512, 8, 128, 1024, 3, 1000)
    operators = operators_of(model_of(shape))
    matrices = sum(op.weight_elements * op.weight_copies for op in operators if op.output_width)
    assert matrices == parameters(shape)
    batch, formats = batch_of(2.0, 64.0, "training", False), replace(model_of(shape).precision)
    flops = sum(op.count * float(op.demand(batch, formats).matmul_flops) for op in operators)
    assert flops == forward_flops(shape, 2, 64)


def test_cores_are_shared_out_by_work_and_all_of_them() -> None:
    assert allocate([3.0, 1.0], [100, 100], 40) == [30, 10] or sum(allocate([3.0, 1.0], [100, 100], 40) or []) == 40
    assert allocate([3.0, 1.0], [5, 100], 40) == [5, 35]
    assert allocate([1.0, 1.0, 1.0], [9, 9, 9], 2) is None


def test_sections_side_by_side_take_the_time_of_their_operators_in_turn_at_best() -> None:
    """Cores in proportion to work make every operator of a section end together: the sum of their whole-chip times."""
    board = machine("sn30")
    deck = forward_pass(board.chiplet, board.calibrations, SHAPE, "bf16", batch_of(16.0, 1024.0, "training", False))
    step = modelled(board, case("sn30"))
    forward = [unit for unit in step.units if unit.section == "mixer forward"]
    slowest = min(unit.rate_per_s or 0.0 for unit in forward)
    assert 1 / slowest == pytest.approx(deck.time_s("mixer"), rel=0.02)
    assert 1 / slowest >= deck.time_s("mixer")


def test_deeper_sections_take_time_in_proportion_to_layers() -> None:
    times = {profile.model.layers: profile.step_s for profile in swept("sn30", "layers=6/12/24,hidden=1600")}
    assert times[24] - times[12] == pytest.approx(2 * (times[12] - times[6]))  # type: ignore[operator]


def test_a_resident_stack_fills_and_drains() -> None:
    """`(b + 2L − 1)` turns: with 12 layers a batch of 23 reaches half of the rate of an endless one."""
    rates = {
        profile.batch: profile.samples_per_s
        for profile in swept("wse-2", "layers=12,hidden=256,sequence=128,batch=23/2300")
    }
    host = load_calibration().of("dataflow").iteration_overhead_s
    per_sample = {batch: (batch / rate - host) / batch for batch, rate in rates.items() if batch and rate}
    assert per_sample[23.0] / per_sample[2300.0] == pytest.approx((46 / 23) / (2323 / 2300))


def test_a_pipeline_is_cut_so_that_the_chip_with_the_head_holds_fewer_layers() -> None:
    profile = modelled(
        machine("gc200"), case("gc200", shape=replace(SHAPE, vocabulary=50257), chips=4, parallelism="pipeline")
    )
    assert sum(profile.layout) == 12
    assert profile.layout[0] < max(profile.layout)
    even = modelled(machine("gc200"), case("gc200", chips=4, parallelism="pipeline"))
    assert even.layout == (3, 3, 3, 3)


def test_streaming_is_bound_by_its_link_at_small_batches_and_by_compute_at_large_ones() -> None:
    small, large = swept("wse-2", "layers=12,hidden=1024,sequence=128,mode=streaming,batch=1/512")
    assert small.step_s is not None
    assert large.step_s is not None
    share = load_calibration().of("dataflow").memory["weights"]
    streamed = 12 * 12 * 1024**2 * 2 / (150e9 * share)
    assert small.step_s == pytest.approx(3 * streamed, rel=0.15)
    flops = 3 * forward_flops(large.model, 512, 128)
    assert flops / 7.5e15 < large.step_s < 2 * flops / 7.5e15
    assert large.step_s > small.step_s


def test_a_streamed_batch_that_does_not_fit_is_cut_into_micro_batches() -> None:
    """One sample of 12 layers of width 1,024 at 1,024 tokens keeps 403 MB; 40 GB hold 98 of them beside two layers."""
    fits, cut = swept("wse-2", "layers=12,hidden=1024,mode=streaming,batch=98/196")
    assert (fits.micro_batches, cut.micro_batches) == (1, 2)
    assert fits.step_s is not None
    host = load_calibration().of("dataflow").iteration_overhead_s
    assert cut.step_s == pytest.approx(2 * (fits.step_s - host) + host)


def test_more_weights_than_the_chip_holds_can_still_be_streamed() -> None:
    resident, streamed = swept("wse-2", "layers=48,hidden=4096,batch=1,mode=resident/streaming")
    assert "out of memory" in resident.failure
    assert streamed.samples_per_s


def test_an_all_reduce_sends_everything_twice_and_its_latency() -> None:
    board = machine("sn30")
    assert all_reduce_s(board, 50e9, 2) == pytest.approx(2 * (1e-6 + 50e9 / (2 * 50e9)))


def test_tensor_splits_gain_less_with_every_doubling() -> None:
    result = tier2_of(swept("sn30", "layers=12,hidden=1600,batch=16,chips=1/2/4/8,parallelism=tensor"))
    (scaling,) = result.scaling
    shares = [point.communication_share for point in scaling.points]
    assert shares == sorted(shares)
    assert scaling.parallelism == "tensor"


def test_the_default_of_tier_two_varies_chips_batch_and_precision_alone() -> None:
    result = tier2_of(modelled_profiles("h100", None, "training", "default", Settings(), 2))
    assert {scaling.parallelism for scaling in result.scaling} == {"data", "tensor"}
    assert result.batch_saturation
    assert {"fp32", "bf16"} <= {gain.base for gain in result.precision_gain} | {
        gain.faster for gain in result.precision_gain
    }


def test_a_format_that_the_chip_lacks_is_a_failed_row() -> None:
    (profile,) = swept("wse-2", "layers=1,hidden=256,precision=fp8")
    assert "does not multiply in fp8" in profile.failure


def test_decode_reads_its_caches_and_prefill_keeps_no_gradients() -> None:
    short, long = swept("h100", "layers=12,hidden=2048,batch=64,sequence=1024/8192", "decode")
    assert short.step_s is not None
    assert long.step_s is not None
    share = load_calibration().of("gpu").memory["kv"]
    caches = 12 * 64 * (8192 - 1024) * 2 * 2048 * 2 / (3350e9 * share)
    assert long.step_s - short.step_s == pytest.approx(caches, rel=0.05)


def test_energy_is_dynamic_and_static_and_grows_with_work() -> None:
    one, two = swept("h100", "layers=6/12,hidden=2048")
    assert one.energy_j
    assert two.energy_j == pytest.approx(2 * one.energy_j, rel=0.05)
    flops = 6 * 3 * (2 * 12 * 2048**2 + 4 * 1024 * 2048) * 16 * 1024
    assert one.energy_j > flops * load_chiplet("h100").joules_per_flop


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("layer=3", "did you mean 'layers'"),
        ("layers=0", "whole number from 1"),
        ("layers=1/x", "whole number"),
        ("precision=bf17", "did you mean 'bf16'"),
        ("layers=1,layers=2", "twice"),
        ("layers", "NAME=VALUE"),
        ("matrices=4", "2 (plain) or 3 (gated)"),
        ("layers=1001", "from 1 to 1,000"),
        ("batch=99999999999999999999", "from 1 to 10,000,000"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_sweep(text)
    assert message in str(caught.value)
