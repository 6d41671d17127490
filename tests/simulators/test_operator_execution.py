"""Iterations executed operator by operator: against timelines worked out by hand, the ledger, and a full run."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_model, load_space
from hydra_dse.design.nouns import Placement
from hydra_dse.design.pipeline import pipelined
from hydra_dse.hardware.components import DieGroup
from hydra_dse.mapping import block_names, map_design
from hydra_dse.model import block_operators
from hydra_dse.model.operators import Operator, OperatorClass
from simulators.iteration import Attended, Composition
from simulators.noi.flows import FlowNetwork
from simulators.package import PackageCost, PlacedHardware, ledger_of
from simulators.package.alone import run_alone
from simulators.package.events import PackageExecution
from simulators.package.execution import Iteration
from simulators.package.program import PoolProgram
from simulators.package.reuse import BlockReuse
from tests.simulators.package_pieces import DIE, group, hardware, mapped, one_die, package
from tests.simulators.test_package_models import POINT, composition, hardware_of

ONE_TOKEN = Composition(0, 0, 1, 1, Attended(1, 0.0, 0, 1))
MODELS = ("nemotron-h-8b", "jamba-mini", "gpt-oss-20b")
BATCHES = (
    ("prefill", [(0, 2048)], [], 1),
    ("prefill", [(3000, 300)], [], 1),
    ("decode", [], [1200] * 16, 0),
    ("decode", [], [300, 9000], 0),
)


def _seconds(placed: PlacedHardware, blocks: tuple[tuple[str, ...], ...], batch: Composition) -> float:
    network = FlowNetwork()
    return run_alone(network, PoolProgram(placed, "serve", blocks, network).program(batch)).now_s


# -- by hand: a die beside a stack, a link of 5,000 bytes/s and 0.25 s, 500 bytes of SRAM for streams


def test_an_operator_larger_than_sram_takes_its_stream_and_the_latency_of_its_last_tile() -> None:
    # 2,000 bytes at 5,000 bytes/s, 0.25 s to arrive; computing (2 ms) goes on meanwhile.
    assert _seconds(one_die(), (("projection",),), ONE_TOKEN) == pytest.approx(0.4 + 0.25)


def test_the_next_operator_is_fetched_ahead_as_far_as_sram_has_room() -> None:
    # At 0.65 s a quarter of the second (500 bytes) is there; half of it must be used up (0.25 ms) before 250 bytes
    # more fit, after which computing keeps up: 1,500 bytes take 0.3 s, the latency 0.25 s.
    expected = 0.65 + 0.00025 + 0.3 + 0.25
    assert _seconds(one_die(), (("projection",), ("projection",)), ONE_TOKEN) == pytest.approx(expected)


def test_state_that_does_not_fit_into_sram_is_written_before_the_next_operator_starts() -> None:
    # 3 sequences × 200 bytes of state in and out at once; the stack moves 5,000 bytes/s, what its link carries, reads
    # and writes together: 0.24 s, and 0.25 s for the last tile to arrive.
    three = Composition(0, 0, 3, 3, Attended(3, 0.0, 0, 3))
    assert _seconds(one_die(), (("scan",),), three) == pytest.approx(0.24 + 0.25)


def test_two_batches_on_two_families_overlap() -> None:
    """Batch 2 computes on the one die while batch 1 computes on the other."""
    matmul = {"matmul_flops_per_token": 1e6}
    one = Operator("one", OperatorClass.MLP, weight_copies=1, **matmul)
    two = Operator("two", OperatorClass.ATTENTION_PROJECTION, weight_copies=1, **matmul)
    small = package(3, 1, [DieGroup("D", DIE, 1), DieGroup("E", DIE, 1)], 1)
    lowered = mapped(small, group((0,), [[1.0]], [[1.0]]), operators=(one, two))
    other = replace(group((1,), [[1.0]], [[1.0]]), die_groups=("E",))
    first, second = lowered.pools[0].operators
    pool = replace(
        lowered.pools[0], groups=(*lowered.pools[0].groups, other), operators=(first, replace(second, group=1))
    )
    placed = hardware(small, (0, 2, 1), replace(lowered, pools=(pool,)))
    network = FlowNetwork()
    program = PoolProgram(placed, "serve", (("one",), ("two",)), network).program(ONE_TOKEN)
    running = PackageExecution(network)
    ends: list[float] = []
    for _ in range(2):
        Iteration(running, program, lambda: ends.append(running.now_s))
    while not running.idle:
        running.advance(running.next_s())
    # Each operator computes for 1 s: the second batch waits 1 s for the first die, then follows one step behind.
    assert ends == pytest.approx([2.0, 3.0])


# -- against the ledger ------------------------------------------------------------------------------------------------


def _busy(placed: PlacedHardware, model: str, pool: str, prompts: list, contexts: list) -> tuple:
    """Busy seconds of sites and links by execution and by the ledger, and the time of the execution."""
    cost = PackageCost(placed, pool)
    programs = PoolProgram(placed, pool, block_operators(load_model(model)), FlowNetwork())
    batch = composition(cost, prompts, contexts, 0)
    done = run_alone(programs.network, programs.program(batch))
    busy = sum(amount * programs.network.routes[route].busy_s for route, amount in done.moved.items())
    cost.count(cost.work(batch))
    ledger = ledger_of(cost, cost.snapshot())
    return busy, np.concatenate((ledger.site_s, ledger.link_s)), done.now_s


@pytest.mark.parametrize("copies", [0, 2])
def test_experts_placed_whole_move_the_bytes_of_the_ledger(copies: int) -> None:
    held = hardware_of("gpt-oss-20b")
    space, model = load_space("hydra-24"), load_model("gpt-oss-20b")
    point = space.complete(POINT)
    assert point is not None
    design = space.build(point)
    choice = replace(design.mapping, parallelism="expert", replicated_experts=copies)
    design = replace(design, mapping=choice, placement=Placement(held.links.slots))
    placed = PlacedHardware(design, map_design(design, model), load_calibration("default"), model.precision)
    moved, expected, seconds = _busy(placed, "gpt-oss-20b", "decode", [], [500] * 12)
    assert moved == pytest.approx(expected, rel=1e-9)
    assert seconds >= moved.max()


def test_two_batches_in_flight_overlap_in_the_stages_of_a_pipeline() -> None:
    model = load_model("nemotron-h-8b")
    held = hardware_of("nemotron-h-8b")
    point = load_space("hydra-24").complete(POINT)
    assert point is not None
    design = load_space("hydra-24").build(point)
    design = replace(design, policy=replace(design.policy, serving="colocated"), placement=Placement(held.links.slots))
    design = pipelined(replace(design, mapping=replace(design.mapping, pipeline=2)))
    placed = PlacedHardware(design, map_design(design, model), load_calibration("default"), model.precision)
    network = FlowNetwork()
    programs = PoolProgram(placed, "serve", block_names(model, 2), network)
    cost = PackageCost(placed, "serve")
    program = programs.program(composition(cost, [(0, 512)], [], 1))
    # All blocks, the embedding, the head and the arrival at the second stage.
    assert len(program.blocks) == 52 + 3
    alone, ends = run_alone(network, program).now_s, []
    running = PackageExecution(network)
    for _ in range(2):
        Iteration(running, program, lambda: ends.append(running.now_s))
    while not running.idle:
        running.advance(running.next_s())
    # Of three dies a group two are in the first stage and one in the second, each with 26 blocks: 1/3 and 2/3 of the
    # time.  The second batch reaches the second stage at 2/3, finds it free at 1, and leaves it at 5/3.
    assert ends == pytest.approx([alone, 5.0 / 3.0 * alone], rel=0.03)


@cache
def _pool(model: str, pool: str) -> tuple[PackageCost, PoolProgram]:
    placed = hardware_of(model)
    return PackageCost(placed, pool), PoolProgram(placed, pool, block_operators(load_model(model)), FlowNetwork())


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_bytes_moved_are_those_of_the_ledger_on_every_site_and_link(model: str, case: int) -> None:
    pool, prompts, contexts, ends = BATCHES[case]
    cost, programs = _pool(model, pool)
    batch = composition(cost, list(prompts), list(contexts), ends)
    done = run_alone(programs.network, programs.program(batch))
    busy = sum(amount * programs.network.routes[route].busy_s for route, amount in done.moved.items())
    cost.reset()
    cost.count(cost.work(batch))
    ledger = ledger_of(cost, cost.snapshot())
    assert busy == pytest.approx(np.concatenate((ledger.site_s, ledger.link_s)), rel=1e-9)
    # No resource was busy for longer than the iteration took.
    assert float(np.max(busy)) <= done.now_s * (1.0 + 1e-9)


@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_every_block_is_executed_with_a_dozen_streams_at_once(case: int) -> None:
    pool, prompts, contexts, ends = BATCHES[case]
    cost, programs = _pool("nemotron-h-8b", pool)
    program = programs.program(composition(cost, list(prompts), list(contexts), ends))
    assert len(program.blocks) == 52 + 2
    assert run_alone(programs.network, program).most_stripes >= 12


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_identical_blocks_executed_once_give_the_time_and_bytes_of_all_of_them(model: str, case: int) -> None:
    pool, prompts, contexts, ends = BATCHES[case]
    cost, programs = _pool(model, pool)
    program = programs.program(composition(cost, list(prompts), list(contexts), ends))
    full, reuse = run_alone(programs.network, program), BlockReuse()
    short = run_alone(programs.network, program, reuse)
    assert reuse.executed < len(program.blocks) / 2
    assert short.now_s == pytest.approx(full.now_s, rel=0.005)
    assert sum(short.moved.values()) == pytest.approx(sum(full.moved.values()), rel=0.005)


def test_twenty_compositions_of_all_blocks_take_less_than_a_cpu_second() -> None:
    cost, programs = _pool("nemotron-h-8b", "decode")
    batches = [composition(cost, [], [1000 + 10 * number] * 16, 0) for number in range(20)]
    run_alone(programs.network, programs.program(batches[0]))
    start = time.process_time()
    for batch in batches:
        run_alone(programs.network, programs.program(batch))
    assert time.process_time() - start < 1.0


# -- pools side by side ------------------------------------------------------------------------------------------------


def test_pools_side_by_side_slow_each_other_but_never_gain_nor_lose_more_than_taking_turns() -> None:
    placed, network = hardware_of("nemotron-h-8b"), FlowNetwork()
    blocks = block_operators(load_model("nemotron-h-8b"))
    pools = {name: PoolProgram(placed, name, blocks, network) for name in ("prefill", "decode")}
    cost = PackageCost(placed, "decode")
    programs = [
        pools["prefill"].program(composition(cost, [(0, 100)], [], 1)),
        pools["decode"].program(composition(cost, [], [1200] * 16, 0)),
    ]
    alone = [run_alone(network, program).now_s for program in programs]
    both, ends = PackageExecution(network), [0.0, 0.0]

    def end(number: int) -> None:
        ends[number] = both.now_s

    Iteration(both, programs[0], lambda: end(0))
    Iteration(both, programs[1], lambda: end(1))
    while not both.idle:
        both.advance(both.next_s())
    assert ends[0] > alone[0] * (1.0 - 1e-9)
    assert ends[1] > alone[1] * 1.001
    assert max(ends) < sum(alone)
