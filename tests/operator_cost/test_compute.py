from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.errors import InputError
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.model.operators import Batch, Operator, OperatorClass, Routing
from hydra_dse.operator_cost import (
    DieShare,
    activity,
    compute_time_s,
    die_energy_j,
    die_rates,
    inverse_utilisation,
    rows_of,
    stack_rates,
    work_of,
)
from tests.mapping.pieces import PRECISION, chiplet, ideal, real

GEMM = Operator(
    "gemm",
    OperatorClass.MLP,
    weight_elements=1024.0 * 512,
    matmul_flops_per_token=2.0 * 1024 * 512,
    reduce_width=1024,
    output_width=512,
    gather_elements_per_token=1024.0,
)
SCAN = Operator(
    "scan",
    OperatorClass.SSM_SCAN,
    vector_flops_per_token=100.0,
    matmul_flops_per_prefill_token=9000.0,
    vector_flops_per_prefill_token=50.0,
    vector_flops_per_decode_token=6000.0,
    state_elements=1000.0,
)
DECODE = Batch(decode_sequences=32.0, decode_context_tokens=32_000.0, emitted_tokens=32.0)
PREFILL = Batch(prefill_tokens=256.0, prefill_sequences=1.0, prefill_pairs=256.0**2 / 2, prefill_context_tokens=256.0)


def time_of(operator: Operator, batch: Batch, share: float = 1.0, **die: object) -> float:
    part = DieShare(share)
    rates = die_rates(chiplet(**die), ideal(), PRECISION)
    return float(compute_time_s(operator, operator.demand(batch, PRECISION), batch, rates, part))


def test_a_vector_die_multiplies_at_its_peak_whatever_the_shape() -> None:
    assert time_of(GEMM, DECODE) == pytest.approx(32 * 2 * 1024 * 512 / 10e12)


def test_a_share_of_the_work_takes_that_share_of_the_time() -> None:
    assert time_of(GEMM, DECODE, share=0.25) == pytest.approx(0.25 * time_of(GEMM, DECODE))


def test_a_format_runs_at_its_speed() -> None:
    die = chiplet(format_speed=(("fp8", 2.0),))
    fp8 = replace(PRECISION, activations="fp8")
    assert die_rates(die, ideal(), fp8).matmul_flops_per_s == 2 * 10e12
    assert die_rates(die, ideal(), fp8).joules_per_flop == pytest.approx(0.5e-12)


def test_broadcast_cores_pad_edge_tiles() -> None:
    # 32 rows fill tiles of 24 rows by 2/3; 512 columns are 32 tiles of 16.
    padded = time_of(GEMM, DECODE, style="mac-array", array_rows=24, array_columns=16)
    assert padded == pytest.approx(time_of(GEMM, DECODE) * 48 / 32)


def test_a_systolic_die_streams_at_least_as_many_rows_as_its_array_has() -> None:
    # 1024 × 512 weights are 16 × 16 folds of 64 × 32 on 4 cores; a fold of 32 rows still takes 64 cycles;
    # one fill of 2·64 + 32 − 2 cycles.
    cycles = 256 * 64 / 4 + 158
    flops_per_cycle = 2 * 64 * 32 * 4
    expected = cycles * flops_per_cycle / 10e12
    assert time_of(GEMM, DECODE, style="systolic", array_rows=64, array_columns=32, cores=4) == pytest.approx(expected)


def test_long_gemms_fill_a_systolic_die() -> None:
    rates = die_rates(chiplet(style="systolic", array_rows=64, array_columns=32, cores=4), ideal(), PRECISION)
    assert float(inverse_utilisation(rates, 4096.0, 4096.0, 4096.0)) == pytest.approx(1.0, abs=0.001)


def test_a_measured_table_replaces_the_tile_rule() -> None:
    table = ((1.0, 0.1), (33.0, 0.9))
    assert time_of(GEMM, DECODE, style="mac-array", shape_efficiency=table) == pytest.approx(
        time_of(GEMM, DECODE) / (0.1 + 0.8 * 31 / 32)
    )


