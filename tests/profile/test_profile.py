from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.errors import InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch, OperatorClass
from hydra_dse.policy import Policy
from hydra_dse.profile import ReferencePool, build_profile
from tests.mapping import pieces
from tests.mapping.pieces import NO_RESIDENCY, chiplet, design, ideal, package, real, stack
from tests.profile.designs import batches, full_die_grid, one, random_design

MODEL = pieces.nemotron_h_8b()
DECODE = Batch(decode_sequences=32.0, decode_context_tokens=32.0 * 1024, emitted_tokens=32.0)
PREFILL = Batch(
    prefill_tokens=1024.0,
    prefill_sequences=1.0,
    prefill_pairs=1024.0**2 / 2,
    prefill_context_tokens=1024.0,
    emitted_tokens=1.0,
)


def time_of(
    on: Design, batch: Batch = DECODE, model: Model = MODEL, calibration: CalibrationSet | None = None
) -> float:
    profile = build_profile([on], model, calibration or ideal())
    assert profile.violations == ((),)
    return float(next(iter(profile.pools.values())).time_s(batch)[0, 0])


def two_families(flight: int = 1, links: float = 512e9, **die: object) -> Design:
    dies = (DieGroup("A", chiplet(**die), 1, ("attention",)), DieGroup("M", chiplet(**die), 1, ("ssm",)))
    on = package(dies, (MemoryGroup("H", stack(), 2),), 2, 2, links)
    return design(on, mapping=NO_RESIDENCY, policy=Policy(serving="colocated", batches_in_flight=flight))


