"""Convolutions and scans that unlike dies share by their speed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_model
from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import Chiplet, DieGroup, MemoryGroup
from hydra_dse.mapping import MappedPool, map_operands, reference_traffic
from hydra_dse.mapping.operands import Operands
from hydra_dse.model.operators import Batch, Operator
from hydra_dse.policy import Policy
from hydra_dse.profile import build_profile
from tests.mapping.pieces import (
    DOWN,
    PRECISION,
    SCAN,
    UP,
    chiplet,
    design,
    ideal,
    nemotron_h_8b,
    package,
    stack,
)

BY_SPEED = MappingChoice(scan_split="speed", sram_weight_share=0.0)
SLOW = chiplet(name="slow", style="mac-array", matmul_flops_per_s=10e12, vector_flops_per_s=1e12)
FAST = replace(SLOW, name="fast", vector_flops_per_s=4e12)


def pair(first: Chiplet = SLOW, second: Chiplet = FAST, mapping: MappingChoice = BY_SPEED, serving: str = "") -> Design:
    """A die of each kind beside each other above two stacks; of both phases each."""
    dies = (DieGroup("A", first, 1), DieGroup("B", second, 1))
    on = package(dies, (MemoryGroup("H", stack(), 2),), 2, 2)
    return design(on, mapping=mapping, policy=Policy(serving=serving or "colocated"))


def pool_of(on: Design, *operators: Operator, pool: str = "serve") -> MappedPool:
    asked = Operands(operators, PRECISION, 1e9, kv_bytes_per_token=200.0, state_bytes_per_sequence=300.0)
    return map_operands(on, asked).pool(pool)


def shares(pool: MappedPool) -> dict[str, list[float]]:
    return {one.operator.name: pool.groups[one.group].work_share.tolist() for one in pool.operators}


def test_a_die_of_four_times_the_vector_units_takes_four_fifths_of_a_scan_and_half_of_all_else() -> None:
    found = shares(pool_of(pair(), UP, SCAN, DOWN))
    assert found == {"up": [0.5, 0.5], "scan": pytest.approx([0.2, 0.8]), "down": [0.5, 0.5]}


def test_by_peak_a_scan_is_cut_as_all_else() -> None:
    assert shares(pool_of(pair(mapping=MappingChoice()), UP, SCAN))["scan"] == [0.5, 0.5]


def test_prompts_that_run_as_matrices_are_cut_by_what_binds_on_each_die() -> None:
    # A token asks for 100 FLOPs of the matrix units, 10 s⁻¹⁰ on either die, and for 30 of the vector units:
    # 30 at 1 TFLOP/s take longer than 100 at 10 TFLOP/s, 30 at 4 TFLOP/s less.
    scan = replace(SCAN, matmul_flops_per_token=100.0, vector_flops_per_token=30.0)
    slow, fast = 1 / 30.0, 1 / 10.0
    assert shares(pool_of(pair(), scan))["scan"] == pytest.approx([slow / (slow + fast), fast / (slow + fast)])


def test_a_decode_pool_is_cut_by_the_updates_of_a_step() -> None:
    scan = replace(SCAN, matmul_flops_per_token=100.0, vector_flops_per_token=0.0, vector_flops_per_decode_token=20.0)
    on = pair(serving="disaggregated")
    prompt = replace(scan, vector_flops_per_decode_token=0.0)
    assert shares(pool_of(on, prompt, pool="prefill"))["scan"] == pytest.approx([0.5, 0.5])
    decoding = shares(pool_of(on, scan, pool="decode"))["scan"]
    batch = Batch(decode_sequences=1.0, decode_context_tokens=1.0, emitted_tokens=1.0)
    asked = scan.demand(batch, PRECISION)
    times = [
        max(asked.matmul_flops / die.matmul_flops_per_s, asked.vector_flops / die.vector_flops_per_s)
        for die in (SLOW, FAST)
    ]
    assert decoding == pytest.approx([times[1] / sum(times), times[0] / sum(times)])


def test_a_die_that_multiplies_on_its_lanes_counts_the_updates() -> None:
    scan = replace(SCAN, matmul_flops_per_token=100.0, vector_flops_per_token=0.0, vector_flops_per_decode_token=20.0)
    lanes = replace(FAST, style="vector", matmul_flops_per_s=4e12)
    slow, fast = 10e12 / 100.0, 4e12 / 20.0
    assert shares(pool_of(pair(SLOW, lanes), scan))["scan"] == pytest.approx(
        [slow / (slow + fast), fast / (slow + fast)]
    )


def test_what_another_die_scans_is_sent_to_it_and_no_more() -> None:
    scan = replace(SCAN, activation_elements_per_token=24.0)
    inner = replace(UP, name="in", gather_elements_per_token=10.0)
    [forward] = pool_of(pair(), inner, scan).operators[1].transfers
    # Of the channels 0 to 0.5 lie on the slow die, which scans 0 to 0.2 of them.
    assert forward.kind == "forward" and forward.moves == ((0, 1, pytest.approx(0.3)),)
    assert forward.elements_per_token == 12.0


def test_state_is_read_by_the_die_that_scans() -> None:
    found = pool_of(pair(), SCAN)
    fetched = found.groups[found.operators[0].group].cache_fetch
    assert fetched.sum(axis=0) == pytest.approx([0.2, 0.8])
    assert fetched.sum(axis=1) == pytest.approx([0.5, 0.5])


def test_equal_dies_move_nothing_and_take_the_time_of_a_cut_by_peak() -> None:
    model = nemotron_h_8b()
    on = pair(SLOW, replace(SLOW, name="other"))
    asked = map_operands(
        on, Operands((UP, replace(SCAN, activation_elements_per_token=24.0)), PRECISION, 1e9, 0.0, 0.0)
    )
    assert [one.transfers for one in asked.pool("serve").operators][1] == ()
    other = replace(on, mapping=replace(BY_SPEED, scan_split="peak"))
    batch = Batch(prefill_tokens=512.0, prefill_sequences=1.0, prefill_pairs=512.0**2 / 2, emitted_tokens=1.0)
    times = [build_profile([one], model, ideal()).pools["serve"].time_s(batch) for one in (on, other)]
    assert times[0] == pytest.approx(times[1], rel=1e-12)


def test_prompts_of_a_model_with_vector_scans_are_shorter_by_speed() -> None:
    prompt = Batch(512.0, 1.0, 512.0**2 / 2, 512.0, emitted_tokens=1.0)
    times = {}
    for split in ("speed", "peak"):
        on = pair(mapping=replace(BY_SPEED, scan_split=split))
        fast = replace(on.package, link_bandwidth_bytes_per_s=1e15)
        pool = build_profile([replace(on, package=fast)], load_model("hymba-1.5b"), ideal()).pools["serve"]
        times[split] = float(np.ravel(pool.time_s(prompt))[0])
    assert times["speed"] < 0.99 * times["peak"]


def test_replicas_share_rows_and_take_no_notice() -> None:
    rows = replace(BY_SPEED, parallelism="replica")
    assert shares(pool_of(pair(mapping=rows), UP, SCAN))["scan"] == [0.5, 0.5]


def test_placements_see_who_scans_whatever_the_link_bandwidth_displaces() -> None:
    model = nemotron_h_8b()
    smaller = replace(FAST, matmul_flops_per_s=9e12, vector_flops_per_s=3.6e12)  # the same units, a tenth fewer
    half = replace(FAST, matmul_flops_per_s=5e12, vector_flops_per_s=2e12)  # a die of another size
    whole, displaced, small = (reference_traffic(pair(SLOW, die), model) for die in (FAST, smaller, half))
    assert np.array_equal(whole, displaced)
    assert small[2:, 1].sum() < whole[2:, 1].sum()
    by_peak = reference_traffic(pair(mapping=MappingChoice(sram_weight_share=0.0)), model)
    assert not np.allclose(whole, by_peak)
