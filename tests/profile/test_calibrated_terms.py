"""Width, collectives and stages of a calibration reach loops, vectorised profile and simulator alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import map_design, precision_of
from hydra_dse.model.operators import Batch, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieShare, compute_time_s, die_rates, launch_s
from hydra_dse.profile import ReferencePool, build_profile
from simulators.package import PackageCost
from simulators.package.coefficients import PlacedHardware
from tests.mapping import pieces
from tests.mapping.pieces import chiplet, ideal, real
from tests.profile.designs import batches, full_die_grid, one, random_design
from tests.simulators.test_package_models import composition

MODEL = pieces.nemotron_h_8b()
PRECISION = Precision()


def calibrated(**changes: object) -> CalibrationSet:
    return CalibrationSet(replace(real().default, **changes), {})


ALL = {"half_width": 64.0, "collective_overhead_s": 3e-6, "stage_imbalance": 1.25}
GEMM = Operator(
    "gemm",
    OperatorClass.MLP,
    weight_elements=1024.0 * 512,
    matmul_flops_per_token=2.0 * 1024 * 512,
    reduce_width=1024,
    output_width=512,
    gather_elements_per_token=1024.0,
)


def test_many_designs_at_once_agree_with_the_plain_loops_under_every_term() -> None:
    designs = [full_die_grid(random_design(seed, "disaggregated")) for seed in range(6)]
    profile = build_profile(designs, MODEL, calibrated(**ALL))
    batch = batches(len(designs), 2)
    for name, pool in profile.pools.items():
        time = pool.time_s(batch)
        for row, on in enumerate(designs):
            reference = ReferencePool(on, MODEL, calibrated(**ALL), name)
            for column in range(2):
                assert time[row, column] == pytest.approx(reference.time_s(one(batch, row, column)), rel=1e-9)


def test_a_slice_as_wide_as_the_half_width_takes_twice_as_long() -> None:
    batch = Batch(prefill_tokens=4096.0, prefill_sequences=1.0)
    demand = GEMM.demand(batch, PRECISION)
    plain = die_rates(chiplet(), ideal(), PRECISION)
    # A quarter of the outer width of 512 is 128.
    narrow = die_rates(chiplet(), CalibrationSet(replace(ideal().default, half_width=128.0), {}), PRECISION)
    slow = compute_time_s(GEMM, demand, batch, narrow, DieShare(0.25))
    assert slow == pytest.approx(2.0 * compute_time_s(GEMM, demand, batch, plain, DieShare(0.25)))


def test_a_collective_is_paid_by_operators_that_move_and_by_more_than_one_die() -> None:
    rates = die_rates(chiplet(), CalibrationSet(replace(ideal().default, collective_overhead_s=3e-6), {}), PRECISION)
    still = replace(GEMM, gather_elements_per_token=0.0)
    assert launch_s(GEMM, rates, 1) == launch_s(still, rates, 4) == rates.operator_overhead_s
    assert launch_s(GEMM, rates, np.array([1, 4])) - rates.operator_overhead_s == pytest.approx([0.0, 3e-6])


def test_stages_of_a_pipeline_are_slower_by_their_imbalance_and_single_stages_are_not() -> None:
    uneven = calibrated(stage_imbalance=1.25)
    one_stage, two_stages = (die_rates(chiplet(), uneven, PRECISION, stages) for stages in (1, 2))
    assert two_stages.matmul_flops_per_s == pytest.approx(one_stage.matmul_flops_per_s / 1.25)
    assert one_stage.matmul_flops_per_s == die_rates(chiplet(), real(), PRECISION).matmul_flops_per_s


def test_the_simulated_iteration_pays_what_the_estimated_one_pays() -> None:
    on = full_die_grid(random_design(3, "disaggregated"))
    on = replace(on, policy=replace(on.policy, batches_in_flight=1))
    decode = Batch(decode_sequences=16.0, decode_context_tokens=16.0 * 2048, emitted_tokens=16.0)
    for calibration in (real(), calibrated(**ALL)):
        reference = ReferencePool(on, MODEL, calibration, "decode").time_s(decode)
        hardware = PlacedHardware(on, map_design(on, MODEL), calibration, precision_of(on, MODEL))
        cost = PackageCost(hardware, "decode")
        work = cost.work(composition(cost, [], [2048] * 16, 0))
        assert work.duration_s == pytest.approx(reference, rel=1e-6)