def test_fewer_than_one_expected_row_costs_its_share_of_one_row() -> None:
    half = Batch(decode_sequences=0.5)
    one = Batch(decode_sequences=1.0)
    die = {"style": "mac-array", "array_rows": 8, "array_columns": 8}
    assert time_of(GEMM, half, **die) == pytest.approx(0.5 * time_of(GEMM, one, **die))
    assert float(activity(GEMM.demand(half, PRECISION))) == 0.5


def test_nothing_to_do_takes_no_time() -> None:
    for style in ("systolic", "mac-array", "vector"):
        assert time_of(GEMM, Batch(), style=style) == 0.0


def test_experts_are_padded_one_by_one() -> None:
    # 32 tokens × 2 of 8 experts: 8·(1 − (3/4)^32) experts are touched, each by about 8 rows on tiles of 16.
    experts = replace(
        GEMM,
        kind=OperatorClass.EXPERTS,
        weight_elements=8 * GEMM.weight_elements,
        matmul_flops_per_token=2 * GEMM.matmul_flops_per_token,
        routing=Routing(8, 2),
    )
    rows = 32 * 2 / (8 * (1 - 0.75**32))
    padded = time_of(experts, DECODE, style="mac-array", array_rows=16, array_columns=16)
    assert padded == pytest.approx(time_of(experts, DECODE) * 16 / rows)


def test_a_row_parallel_gemm_splits_its_inner_width() -> None:
    down = replace(GEMM, gather_elements_per_token=0.0, reduce_elements_per_token=512.0)
    rates = die_rates(chiplet(style="mac-array", array_rows=8, array_columns=512), ideal(), PRECISION)
    quarter = DieShare(0.25)
    column = compute_time_s(GEMM, GEMM.demand(DECODE, PRECISION), DECODE, rates, quarter)
    row = compute_time_s(down, down.demand(DECODE, PRECISION), DECODE, rates, quarter)
    # Column-parallel, a die is left 128 of 512 columns of its tile.
    assert column == pytest.approx(4 * row)


def test_experts_of_a_die_leave_half_a_tile_empty_each() -> None:
    # 256 tokens × 2 of 8 experts are 64 rows each, of which the last of 16-row tiles is half full: 72 rows' time.
    experts = replace(
        GEMM,
        kind=OperatorClass.EXPERTS,
        weight_elements=8 * GEMM.weight_elements,
        matmul_flops_per_token=2 * GEMM.matmul_flops_per_token,
        routing=Routing(8, 2),
    )
    many = Batch(decode_sequences=256.0, emitted_tokens=256.0)
    rates = die_rates(chiplet(style="mac-array", array_rows=16, array_columns=16), ideal(), PRECISION)
    part = DieShare(1.0, parallelism="expert")
    time_s = compute_time_s(experts, experts.demand(many, PRECISION), many, rates, part)
    assert time_s == pytest.approx(256 * 2 * 2 * 1024 * 512 / 10e12 * 72 / 64, rel=1e-3)


def test_either_unit_reaches_its_share_of_its_peak() -> None:
    both = replace(GEMM, vector_flops_per_token=1e6)
    rates = die_rates(chiplet(), ideal(compute=dict.fromkeys(OperatorClass, 0.5)), PRECISION)
    time_s = compute_time_s(both, both.demand(DECODE, PRECISION), DECODE, rates, DieShare(1.0))
    assert time_s == pytest.approx(32 * 2 * 1024 * 512 / 5e12 + 32 * 1e6 / 0.5e12)


def test_replicas_split_rows_instead_of_widths() -> None:
    rates = die_rates(chiplet(style="mac-array", array_rows=32, array_columns=512), ideal(), PRECISION)
    demand = GEMM.demand(DECODE, PRECISION)
    replica = compute_time_s(GEMM, demand, DECODE, rates, DieShare(0.25, parallelism="replica"))
    # 8 of 32 rows of the tile are filled, so a quarter of the work takes the time of all of it.
    assert replica == pytest.approx(32 * 2 * 1024 * 512 / 10e12)


