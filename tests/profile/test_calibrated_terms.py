"""Width, collectives, stages and accesses of a calibration reach loops, vectorised profile and simulator alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import block_names, map_design, precision_of
from hydra_dse.model.operators import Batch, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieShare, compute_time_s, die_rates, launch_s
from hydra_dse.profile import ReferencePool, build_profile
from simulators.noi.flows import FlowNetwork
from simulators.package import PackageCost
from simulators.package.alone import run_alone
from simulators.package.coefficients import PlacedHardware
from simulators.package.ledger import ledger_of
from simulators.package.operators import OperatorCost
from simulators.package.traced import trace_alone
from tests.mapping import pieces
from tests.mapping.pieces import chiplet, ideal, real
from tests.profile.designs import batches, full_die_grid, one, random_design
from tests.simulators.test_package_models import composition

MODEL = pieces.nemotron_h_8b()
PRECISION = Precision()


def calibrated(**changes: object) -> CalibrationSet:
    return CalibrationSet(replace(real().default, **changes), {})


ALL = {"half_width": 64.0, "collective_overhead_s": 3e-6, "stage_imbalance": 1.25, "kv_access_bytes": 2e5}
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


def decoding(sequences: float, context: float) -> Batch:
    return Batch(decode_sequences=sequences, decode_context_tokens=sequences * context, emitted_tokens=sequences)


def test_an_access_to_kv_takes_as_long_as_so_many_tokens_more_and_moves_nothing() -> None:
    on = full_die_grid(random_design(3, "disaggregated"))
    core = next(
        mapped.operator for mapped in map_design(on, MODEL).pool("decode").operators if mapped.operator.kv_heads
    )
    # As many bytes as 64 tokens of KV of one head.
    start = 64.0 * core.kv_elements_per_token / core.kv_heads * precision_of(on, MODEL).kv_bytes
    plain = ReferencePool(on, MODEL, calibrated(), "decode").operators(decoding(16.0, 1024.0 + 64.0))
    costly = ReferencePool(on, MODEL, calibrated(kv_access_bytes=start), "decode").operators(decoding(16.0, 1024.0))
    longer, shorter = (next(cost for cost in costs if cost.name == core.name) for costs in (plain, costly))
    assert shorter.memory_s == pytest.approx(longer.memory_s, rel=1e-3)  # but for the token written
    assert shorter.network_s < longer.network_s
    assert shorter.energy_j < longer.energy_j


def test_starts_of_accesses_take_memory_time_and_no_energy_in_all_evaluators() -> None:
    on = full_die_grid(random_design(3, "disaggregated"))
    on = replace(on, policy=replace(on.policy, batches_in_flight=1))
    batch = decoding(16.0, 256.0)
    with_starts, without = calibrated(kv_access_bytes=2e5), calibrated()
    found = {}
    for name, calibration in (("with", with_starts), ("without", without)):
        pool = build_profile([on], MODEL, calibration).pools["decode"]
        hardware = PlacedHardware(on, map_design(on, MODEL), calibration, precision_of(on, MODEL))
        cost = PackageCost(hardware, "decode")
        work = cost.work(composition(cost, [], [256] * 16, 0))
        cost.count(work)
        booked = ledger_of(cost, cost.snapshot())
        spent = pool.spent(batch)
        found[name] = pool.time_s(batch)[0, 0], pool.energy_j(batch)[0, 0], booked, spent.memory_j[0, 0]
        assert work.duration_s == pytest.approx(pool.time_s(batch)[0, 0], rel=1e-6)
        busiest = pool.busy_s(batch)["hbm"][0, 0]
        assert float(booked.site_s.max()) == pytest.approx(busiest, rel=1e-6)
    assert found["with"][0] > found["without"][0]
    assert found["with"][1] == pytest.approx(found["without"][1], rel=1e-9)
    assert found["with"][3] == pytest.approx(found["without"][3], rel=1e-9)
    assert found["with"][3] == pytest.approx(found["with"][2].memory_j, rel=1e-6)
    assert found["with"][2].memory_j == pytest.approx(found["without"][2].memory_j, rel=1e-12)
    for operand, moved in found["with"][2].operands.items():
        assert np.array_equal(moved.site_bytes, found["without"][2].operands[operand].site_bytes)


def test_operators_executed_one_by_one_keep_memory_busy_for_the_starts_of_their_accesses() -> None:
    on = full_die_grid(random_design(3, "disaggregated"))
    on = replace(on, policy=replace(on.policy, batches_in_flight=1))
    times = []
    for start in (0.0, 4e8):
        hardware = PlacedHardware(on, map_design(on, MODEL), calibrated(kv_access_bytes=start), precision_of(on, MODEL))
        cost = OperatorCost(hardware, "decode", block_names(MODEL, 1), FlowNetwork())
        batch = composition(cost, [], [256] * 16, 0)
        times.append(
            (run_alone(cost.programs.network, cost.programs.program(batch)).now_s, cost.work(batch).duration_s)
        )
    (plain, plain_form), (costly, costly_form) = times
    # So many bytes that what reads hide behind the operators before them counts for little.
    assert costly - plain == pytest.approx(costly_form - plain_form, rel=0.02)


def test_traces_of_iterations_carry_the_same_bytes_with_and_without_starts_of_accesses() -> None:
    on = full_die_grid(random_design(3, "disaggregated"))
    on = replace(on, policy=replace(on.policy, batches_in_flight=1))
    carried = []
    for start in (0.0, 4e6):
        hardware = PlacedHardware(on, map_design(on, MODEL), calibrated(kv_access_bytes=start), precision_of(on, MODEL))
        cost = OperatorCost(hardware, "decode", block_names(MODEL, 1), FlowNetwork())
        program = cost.programs.program(composition(cost, [], [256] * 16, 0))
        _, done, seconds = trace_alone(cost.programs.network, program)
        carried.append((sum(each.bytes for each in done), seconds))
    assert carried[1][0] == pytest.approx(carried[0][0], rel=1e-9)
    assert carried[1][1] > carried[0][1]
