"""Dies that change roles in the simulator: schedules worked out by hand, then placed designs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from placed_pieces import constant, placed, simulate
from serving_pieces import PLENTY, Log, requests, serve

from hydra_dse.config import load_calibration, load_model, load_workload
from hydra_dse.mapping import map_design, role_plan, switch_traffic
from hydra_dse.policy import Policy
from hydra_dse.workload import RequestClass, Shift, Workload, fixed, poisson
from hydra_dse.workload.nouns import Requests
from simulators.iteration import FixedCost, Work
from simulators.serving import System
from simulators.serving.elastic import elastic_costs
from simulators.serving.roles import Roles
from simulators.serving.server import Server

POLICY = Policy(task_map="elastic", max_batch=4, token_budget=10, role_up_prompts=2)


def system(*states: tuple[float, float], policy: Policy = POLICY, move_s: float = 0.25, native: int = 0) -> System:
    """Role states as (prefill iteration, decode iteration) in seconds."""
    costs = [{"prefill": FixedCost(constant(p)), "decode": FixedCost(constant(d))} for p, d in states]
    flat = {f"{name}{number}": cost for number, both in enumerate(costs) for name, cost in both.items()}
    roles = Roles(
        tuple(costs), native, policy.role_up_prompts, policy.role_down_prompts, lambda before, after: Work(move_s)
    )
    return System(policy, PLENTY, {**flat, **costs[native]}, roles=roles)


def starts(log: Log, pool: str) -> list[float]:
    return [start for start, _, _ in log.steps(pool)]


def test_dies_leave_at_the_end_of_the_decode_iteration_and_join_at_the_next_prefill_iteration() -> None:
    what = system((2.0, 1.0), (0.5, 1.5))
    offered = requests((0, 10, 9), (2.25, 10, 2), (2.375, 10, 2), (2.5, 10, 2))
    log, server = serve(what, offered)
    # The second prompt starts alone at 2.25 with the old dies.  With the third, two prompts wait or are under way
    # at 2.375: the decode iteration of 2.0 … 3.0 ends first, the transfer takes until 3.25, the prefill iteration
    # ends at 4.25, and the next one is fast.  Decode iterations are slow from 3.0 on.
    assert starts(log, "prefill") == [0.0, 2.25, 4.25, 4.75]
    assert starts(log, "decode")[:4] == [2.0, 3.0, 4.5, 6.0]
    assert server.switcher is not None
    assert server.switcher.switches == 2


def test_dies_come_back_when_no_prompt_is_left() -> None:
    what = system((2.0, 1.0), (0.5, 1.5))
    log, server = serve(what, requests((0, 10, 2), (0.5, 10, 4)))
    # Both prompts are there at 0.5; the dies come at 0.75; the second prompt ends at 2.5, when the dies leave again
    # (prefill is idle) and are back at 2.75.  The decode iteration of 2.0 … 3.5 still lacks them.
    assert starts(log, "prefill") == [0.0, 2.0]
    assert starts(log, "decode") == [2.0, 3.5, 4.5, 5.5]
    assert server.switcher is not None
    assert server.switcher.state == 0
    assert server.switcher.switching_s == pytest.approx(0.5)


def test_prefill_dies_lent_to_decode_come_back_when_prompts_wait() -> None:
    policy = replace(POLICY, role_up_prompts=1)
    what = system((2.0, 1.0), (1.0, 2.0), policy=policy, native=1)
    log, server = serve(what, requests((0, 10, 5), (20, 10, 2)))
    # Native is the upper state: prefill takes 1 s.  The prompt leaves at 1.0, prefill dies go over until 1.25.
    assert starts(log, "prefill") == [0.0, 20.0]
    assert starts(log, "decode")[:3] == [1.0, 3.0, 4.0]
    # At 20.0 dies set out for prefill, but the iteration that starts then has the dies that are there.
    assert starts(log, "decode")[-1] == 22.0
    assert server.switcher is not None
    assert server.switcher.state == 0


def test_dies_are_not_lent_to_prefill_while_finished_prompts_wait_for_decode() -> None:
    policy = replace(POLICY, max_batch=1, role_up_prompts=1)
    log, server = serve(system((1.0, 10.0), (0.1, 20.0), policy=policy), requests(*[(0, 10, 3)] * 6))
    assert server.switcher is not None
    # The first prompt is decoding, the second waits for the slot: prefill pauses and its dies go back.
    assert len([start for start in starts(log, "prefill") if start < 20.0]) == 2


def test_leaping_over_decode_steps_changes_no_record() -> None:
    rng = np.random.default_rng(3)
    offered = Requests(
        np.cumsum(rng.exponential(3.0, 300)),
        rng.integers(1, 30, 300),
        rng.integers(1, 40, 300),
        np.zeros(300, dtype=np.int64),
    )
    what = system((1.0, 0.25), (0.5, 0.375), (0.25, 0.5))
    quick, walked = serve(what, offered), serve(what, offered, fast=False)
    assert quick[0].steps() == walked[0].steps()
    assert quick[0].dates() == walked[0].dates()
    assert quick[1].leaper.steps > 0
    assert quick[1].switcher is not None
    assert quick[1].switcher.switches > 10


def test_time_in_all_states_adds_up() -> None:
    _, server = serve(system((2.0, 1.0), (0.5, 1.5)), requests((0, 10, 5), (0.5, 10, 5), (30, 10, 5)))
    assert server.switcher is not None
    assert sum(server.switcher.seconds) <= server.env.now
    assert len(server.switcher.seconds) == 2


# -- placed designs ----------------------------------------------------------------------------------------------


def test_an_elastic_design_without_a_reason_to_change_is_the_static_one() -> None:
    load = replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),))
    still = simulate(placed(), load, 60, rate_per_s=0.5, saturate=False)
    never = simulate(placed(task_map="elastic", role_up_prompts=10_000), load, 60, rate_per_s=0.5, saturate=False)
    assert still.keys() == never.keys()
    for name, value in still.items():
        assert never[name] == pytest.approx(value, rel=1e-9), name


def test_the_tiles_of_a_group_are_one_in_the_metrics() -> None:
    load = replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),))
    found = simulate(placed(task_map="elastic"), load, 60, rate_per_s=1.0, saturate=False)
    assert sorted(name for name in found if name.startswith("utilization_")) == [
        f"utilization_{name}" for name in ("Ad", "Ap", "Md", "Mp")
    ]


@pytest.mark.slow
def test_elastic_beats_static_on_a_load_that_shifts_between_phases() -> None:
    """Long prompts with short answers for 60 s, then short prompts with long answers: either needs other dies."""
    classes = (RequestClass("read", fixed(2000, 30), 1.0), RequestClass("write", fixed(100, 400), 0.0))
    shifts = (Shift(0.0, (1.0, 0.0), 1.0), Shift(60.0, (0.0, 1.0), 1.0))
    load = Workload("shifting", (load_model("nemotron-h-4b"),), poisson(3.0), classes, shifts=shifts, cycle_s=120.0)
    still = simulate(placed(), load, 1000, saturate=False)
    crossing = simulate(
        placed(task_map="elastic", role_units_to_prefill=3, role_up_prompts=2), load, 1000, saturate=False
    )
    assert crossing["ttft_mean_s"] < 0.5 * still["ttft_mean_s"]
    assert crossing["tpot_mean_s"] < 1.2 * still["tpot_mean_s"]


def test_records_of_a_run_are_the_same_bytes_every_time() -> None:
    load = replace(load_workload("hydra-chat"), models=(load_model("nemotron-h-4b"),))
    one, two = (simulate(placed(task_map="elastic"), load, 60, rate_per_s=4.0, saturate=False) for _ in range(2))
    assert one == two


def test_a_run_ends_with_no_die_between_two_roles() -> None:
    _, server = serve(system((2.0, 1.0), (0.5, 1.5)), requests((0, 10, 1), (0.5, 10, 1)))
    assert isinstance(server, Server)
    assert server.switcher is not None
    assert server.switcher.target is None


def test_bytes_and_energy_of_changes_of_roles_are_in_the_ledger() -> None:
    design, model = placed(task_map="elastic"), load_model("nemotron-h-4b")
    _, roles, moves = elastic_costs(design, model, load_calibration("default"))
    change = (roles.native, roles.native + 1)
    before, after = (map_design(role_plan(design).states[state], model) for state in change)
    moved = switch_traffic(before, after, model.precision.weight_bytes).sum()
    assert moved > 0.0
    ledger = moves.ledger({change: 2})
    assert ledger.operands["role change"].site_bytes.sum() == pytest.approx(2 * moved)
    assert ledger.memory_j == pytest.approx(2 * moved * before.sites[0].joules_per_byte)
    assert ledger.link_j > 0.0
    assert moves.ledger({}).energy_j == 0.0
