"""Role states of a design, and the bytes that move from one to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.mapping import MappedDesign, map_operands, role_plan, swapped, switch_traffic
from hydra_dse.mapping.operands import Operands
from hydra_dse.model.operators import OperatorClass
from hydra_dse.policy import Policy
from tests.mapping.pieces import ATTENTION, PRECISION, SCAN, UP, chiplet, design, package, stack


def elastic(attention: int = 2, ssm: int = 4, **policy: object) -> Design:
    groups = (
        DieGroup("Ap", chiplet(), 2, ("attention",), "prefill"),
        DieGroup("Mp", chiplet(), 1, ("ssm",), "prefill"),
        DieGroup("Ad", chiplet(), attention, ("attention",), "decode"),
        DieGroup("Md", chiplet(), ssm, ("ssm",), "decode"),
    )
    on = package(groups, (MemoryGroup("H", stack(), 2),), 4, 4)
    return design(on, policy=Policy(task_map="elastic", **policy))


def phases(of: Design) -> dict[str, tuple[int, str]]:
    return {group.name: (group.count, group.phase) for group in of.package.dies}


def mapped(of: Design) -> MappedDesign:
    return map_operands(of, Operands((ATTENTION, SCAN, UP), PRECISION, 1e9, 200.0, 300.0))


def test_a_unit_takes_the_last_dies_of_every_decode_group_that_keeps_one() -> None:
    plan = role_plan(elastic(role_units_to_prefill=2))
    assert [phases(state)["Md:1"][1] for state in plan.states] == ["decode", "prefill", "prefill"]
    assert [phases(state)["Md:2"][1] for state in plan.states] == ["decode", "decode", "prefill"]
    assert phases(plan.states[2])["Ad"] == (1, "decode")
    assert "Ad:2" not in phases(plan.states[2])
    # Ap 0 1, Mp 2, Ad 3, Ad:1 4, Md 5 6, Md:2 7, Md:1 8: the numbers of dies, hence the placement, stay.
    assert plan.states[2].package.die_indices("Md:1") == (8,)
    assert plan.states[2].package.die_count == elastic().package.die_count


def test_prefill_dies_go_to_decode_in_the_states_below_the_native_one() -> None:
    plan = role_plan(elastic(role_units_to_decode=3))
    assert plan.native == 1
    assert phases(plan.states[0])["Ap:1"] == (1, "decode")
    assert phases(plan.states[1])["Ap:1"] == (1, "prefill")
    assert "Mp:1" not in phases(plan.states[0])


def test_a_design_that_can_spare_no_die_has_one_state() -> None:
    plan = role_plan(elastic(attention=1, ssm=1))
    assert len(plan.states) == 1


def test_a_static_design_has_one_state_which_is_itself() -> None:
    still = replace(elastic(), policy=Policy())
    plan = role_plan(still)
    assert plan.states[0].package == still.package


def test_the_native_state_is_mapped_like_the_design_itself() -> None:
    whole, split = mapped(elastic()), mapped(role_plan(elastic()).states[0])
    for pool, same in zip(whole.pools, split.pools, strict=True):
        for group, other in zip(pool.groups, same.groups, strict=True):
            assert group.dies == other.dies
            assert np.array_equal(group.weight_fetch, other.weight_fetch)
        assert [o.resident_share for o in pool.operators] == [o.resident_share for o in same.operators]


def test_groups_named_by_a_mapping_take_their_units_along() -> None:
    named = replace(elastic(), mapping=MappingChoice({OperatorClass.MLP: ("Ap", "Md")}))
    plan = role_plan(named)
    assert plan.states[1].mapping.groups[OperatorClass.MLP] == ("Ap", "Md", "Md:1")


def test_swapped_exchanges_both_pools() -> None:
    assert {name: phase for name, (_, phase) in phases(swapped(elastic())).items()} == {
        "Ap": "decode",
        "Mp": "decode",
        "Ad": "prefill",
        "Md": "prefill",
    }


def test_shares_of_the_parts_of_a_group_sum_to_one() -> None:
    weights = role_plan(elastic(role_units_to_prefill=2)).merge_weights()
    assert weights["Md"] + weights["Md:1"] + weights["Md:2"] == pytest.approx(1.0)
    assert weights["Md:1"] == pytest.approx(0.25)


def test_nothing_moves_between_equal_states_and_nothing_from_dies() -> None:
    plan = role_plan(elastic())
    states = [mapped(state) for state in plan.states]
    assert not switch_traffic(states[0], states[0], 2.0).any()
    moved = switch_traffic(states[0], states[1], 2.0)
    sites = [site.component for site in states[0].sites]
    assert moved.sum() > 0
    assert moved[sites].sum() == pytest.approx(moved.sum())


def test_bytes_of_a_change_equal_a_hand_count() -> None:
    # Two decode dies, one prefill die, one operator of 1,000 weights of 2 bytes; half of an SRAM of 400 bytes keeps
    # weights.  Native: prefill die 0 has 200 of its 2,000 bytes; decode dies 1 and 2 have 200 of their 1,000 each.
    # Then die 2 joins die 0: each has 200 of 1,000 bytes, die 1 alone 200 of 2,000.
    # Die 0 kept 10 % of [0, 1), of which [0, ½) is left: 100 of the 200 bytes it needs are there, 100 move.
    # Die 2 kept 20 % of [½, 1) and needs 20 % of [½, 1): nothing moves.  Die 1 kept 20 % of [0, ½), needs 10 % of
    # [0, 1): 200 of 200 are there.
    up = replace(UP, count=1, weight_copies=1, weight_elements=1000.0)
    small = replace(chiplet(), sram_bytes=400.0)
    groups = (DieGroup("P", small, 1, (), "prefill"), DieGroup("D", small, 2, (), "decode"))
    on = package(groups, (MemoryGroup("H", stack(), 1),), 2, 2)
    plan = role_plan(design(on, policy=Policy(task_map="elastic")))
    operands = Operands((up,), PRECISION, 2000.0, 200.0, 300.0)
    states = [map_operands(state, operands) for state in plan.states]
    assert PRECISION.weight_bytes == 2.0
    moved = switch_traffic(states[0], states[1], 2.0)
    assert moved[3, :3] == pytest.approx([100.0, 0.0, 0.0])
    # Back: die 0 has 20 % of [0, ½) and needs 10 % of [0, 1): all there.  Die 1 has 10 % of [0, 1), needs 20 % of
    # [0, ½): 100 of 200 there.
    back = switch_traffic(states[1], states[0], 2.0)
    assert back[3, :3] == pytest.approx([0.0, 100.0, 0.0])
