"""Pools with memories of their own: what a hand-off moves, how long it takes, what holds it back, what it costs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from placed_pieces import constant
from serving_pieces import PLENTY, requests, serve
from test_tandem import covers, exact_saturation, offered

from hydra_dse.config import load_calibration, load_design, load_model, load_workload
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator import evaluate
from hydra_dse.mapping import map_design, mapping_violations
from hydra_dse.placement import place_design
from hydra_dse.policy import Policy
from hydra_dse.results import Evaluation
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import Workload
from simulators.iteration import FixedCost, Work
from simulators.noi.links import PlacedLinks
from simulators.package import PlacedHardware
from simulators.package.handoff import Handoff
from simulators.serving import CacheShape, ServingSimulator, System, run

MODEL = "nemotron-h-8b"


@cache
def placed() -> Design:
    return place_design(load_design("split-24-nemotron-chat"), [load_model(MODEL)], 0)[0]


@cache
def workload(rate: float) -> Workload:
    chat = load_workload("azure-conversation")
    return at_rate(replace(chat, models=(load_model(MODEL),) * len(chat.models)), rate)


# -- the ledger --------------------------------------------------------------------------------------------------


def test_each_pool_reads_a_copy_of_the_weights_in_its_own_stacks() -> None:
    mapped = map_design(placed(), load_model(MODEL))
    # Two stacks of the prefill pool, then four of the decode pool.
    for pool, mine in (("prefill", (0, 1)), ("decode", (2, 3, 4, 5))):
        for group in mapped.pool(pool).groups:
            others = [site for site in range(6) if site not in mine]
            assert group.weight_fetch[others].sum() == group.cache_fetch[others].sum() == 0.0
            assert group.weight_fetch.sum() == pytest.approx(1.0)
    whole = mapped.memory.weight_bytes
    assert whole[:2].sum() == pytest.approx(whole[2:].sum())
    room = 16e9 - whole
    assert mapped.memory.source_cache_bytes == pytest.approx(2 * room[0])
    assert mapped.memory.cache_bytes == pytest.approx(4 * room[2])


def test_bytes_of_a_handoff_by_hand() -> None:
    design, model = placed(), load_model(MODEL)
    assert design.placement is not None
    hardware = PlacedHardware(design, map_design(design, model), load_calibration("default"), model.precision)
    handoff, links = Handoff(hardware), PlacedLinks(design.package, design.placement.slots)
    # 4 attention blocks of 8 KV heads of 128, in 2 bytes; 24 blocks of state in 4 bytes and of convolution.
    kv = hardware.mapped.memory.kv_bytes_per_token
    assert kv == 2 * 4 * 8 * 128 * 2
    moved = 1000 * kv + hardware.mapped.memory.state_bytes_per_sequence
    on_links = np.zeros(links.count)
    stacks = range(18, 24)
    for source, targets in ((stacks[0], stacks[2:4]), (stacks[1], stacks[4:6])):
        for target in targets:
            on_links[list(links.path(source, target))] += moved / 4
    ledger = handoff.ledger(1000, 1)
    assert ledger.operands["hand-off"].site_bytes == pytest.approx(moved * np.array([0.5, 0.5, *[0.25] * 4]))
    assert ledger.operands["hand-off"].link_bytes == pytest.approx(on_links)
    seconds = max(moved / 2 / 600e9, (on_links / links.capacity_bytes_per_s).max())
    assert handoff(1000).duration_s == pytest.approx(seconds)
    assert ledger.memory_j == pytest.approx(2 * moved * 7e-12 * 8)


# -- the order of things -----------------------------------------------------------------------------------------


def apart(source: int, target: int, handoff_s: float = 0.0, policy: Policy | None = None) -> System:
    """Rooms for so many requests (a byte of state each) in both memories; iterations of one second."""

    def room(count: int) -> CacheShape:
        return CacheShape(float(count), 0.0, 1.0, watermark=0.0)

    costs = {"prefill": FixedCost(constant(1.0)), "decode": FixedCost(constant(1.0))}
    rules = policy or Policy(max_batch=8, token_budget=10)
    return System(rules, room(target), dict(costs), lambda _: Work(handoff_s), source=room(source))


def test_the_source_is_held_until_the_transfer_has_ended() -> None:
    log, _ = serve(apart(source=1, target=8, handoff_s=2.5), requests(*[(0, 10, 2)] * 3))
    # A prompt a second, then 2.5 s on the way, during which nobody else has the one place at the source.
    assert log.steps("prefill") == [(0.0, 10, 0), (3.5, 10, 0), (7.0, 10, 0)]
    assert log.steps("decode") == [(3.5, 0, 1), (7.0, 0, 1), (10.5, 0, 1)]


def test_latency_delays_what_arrives_and_keeps_nothing_busy_leaps_or_not() -> None:
    costs = {"prefill": FixedCost(constant(1.0)), "decode": FixedCost(constant(0.3))}
    what = replace(apart(source=8, target=8, handoff_s=0.5), costs=dict(costs), handoff_latency_s=3.03)
    sent = requests(*[(0, 10, 90)] * 3)
    logs = [serve(what, sent, fast=fast)[0] for fast in (True, False)]
    assert logs[0].dates() == logs[1].dates()
    # The first prompt is there after 1 s, its caches after 3.53 s more; the second joins after the step under way.
    starts = [start for start, _, decoders in logs[1].steps("decode") if decoders == 1]
    assert starts[0] == pytest.approx(4.53)
    joined = next(start for start, _, decoders in logs[1].steps("decode") if decoders == 2)
    assert joined == pytest.approx(4.53 + 4 * 0.3)


def test_a_request_leaves_when_the_target_has_room() -> None:
    log, _ = serve(apart(source=3, target=1), requests(*[(0, 10, 4)] * 3))
    assert log.steps("prefill") == [(0.0, 10, 0), (1.0, 10, 0), (2.0, 10, 0)]
    # Three steps each, one after the other.
    assert log.steps("decode") == [(float(start), 0, 1) for start in range(1, 10)]


def test_a_request_that_ends_with_its_prompt_never_moves() -> None:
    log, server = serve(apart(source=1, target=1, handoff_s=5.0), requests((0, 10, 1), (0, 10, 1)))
    assert log.dates() == [(0, 0.0, 1.0, 1.0), (1, 1.0, 2.0, 2.0)]
    assert server.departures.moved == (0, 0)


def test_growth_preempts_in_the_decode_memory_and_the_prompt_is_computed_and_moved_again() -> None:
    cache = CacheShape(40.0, 1.0, 0.0, block_tokens=10, watermark=0.0)
    policy = Policy(max_batch=8, token_budget=100)
    costs = {"prefill": FixedCost(constant(1.0)), "decode": FixedCost(constant(1.0))}
    what = System(policy, cache, dict(costs), lambda _: Work(0.5), source=PLENTY)
    for fast in (True, False):
        log, server = serve(what, requests((0, 10, 15), (0, 10, 15)), fast=fast)
        # Both have two blocks from their first step on and want a third with the eleventh, when all four are taken.
        # The newer one gives way with ten tokens of the pool and the first one: 21 tokens are computed and moved again.
        assert [visit.preemptions for visit in log.visits] == [0, 1]
        assert server.departures.moved == (10 + 10 + 21, 3)


@pytest.mark.slow
def test_two_memories_are_a_tandem_queue_with_a_finite_buffer() -> None:
    """A place at the source and one at the target: the first server stops while two have passed it."""
    costs = {"prefill": FixedCost(constant(1.0 / 12)), "decode": FixedCost(constant(0.1))}
    what = replace(apart(1, 1, policy=Policy(max_batch=8, token_budget=1)), costs=dict(costs))
    rates = []
    for replication in range(4):
        end = np.sort(run(what, offered(None, 700, replication)).visits.last_token_s)
        rates.append(499 / (end[600] - end[101]))
    assert covers(rates, exact_saturation(1.0, 1.0, 2), 0.03)


# -- the shipped design ------------------------------------------------------------------------------------------


def both(rate: float) -> tuple[Evaluation, Evaluation]:
    design, calibration = placed(), load_calibration("default")
    options = EvaluationOptions(requests=300, replications=2, saturate=False)
    [simulated] = ServingSimulator().evaluate([design], workload(rate), calibration, options, 0)
    return evaluate([design], workload(rate), calibration)[0], simulated


@pytest.mark.slow
def test_estimate_and_simulation_of_the_shipped_design_agree_on_latency_load_of_links_and_power() -> None:
    estimated, simulated = both(0.5)
    for name, tolerance in (
        ("ttft_mean_s", 0.10),
        ("tpot_mean_s", 0.02),
        ("e2e_mean_s", 0.05),
        ("power_w", 0.03),
        ("hbm_utilization", 0.08),
    ):
        assert estimated.metrics[name] == pytest.approx(simulated.metrics[name], rel=tolerance), name
    # The estimate adds the busiest link of either pool and of the hand-off.
    assert simulated.metrics["noi_utilization_max"] < estimated.metrics["noi_utilization_max"] * 1.02


def test_components_hold_the_energy_of_what_is_handed_over() -> None:
    _, simulated = both(0.5)
    assert simulated.components is not None
    busy = {part.name: part.utilization for part in simulated.components.parts}
    assert busy["HBMp[0]"] == pytest.approx(busy["HBMp[1]"])


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"serving": "colocated"}, "serving: colocated; use serving: disaggregated"),
        ({"task_map": "elastic"}, "task_map: elastic; use task_map: static"),
        ({"prefix_cache": True}, "prefix_cache: true; use prefix_cache: false"),
        ({"class_preemption": True}, "class_preemption: true; use class_preemption: false"),
    ],
)
def test_policies_that_need_one_memory_are_refused(changed: dict[str, object], text: str) -> None:
    design = placed()
    design = replace(design, policy=replace(design.policy, **changed))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=text):
        mapping_violations(design, load_model(MODEL))


def test_weights_that_do_not_fit_into_the_memories_of_one_pool_are_a_violation() -> None:
    [violation] = mapping_violations(placed(), load_model("nemotron-h-56b"))[:1]
    assert violation.constraint == "weights and one sequence exceed the memories of pool 'prefill'"
    assert violation.bound == pytest.approx(32e9)
