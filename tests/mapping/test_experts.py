"""Experts placed whole on dies: homes, bytes and traffic on packages small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_design
from hydra_dse.config.workloads import load_model
from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.errors import InputError
from hydra_dse.hardware.components import DieGroup, MemoryGroup
from hydra_dse.mapping import ledger, map_design, map_operands, residents_of, role_plan, traffic
from hydra_dse.mapping.experts import place_experts, read_elsewhere, stored_shares
from hydra_dse.mapping.operands import Operands
from hydra_dse.mapping.violations import memory_violations
from hydra_dse.model.operators import Batch, Operator, OperatorClass
from hydra_dse.model.precision import Precision
from hydra_dse.model.routing import Routing
from hydra_dse.policy import Policy
from tests.mapping import pieces
from tests.mapping.pieces import chiplet, package, stack

PRECISION = Precision()
HALF = np.array([0.5, 0.5])
DIAGONAL = np.diag([0.5, 0.5])  # each of two dies has a stack of its own

# Four experts of 100 weights each (2 bytes), two per token; tokens are 10 elements wide.
FOUR = Routing(4, 2)
UP = Operator(
    name="experts_up",
    kind=OperatorClass.EXPERTS,
    weight_copies=1,
    weight_elements=400.0,
    matmul_flops_per_token=400.0,
    reduce_width=10,
    output_width=10,
    gather_elements_per_token=10.0,
    routing=FOUR,
)
DOWN = replace(UP, name="experts_down", gather_elements_per_token=0.0, reduce_elements_per_token=10.0)


def mixture(routing: Routing) -> tuple[Operator, ...]:
    return replace(UP, routing=routing), replace(DOWN, routing=routing)


def operands(routing: Routing = FOUR, weights: float = 1600.0) -> Operands:
    return Operands(mixture(routing), PRECISION, weights, 0.0, 0.0)


def experts_on(
    on: object = None, placement: str = "round_robin", copies: int = 0, serving: str = "colocated"
) -> Design:
    choice = MappingChoice(
        parallelism="expert", sram_weight_share=0.0, expert_placement=placement, replicated_experts=copies
    )
    base = pieces.design(pieces.two_of_each() if on is None else on)
    return replace(base, mapping=choice, policy=Policy(serving=serving))


def tokens(count: float) -> Batch:
    return Batch(decode_sequences=count, decode_context_tokens=count, emitted_tokens=count)


def test_round_robin_deals_experts_in_turn_and_popularity_to_the_least_loaded() -> None:
    routing = Routing(4, 1, shares=(8.0, 4.0, 2.0, 1.0))
    turn = place_experts(routing, HALF, DIAGONAL, "round_robin", 0)
    assert turn.served.argmax(axis=1).tolist() == [0, 1, 0, 1]
    assert turn.load_share == pytest.approx([10 / 15, 5 / 15])
    popular = place_experts(routing, HALF, DIAGONAL, "popularity", 0)
    assert popular.served.argmax(axis=1).tolist() == [0, 1, 1, 0]
    assert popular.load_share == pytest.approx([9 / 15, 6 / 15])
    assert popular.imbalance == pytest.approx(1.2)


def test_experts_that_do_not_divide_the_dies_leave_some_dies_with_one_more() -> None:
    placed = place_experts(Routing(5, 1), np.full(3, 1 / 3), np.diag(np.full(3, 1 / 3)), "round_robin", 0)
    assert placed.served.sum(axis=0).tolist() == [2.0, 2.0, 1.0]
    assert placed.imbalance == pytest.approx(2 / 5 * 3)
    few = place_experts(Routing(2, 1), np.full(4, 0.25), np.diag(np.full(4, 0.25)), "round_robin", 0)
    assert few.load_share.tolist() == [0.5, 0.5, 0.0, 0.0]


def test_replicas_are_held_everywhere_and_even_the_load() -> None:
    routing = Routing(4, 1, shares=(8.0, 4.0, 2.0, 1.0))
    placed = place_experts(routing, HALF, DIAGONAL, "round_robin", 2)
    assert placed.replicated == (0, 1)
    assert placed.copies == pytest.approx(6 / 4)
    assert stored_shares(placed) == pytest.approx([3 / 4, 3 / 4])
    assert placed.load_share == pytest.approx([(6 + 2) / 15, (6 + 1) / 15])


def test_weights_come_from_the_stack_of_the_die_that_holds_the_expert() -> None:
    mapped = map_operands(experts_on(), operands())
    rows = {(row.operator, row.operand): row for row in ledger(mapped, "serve", tokens(1.0), PRECISION)}
    # One token reads 2 of 4 experts, each 200 bytes, half of them on each die.
    assert rows["experts_up", "weights"].site_bytes == pytest.approx([200.0, 200.0])
    skewed = Routing(4, 2, shares=(1.0, 0.0, 1.0, 0.0))
    mapped = map_operands(experts_on(), operands(skewed))
    rows = {(row.operator, row.operand): row for row in ledger(mapped, "serve", tokens(1.0), PRECISION)}
    assert rows["experts_up", "weights"].site_bytes == pytest.approx([400.0, 0.0])


def test_a_token_goes_once_to_each_other_die_that_holds_one_of_its_experts() -> None:
    mapped = map_operands(experts_on(), operands())
    moved = traffic(mapped, "serve", tokens(6.0), PRECISION)
    # Two of four experts without replacement: both on the own die with probability 1/6, so 5/6 of the tokens leave.
    each_way = 6.0 * 0.5 * (5 / 6) * 10.0 * 2.0
    assert moved[0, 1] == pytest.approx(2 * each_way)  # dispatched rows of its own, and sums for those of the other
    assert moved[1, 0] == pytest.approx(2 * each_way)
    kinds = {row.operand for row in ledger(mapped, "serve", tokens(6.0), PRECISION)}
    assert kinds == {"weights", "activations (dispatch)", "activations (combine)"}


def test_traffic_of_a_hot_expert_goes_to_its_die_and_vanishes_when_it_is_replicated() -> None:
    hot = Routing(4, 1, shares=(1.0, 0.0, 0.0, 0.0))
    mapped = map_operands(experts_on(), operands(hot))
    dispatch = mapped.pool("serve").operators[0].transfers[0]
    assert dispatch.kind == "dispatch"
    assert dispatch.share.tolist() == [[0.0, 0.0], [0.5, 0.0]]
    copied = map_operands(experts_on(copies=1), operands(hot))
    assert copied.pool("serve").operators[0].transfers == ()
    rows = ledger(copied, "serve", tokens(1e6), PRECISION)
    assert [row.copies for row in rows] == pytest.approx([2.0, 2.0])


def test_uniform_experts_that_divide_the_dies_read_what_a_tensor_split_reads() -> None:
    expert = map_operands(experts_on(), operands())
    design = replace(experts_on(), mapping=MappingChoice(sram_weight_share=0.0))
    tensor = map_operands(design, operands())
    for mapped in (expert, tensor):
        mapped.pool("serve")
    by_expert, by_tensor = (
        [row.site_bytes.tolist() for row in ledger(mapped, "serve", tokens(5.0), PRECISION) if row.operand == "weights"]
        for mapped in (expert, tensor)
    )
    assert by_expert == [pytest.approx(part) for part in by_tensor]


def test_memory_per_stack_counts_the_experts_it_holds() -> None:
    three = Routing(3, 1)
    design = experts_on()
    mapped = map_operands(design, Operands(mixture(three), PRECISION, 1600.0, 0.0, 0.0))
    assert mapped.memory.weight_bytes == pytest.approx([1600 * 2 / 3, 1600 / 3])
    small = package((DieGroup("A", chiplet(), 2),), (MemoryGroup("H", stack(capacity_bytes=1000.0), 2),), 2, 2)
    found = memory_violations(experts_on(small), Operands(mixture(three), PRECISION, 1600.0, 0.0, 0.0))
    assert [violation.constraint for violation in found] == ["weights and one sequence exceed H[0]"]
    assert found[0].demand == pytest.approx(1600 * 2 / 3)
    even = replace(design, package=small, mapping=MappingChoice())
    assert memory_violations(even, Operands(mixture(three), PRECISION, 1600.0, 0.0, 0.0)) == ()


def test_dies_that_hold_experts_do_not_change_roles() -> None:
    design = replace(experts_on(), policy=Policy(serving="disaggregated", task_map="elastic"))
    with pytest.raises(InputError, match="experts placed whole is not modelled"):
        role_plan(design)


def test_what_experts_leave_of_the_fullest_stack_bounds_the_caches_of_a_served_model() -> None:
    model = load_model("gpt-oss-20b")
    design = load_design("hydra-24-nemotron-chat", ["mapping.parallelism=expert"])
    [resident] = residents_of(design, [model])
    plan = map_design(design, model).memory
    assert resident.cache_bytes == plan.cache_bytes
    assert plan.cache_bytes == pytest.approx(6 * float((plan.capacity_bytes - plan.weight_bytes).min()))
    assert plan.cache_bytes < float((plan.capacity_bytes - plan.weight_bytes).sum())


def test_prefill_dies_read_experts_from_where_decode_dies_keep_them() -> None:
    home = place_experts(FOUR, HALF, DIAGONAL, "round_robin", 0)
    one = place_experts(FOUR, np.array([1.0]), np.array([[0.5], [0.5]]), "round_robin", 0)
    assert read_elsewhere(one, home).fetch.ravel() == pytest.approx([0.5, 0.5])
    hot = place_experts(Routing(3, 1), HALF, DIAGONAL, "round_robin", 0)
    other = place_experts(Routing(3, 1), np.array([1.0]), np.array([[0.5], [0.5]]), "round_robin", 0)
    assert read_elsewhere(other, hot).fetch.ravel() == pytest.approx([2 / 3, 1 / 3])


def test_operators_other_than_experts_keep_their_tensor_split() -> None:
    dense = replace(pieces.UP, routing=None)
    mapped = map_operands(experts_on(), Operands((dense, *mixture(FOUR)), PRECISION, 1600.0, 0.0, 0.0))
    pool = mapped.pool("serve")
    assert [pool.groups[m.group].parallelism for m in pool.operators] == ["tensor", "expert", "expert"]
