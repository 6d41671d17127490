"""The split of a wait for decode: prompts that are finished, and prompts that prefill has not started."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.disaggregated_tables import Capacity
from hydra_dse.estimator.memory import Memory


def _capacity(places: float, per_iteration: float) -> Capacity:
    many = np.array([1e9])
    memory = Memory(many, many, many, many)
    tooth = np.array([(per_iteration - 1.0) / 2.0])
    return Capacity(memory, np.ones(1), np.array([places]), tooth, np.array([per_iteration]))


def _one_server(load: float) -> PoolState:
    """M/M/1: `full` = ρ, a geometric queue of ratio ρ behind it."""
    rho = np.array([load])
    return PoolState(np.array([[1 - load, load]]), rho, rho, rho, rho, rho)


def _simulated(load: float, places: int, per_iteration: int, events: int = 200_000) -> tuple[float, float]:
    """Mean prompts not started, and mean of all that wait: prefill takes no time and pauses at `places` finished."""
    rng = np.random.default_rng(7)
    arrives = rng.random(events) < load / (1.0 + load)
    serving = finished = fresh = 0
    held = waiting = 0
    for arrival in arrives.tolist():
        fresh += arrival
        if not arrival:
            serving = 0
        while (not serving and finished) or (fresh and finished < places):
            if not serving and finished:
                serving, finished = 1, finished - 1
            else:
                taken = min(fresh, per_iteration)
                fresh, finished = fresh - taken, finished + taken
        held += fresh
        waiting += fresh + finished
    return held / events, waiting / events


@pytest.mark.parametrize("load, places, per_iteration", [(0.8, 4, 26), (0.9, 8, 10), (0.9, 4, 2), (0.85, 2, 1)])
def test_prompts_not_started_are_those_of_a_simulated_saw_tooth(load: float, places: int, per_iteration: int) -> None:
    capacity, decode = _capacity(places, per_iteration), _one_server(load)
    held, waiting = _simulated(load, places, per_iteration)

    assert decode.beyond(np.zeros(1))[0] == pytest.approx(waiting, rel=0.1)
    # A share: noise of the queue itself is in both.
    share = capacity.held_back(decode)[0] / decode.beyond(np.zeros(1))[0]
    assert share == pytest.approx(held / waiting, abs=0.05)


def test_where_an_iteration_holds_one_prompt_all_beyond_the_places_wait_to_start() -> None:
    capacity, decode = _capacity(3, 1), _one_server(0.9)

    assert capacity.held_back(decode) == pytest.approx(decode.beyond(np.array([3.0])))


def test_iterations_that_hold_more_prompts_leave_fewer_that_have_not_started() -> None:
    decode = _one_server(0.9)
    held = [float(_capacity(4, k).held_back(decode)[0]) for k in (1, 2, 5, 20, 100)]

    assert held == sorted(held, reverse=True)
    assert held[-1] == pytest.approx(held[0] / 2, rel=0.01)