def test_prompts_scan_as_gemms_and_decoders_as_updates_on_a_matrix_die() -> None:
    work = work_of(SCAN, SCAN.demand(PREFILL, PRECISION), PREFILL, "systolic")
    assert (work.matmul_flops, work.vector_flops) == (256 * 9000, 256 * 150)
    work = work_of(SCAN, SCAN.demand(DECODE, PRECISION), DECODE, "systolic")
    assert (work.matmul_flops, work.vector_flops) == (0, 32 * 6100)


def test_a_vector_die_scans_by_updates_in_both_phases() -> None:
    work = work_of(SCAN, SCAN.demand(PREFILL, PRECISION), PREFILL, "vector")
    assert (work.matmul_flops, work.vector_flops) == (0, 256 * 6100)


def test_matrix_and_vector_units_overlap_and_lanes_do_not() -> None:
    both = replace(GEMM, vector_flops_per_token=1e6)
    matmul, vector = 32 * 2 * 1024 * 512 / 10e12, 32 * 1e6 / 1e12
    assert time_of(both, DECODE, style="gpu") == pytest.approx(max(matmul, vector))
    assert time_of(both, DECODE) == pytest.approx(matmul + vector)


def test_sram_bandwidth_bounds_light_operators() -> None:
    norm = Operator("norm", OperatorClass.NORM, vector_flops_per_token=1.0, activation_elements_per_token=4096.0)
    # 32 tokens × 4096 elements × 2 bytes at 1 TB/s.
    assert time_of(norm, DECODE, sram_bandwidth_bytes_per_s=1e12) == pytest.approx(32 * 8192 / 1e12)


def test_imbalance_lengthens_the_slowest_die_but_adds_no_energy() -> None:
    rates = die_rates(chiplet(), ideal(), PRECISION)
    demand = GEMM.demand(DECODE, PRECISION)
    fair, uneven = DieShare(0.2), DieShare(0.2, imbalance=1.25)
    assert compute_time_s(GEMM, demand, DECODE, rates, uneven) == pytest.approx(
        1.25 * compute_time_s(GEMM, demand, DECODE, rates, fair)
    )
    assert die_energy_j(GEMM, demand, DECODE, rates, uneven) == die_energy_j(GEMM, demand, DECODE, rates, fair)


def test_energy_counts_flops_and_sram_bytes() -> None:
    rates = die_rates(chiplet(), ideal(), PRECISION)
    energy = die_energy_j(GEMM, GEMM.demand(DECODE, PRECISION), DECODE, rates, DieShare(0.5))
    assert energy == pytest.approx(0.5 * (32 * 2 * 1024 * 512 * 1e-12 + 1024 * 512 * 2 * 1e-12))


def test_rates_of_many_dies_give_what_each_gives_alone() -> None:
    dies = [chiplet(style="mac-array", matmul_flops_per_s=peak, array_rows=8) for peak in (5e12, 10e12, 20e12)]
    alone = [die_rates(die, real(), PRECISION) for die in dies]
    stacked = rows_of(stack_rates(alone), np.array([2, 0]))
    batch = Batch(decode_sequences=np.array([[1.0, 7.0], [30.0, 64.0]]))
    demand = GEMM.demand(batch, PRECISION)
    together = compute_time_s(GEMM, demand, batch, stacked, DieShare(0.5))
    for row, die in enumerate((2, 0)):
        for column in range(2):
            single = Batch(decode_sequences=float(np.asarray(batch.decode_sequences)[column, row]))
            expected = compute_time_s(GEMM, GEMM.demand(single, PRECISION), single, alone[die], DieShare(0.5))
            assert np.asarray(together)[column, row] == pytest.approx(float(expected), rel=1e-12)


def test_a_calibration_without_a_class_is_refused() -> None:
    partial = Calibration("partial", {OperatorClass.MLP: 0.5}, {"weights": 0.5}, 0.0, 0.0)
    with pytest.raises(InputError, match=r"partial.*lm_head.*kv"):
        die_rates(chiplet(), CalibrationSet(partial), PRECISION)
