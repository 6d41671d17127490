from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.mapping import (
    MappedDesign,
    die_violations,
    map_design,
    map_operands,
    mapping_violations,
    memory_violations,
)
from hydra_dse.mapping.operands import Operands
from hydra_dse.model.operators import Operator, OperatorClass
from hydra_dse.policy import Policy
from tests.mapping import pieces
from tests.mapping.pieces import ATTENTION, DOWN, PRECISION, SCAN, UP, chiplet, design, package, stack


def operands(*operators: Operator, weights: float = 1e9) -> Operands:
    return Operands(operators, PRECISION, weights, kv_bytes_per_token=200.0, state_bytes_per_sequence=300.0)


def four_groups(**policy: object) -> Design:
    groups = (
        DieGroup("Ap", chiplet(), 2, ("attention",), "prefill"),
        DieGroup("Mp", chiplet(), 1, ("ssm",), "prefill"),
        DieGroup("Ad", chiplet(), 1, ("attention",), "decode"),
        DieGroup("Md", chiplet(), 3, ("ssm",), "decode"),
    )
    on = package(groups, (MemoryGroup("H", stack(), 2),), 3, 3)
    return design(on, policy=Policy(serving="disaggregated", **policy))


def groups_of(mapped: MappedDesign, pool: str) -> dict[str, tuple[str, ...]]:
    found = mapped.pool(pool)
    return {o.operator.name: found.groups[o.group].die_groups for o in found.operators}


def test_operators_go_to_the_groups_of_their_family_and_phase() -> None:
    mapped = map_operands(four_groups(), operands(ATTENTION, SCAN, UP))
    assert groups_of(mapped, "prefill") == {"attention": ("Ap",), "scan": ("Mp",), "up": ("Ap", "Mp")}
    assert groups_of(mapped, "decode") == {"attention": ("Ad",), "scan": ("Md",), "up": ("Ad", "Md")}


def test_a_colocated_design_has_one_pool_over_all_groups() -> None:
    mapped = map_operands(replace(four_groups(), policy=Policy(serving="colocated")), operands(ATTENTION, UP))
    assert groups_of(mapped, "serve") == {"attention": ("Ap", "Ad"), "up": ("Ap", "Mp", "Ad", "Md")}


def test_named_groups_override_families_within_the_phase() -> None:
    choice = MappingChoice(groups={OperatorClass.MLP: ("Mp", "Md")})
    mapped = map_operands(replace(four_groups(), mapping=choice), operands(ATTENTION, UP))
    assert groups_of(mapped, "prefill")["up"] == ("Mp",)
    assert groups_of(mapped, "decode")["up"] == ("Md",)


def test_work_shares_and_fetches_add_up() -> None:
    mapped = map_operands(four_groups(), operands(ATTENTION, SCAN, UP))
    for pool in mapped.pools:
        for group in pool.groups:
            assert group.work_share.sum() == pytest.approx(1.0)
            assert group.weight_fetch.sum() == pytest.approx(1.0)
            assert group.cache_fetch.sum(axis=0) == pytest.approx(group.work_share)
            assert group.cache_fetch.sum(axis=1) == pytest.approx([0.5, 0.5])


def test_replicas_stream_all_weights_to_every_die() -> None:
    choice = MappingChoice(parallelism="replica")
    mapped = map_operands(replace(four_groups(), mapping=choice), operands(UP))
    assert mapped.pool("decode").groups[0].weight_fetch.sum() == pytest.approx(4.0)
    assert mapped.pool("decode").groups[0].cache_fetch.sum() == pytest.approx(1.0)


def test_half_the_sram_of_a_pool_keeps_its_share_of_the_weights() -> None:
    # Prefill: 3 dies × 40 MB × 0.5 = 60 MB; weights 4 × 100 MB.
    heavy = replace(UP, weight_elements=50e6)
    mapped = map_operands(four_groups(), operands(heavy))
    assert mapped.pool("prefill").operators[0].resident_share == pytest.approx(60e6 / 400e6)
    assert mapped.pool("decode").operators[0].resident_share == pytest.approx(80e6 / 400e6)


def test_replicas_keep_a_copy_in_every_die() -> None:
    heavy = replace(UP, weight_elements=50e6)
    choice = MappingChoice(parallelism="replica")
    mapped = map_operands(replace(four_groups(), mapping=choice), operands(heavy))
    assert mapped.pool("prefill").operators[0].resident_share == pytest.approx(20e6 / 400e6)


def test_dies_of_two_pools_give_half_of_their_sram_to_each() -> None:
    on = package((DieGroup("A", chiplet(), 2),), (MemoryGroup("H", stack(), 2),))
    shared = design(on, policy=Policy(serving="disaggregated"))
    mapped = map_operands(shared, operands(replace(UP, weight_elements=50e6)))
    assert mapped.pool("prefill").operators[0].resident_share == pytest.approx(20e6 / 400e6)


def test_weights_that_fit_stay_and_lookup_tables_do_not() -> None:
    table = Operator("table", OperatorClass.EMBEDDING, weight_elements=1000.0, output_width=10)
    mapped = map_operands(four_groups(), operands(table, UP))
    assert [o.resident_share for o in mapped.pool("prefill").operators] == [0.0, 1.0]