@pytest.mark.parametrize("serving", ["colocated", "disaggregated"])
def test_many_designs_at_once_agree_with_the_plain_loops(serving: str) -> None:
    designs = [full_die_grid(random_design(seed, serving)) for seed in range(8)]
    profile = build_profile(designs, MODEL, real())
    assert not any(profile.violations)
    batch = batches(len(designs), 3)
    for name, pool in profile.pools.items():
        time, energy, busy = pool.time_s(batch), pool.energy_j(batch), pool.busy_s(batch)
        for row, on in enumerate(designs):
            reference = ReferencePool(on, MODEL, real(), name)
            for column in range(3):
                single = one(batch, row, column)
                assert time[row, column] == pytest.approx(reference.time_s(single), rel=1e-9)
                assert energy[row, column] == pytest.approx(reference.energy_j(single), rel=1e-9)
                for key, seconds in reference.busy_s(single).items():
                    assert busy[key][row, column] == pytest.approx(seconds, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_profile_states_the_least_tile_of_rows_of_the_dies_that_a_pool_uses(seed: int) -> None:
    design = full_die_grid(random_design(seed, "disaggregated"))
    found = build_profile([design], MODEL, real()).row_tiles
    for pool in ("prefill", "decode"):
        dies = [group.chiplet for group in design.package.dies if group.phase == pool]
        tiled = [die.array_rows for die in dies if die.style == "mac-array" and not die.shape_efficiency]
        expected = min(tiled) * design.policy.batches_in_flight if tiled else 1
        assert found[pool][0] == expected


def test_ideal_decode_on_one_h100_matches_published_arithmetic() -> None:
    # design/modelling.md §2.3: weights, KV and fp32 state over 3.35 TB/s.
    on = design(pieces.h100(), mapping=NO_RESIDENCY)
    for model, expected in ((pieces.llama3_8b(), (4.5, 5.8, 14.7)), (MODEL, (4.6, 6.6, 21.4))):
        for batch, milliseconds in zip((1.0, 32.0, 256.0), expected, strict=True):
            decode = Batch(decode_sequences=batch, decode_context_tokens=batch * 1024, emitted_tokens=batch)
            assert 1e3 * time_of(on, decode, model) == pytest.approx(milliseconds, abs=0.06)


def test_long_contexts_favour_the_hybrid_as_published() -> None:
    on = design(pieces.h100(), mapping=NO_RESIDENCY)
    decode = Batch(decode_sequences=64.0, decode_context_tokens=64.0 * 16384, emitted_tokens=64.0)
    assert 1e3 * time_of(on, decode, pieces.llama3_8b()) == pytest.approx(45.5, abs=0.1)
    assert 1e3 * time_of(on, decode) == pytest.approx(13.6, abs=0.1)


def test_an_iteration_on_one_die_and_one_stack_is_bound_by_the_stack() -> None:
    model = pieces.llama3_8b()
    large = (MemoryGroup("H", stack(capacity_bytes=64e9), 1),)
    single = replace(pieces.one_of_each(), link_bandwidth_bytes_per_s=1e13, memories=large)
    on = design(single, mapping=NO_RESIDENCY)
    weights = 2 * (8.03e9 - 128256 * 4096)
    kv = 1024 * 131072 + 131072
    alone = Batch(decode_sequences=1.0, decode_context_tokens=1024.0, emitted_tokens=1.0)
    assert time_of(on, alone, model) == pytest.approx((weights + kv) / 600e9, rel=1e-3)


def test_a_leaf_stack_gives_no_more_than_its_links() -> None:
    # One die and one stack share a single link of 256 GB/s in front of a stack of 600 GB/s.
    slow = replace(pieces.one_of_each(), link_bandwidth_bytes_per_s=256e9)
    fast = replace(pieces.one_of_each(), link_bandwidth_bytes_per_s=512e9)
    model = pieces.llama3_8b()
    large = (MemoryGroup("H", stack(capacity_bytes=64e9), 1),)
    single = Batch(decode_sequences=1.0)
    designs = [design(replace(on, memories=large), mapping=NO_RESIDENCY) for on in (slow, fast)]
    times = [time_of(on, single, model) for on in designs]
    assert times[0] == pytest.approx(2 * times[1], rel=0.01)


def test_families_that_run_in_turn_are_busy_at_most_all_the_time() -> None:
    # Attention and SSM dies take turns; the MLP runs on both.
    busy = build_profile([two_families()], MODEL, real()).pools["serve"].busy_s(DECODE)
    time = time_of(two_families(), calibration=real())
    both = ReferencePool(two_families(), MODEL, real(), "serve").operators(DECODE)
    mlp = sum(cost.count * cost.time_s for cost in both if len(cost.dies) == 2)
    alone = float(busy["A"][0, 0]) + float(busy["M"][0, 0]) - 2 * mlp
    assert (alone + mlp) / time <= 1.0
    assert float(busy["A"][0, 0]) <= time and float(busy["M"][0, 0]) <= time


def test_two_batches_in_flight_match_the_two_stage_pipeline() -> None:
    # Mixers on two families that never share a die; compute-bound, so that nothing is shared: max(tA + tM, 2·max).
    elsewhere = {kind: ("M",) for kind in OperatorClass if not kind.value.startswith("attention")}
    slow = {"matmul_flops_per_s": 1e10, "vector_flops_per_s": 1e10, "sram_bytes": 0.0}
    one_batch, two_batches = (
        replace(two_families(flight, links=1e14, **slow), mapping=replace(NO_RESIDENCY, groups=elsewhere))
        for flight in (1, 2)
    )
    two_prompts = Batch(
        prefill_tokens=2048.0,
        prefill_sequences=2.0,
        prefill_pairs=1024.0**2,
        prefill_context_tokens=2048.0,
        emitted_tokens=2.0,
    )
    costs = ReferencePool(one_batch, MODEL, ideal(), "serve").operators(PREFILL)
    stage = {die: sum(cost.count * cost.time_s for cost in costs if cost.dies == (die,)) for die in (0, 1)}
    assert time_of(two_batches, two_prompts) == pytest.approx(
        max(stage[0] + stage[1], 2 * max(stage.values())), rel=1e-9
    )
    assert time_of(two_batches, PREFILL) <= time_of(one_batch, PREFILL) * (1 + 1e-9)


def test_a_lone_sequence_runs_in_one_of_the_batches_in_flight() -> None:
    lone = Batch(decode_sequences=1.0, decode_context_tokens=1024.0, emitted_tokens=1.0)
    for batch in (lone, PREFILL):
        assert time_of(two_families(3), batch) == pytest.approx(time_of(two_families(1), batch), rel=1e-12)
    pair = Batch(decode_sequences=2.0, decode_context_tokens=2048.0, emitted_tokens=2.0)
    assert time_of(two_families(3), pair) == pytest.approx(time_of(two_families(2), pair), rel=1e-12)


def test_batches_in_flight_never_exceed_a_shared_resource() -> None:
    for flight in (1, 2, 3):
        on = two_families(flight)
        pool = build_profile([on], MODEL, real()).pools["serve"]
        busy, time = pool.busy_s(DECODE), pool.time_s(DECODE)
        assert all(float(seconds[0, 0]) <= float(time[0, 0]) * (1 + 1e-9) for seconds in busy.values())


def test_more_of_anything_is_never_slower() -> None:
    base = time_of(two_families(matmul_flops_per_s=1e12))
    assert time_of(two_families(matmul_flops_per_s=1e12, links=1e12)) <= base
    assert time_of(two_families(matmul_flops_per_s=2e12)) <= base
    faster = two_families(matmul_flops_per_s=1e12)
    memory = (MemoryGroup("H", stack(bandwidth_bytes_per_s=900e9), 2),)
    assert time_of(replace(faster, package=replace(faster.package, memories=memory))) <= base


def test_time_grows_with_the_batch_and_its_contexts() -> None:
    pool = build_profile([two_families()], MODEL, real()).pools["serve"]
    sequences = np.arange(1.0, 65.0)[None, :]
    time = pool.time_s(
        Batch(decode_sequences=sequences, decode_context_tokens=sequences * 500, emitted_tokens=sequences)
    )
    assert (np.diff(time[0]) >= 0).all()
    context = pool.time_s(Batch(decode_sequences=8.0, decode_context_tokens=8 * sequences * 100, emitted_tokens=8.0))
    assert (np.diff(context[0]) >= 0).all()


def test_resident_weights_save_time_and_memory_energy() -> None:
    kept = two_families(sram_bytes=200e6)
    kept = replace(kept, mapping=MappingChoice(sram_weight_share=0.5))
    streamed = two_families(sram_bytes=200e6)
    pools = [build_profile([on], MODEL, ideal()).pools["serve"] for on in (kept, streamed)]
    assert float(pools[0].time_s(DECODE)[0, 0]) < float(pools[1].time_s(DECODE)[0, 0])
    # 0.5 × 400 MB stay: their bytes save 56 pJ each at the stack and 4 pJ per hop.
    saved = float(pools[1].energy_j(DECODE)[0, 0] - pools[0].energy_j(DECODE)[0, 0])
    assert saved == pytest.approx(200e6 * (56e-12 + 4e-12), rel=0.35)


def test_a_design_that_cannot_serve_keeps_its_place_with_a_reason() -> None:
    small = (MemoryGroup("H", stack(capacity_bytes=1e9), 2),)
    bad = two_families()
    bad = replace(bad, package=replace(bad.package, memories=small))
    profile = build_profile([two_families(), bad, replace(two_families(), placement=None)], MODEL, ideal())
    assert [len(found) for found in profile.violations] == [0, 1, 1]
    time = profile.pools["serve"].time_s(DECODE)
    assert np.isfinite(time[0, 0]) and np.isnan(time[1:, 0]).all()


def test_dies_behind_a_leaf_stack_are_out_of_reach() -> None:
    large = stack(capacity_bytes=64e9)
    on = package((DieGroup("A", chiplet(), 2),), (MemoryGroup("H", large, 1),), 3, 1)
    profile = build_profile([design(on, slots=(0, 2, 1))], MODEL, ideal())
    assert [found.constraint for found in profile.violations[0]] == ["components without a route"]


def test_limits_and_budgets_come_from_the_policy_of_each_design() -> None:
    designs = [
        replace(two_families(), policy=Policy(serving="colocated", max_batch=size, memory_watermark=0.1))
        for size in (8, 16)
    ]
    profile = build_profile(designs, MODEL, ideal())
    assert profile.max_batch.tolist() == [8.0, 16.0]
    # Two stacks of 16 GB less 8.10 B parameters in bf16, less the watermark.
    assert profile.cache_bytes == pytest.approx([0.9 * (32e9 - 2 * 8.1e9)] * 2, rel=1e-3)
    assert profile.kv_bytes_per_token.tolist() == [16384.0] * 2
    assert profile.static_power_w == pytest.approx([2 * 5.0 + 2 * 4.0] * 2)


def test_designs_of_different_policies_are_refused() -> None:
    with pytest.raises(InputError, match="share"):
        build_profile(
            [two_families(), replace(two_families(), policy=Policy(batching="prefill_first"))], MODEL, ideal()
        )
    with pytest.raises(InputError, match="at least one"):
        build_profile([], MODEL, ideal())