def test_heads_that_a_group_does_not_divide_are_charged() -> None:
    heads = replace(ATTENTION, parallel_units=8)
    decode = map_operands(four_groups(), operands(replace(heads, kind=OperatorClass.SSM_SCAN))).pool("decode")
    assert decode.operators[0].imbalance == pytest.approx(3 * 3 / 8)


def test_the_residual_stream_is_gathered_from_all_dies_and_reduced_to_them() -> None:
    projection = replace(UP, kind=OperatorClass.ATTENTION_PROJECTION, reduce_elements_per_token=10.0)
    mapped = map_operands(four_groups(), operands(projection))
    gather, reduce = mapped.pool("prefill").operators[0].transfers
    assert (gather.kind, reduce.kind) == ("gather", "reduce")
    # Three dies of the pool hold a third each; the two of the group lack two thirds each.
    assert gather.share.sum() == pytest.approx(2 * 2 / 3)
    assert reduce.share.sum() == pytest.approx(2 * 2 / 3)
    assert gather.sources == (0, 1, 2) and gather.targets == (0, 1)


def test_an_operator_on_another_group_than_its_predecessor_is_sent_its_input() -> None:
    inner = replace(SCAN, activation_elements_per_token=40.0)
    before = replace(UP, kind=OperatorClass.ATTENTION_PROJECTION)
    mapped = map_operands(four_groups(), operands(before, inner))
    (forward,) = mapped.pool("prefill").operators[1].transfers
    assert forward.kind == "forward"
    assert forward.elements_per_token == 20.0
    assert forward.share == pytest.approx(np.array([[0.5], [0.5]]))


def test_replicas_move_only_rows_that_a_die_does_not_hold() -> None:
    choice = MappingChoice(parallelism="replica")
    same = map_operands(replace(four_groups(), mapping=choice), operands(UP, DOWN))
    assert all(not mapped.transfers for mapped in same.pool("prefill").operators)
    attention = replace(UP, kind=OperatorClass.ATTENTION_PROJECTION)
    moved = map_operands(replace(four_groups(), mapping=choice), operands(attention))
    (gather,) = moved.pool("prefill").operators[0].transfers
    # Rows lie on thirds, the two dies work on halves: 1/6 goes from die 1 to 0, 1/3 from die 2 to 1.
    assert gather.share == pytest.approx(np.array([[0, 0], [1 / 6, 0], [0, 1 / 3]]))


def test_weights_lie_once_and_caches_take_what_the_fuller_stack_leaves() -> None:
    small = MemoryGroup("S", stack(capacity_bytes=4e9), 1)
    on = package((DieGroup("A", chiplet(), 1),), (MemoryGroup("H", stack(), 1), small))
    plan = map_operands(design(on), operands(UP, weights=6e9)).memory
    assert plan.weight_bytes == pytest.approx([3e9, 3e9])
    # The small stack has 1 GB left and takes half of every cache.
    assert plan.cache_bytes == pytest.approx(2e9)


def test_a_hand_off_on_one_package_is_a_pointer() -> None:
    mapped = map_operands(four_groups(), operands(UP))
    assert mapped.handoff_bytes_per_token == 0 and mapped.handoff_bytes_per_sequence == 0


def test_every_lack_is_named_with_demand_bound_and_levers() -> None:
    nothing = design(package((), ()), slots=())
    assert [v.bound for v in memory_violations(nothing, operands(UP))] == [0]
    assert "no dies in pool 'serve'" in {v.constraint for v in die_violations(nothing, operands(UP))}
    too_big = memory_violations(four_groups(), operands(UP, weights=40e9))
    assert too_big[0].demand > too_big[0].bound == pytest.approx(32e9)
    assert too_big[0].levers


def test_an_operator_without_a_family_on_the_package_is_a_violation() -> None:
    on = package((DieGroup("A", chiplet(), 1, ("attention",)),), (MemoryGroup("H", stack(), 1),))
    found = die_violations(design(on), operands(SCAN, ATTENTION))
    assert [v.constraint for v in found] == ["no die group of pool 'serve' runs 'ssm_scan' operators"]


def test_a_format_that_a_die_does_not_multiply_is_a_violation() -> None:
    fp8 = Operands((UP,), replace(PRECISION, activations="fp8"), 1e6, 0.0, 0.0)
    assert die_violations(four_groups(), fp8)
    able = package((DieGroup("A", chiplet(format_speed=(("fp8", 2.0),)), 1),), (MemoryGroup("H", stack(), 1),))
    assert not die_violations(design(able), fp8)


def test_a_real_model_maps_without_violations_and_is_cached_across_link_bandwidths() -> None:
    model = pieces.nemotron_h_8b()
    one = four_groups()
    assert not mapping_violations(one, model)
    wider = replace(
        one, package=replace(one.package, link_bandwidth_bytes_per_s=640e9), policy=four_groups(max_batch=8).policy
    )
    assert map_design(one, model) is map_design(wider, model)
