"""What other models do to the iterations of one: turns by hand, by simulated rounds, and max-min beside each other."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.rivals import Pressure, Rival, Use
from hydra_dse.model.operators import Batch


def rival(share: float, each_s: float, residual_s: float = 0.0, levels: int = 4) -> Rival:
    use = Use(np.array([share]), np.array([each_s]), np.array([residual_s]), Batch())
    return Rival(use, np.full((1, levels), share))


def waits(time_s: float, *rivals: Rival) -> float:
    return float(Pressure(rivals).wait(np.array([[time_s]]), np.array([[1.0]]))[0, 0])


def test_models_that_always_have_work_take_turns() -> None:
    assert waits(2.0, rival(1.0, 3.0)) == pytest.approx(3.0)
    assert waits(2.0, rival(1.0, 3.0), rival(1.0, 5.0)) == pytest.approx(8.0)


def test_models_without_work_take_none() -> None:
    assert waits(2.0, rival(0.0, 3.0)) == 0.0
    assert waits(2.0) == 0.0
    assert waits(2.0, rival(0.0, 3.0), rival(1.0, 5.0)) == pytest.approx(5.0)


@pytest.mark.parametrize(("share", "own_s", "each_s"), [(0.3, 2.0, 3.0), (0.7, 1.0, 0.25), (0.5, 0.1, 4.0)])
def test_rounds_with_and_without_the_other_give_it_its_share_of_time(share: float, own_s: float, each_s: float) -> None:
    # A share r of the rounds lasts own + each, the rest own; the other has work in r·(own + each) of their time.
    wait = waits(own_s, rival(share, each_s))
    r = wait / each_s
    assert 0 < r < 1
    assert r * (own_s + each_s) / (own_s + r * each_s) == pytest.approx(share)


def test_iterations_beside_another_model_run_at_its_share_of_time_at_the_speed_left() -> None:
    pressure = Pressure(beside=((np.array([0.25]), np.array([0.6])),))
    # In a second of which a quarter is at 0.6 of the speed, 0.9 seconds of work are done.
    assert pressure.slowed(np.array([[0.9, 1.8]]))[0] == pytest.approx([1.0, 2.0])


def test_slowed_iterations_also_wait_for_their_turn() -> None:
    pressure = Pressure((rival(1.0, 3.0),), ((np.array([1.0]), np.array([0.5])),))
    assert pressure.whole(np.array([[2.0]]), np.array([[1.0]]))[0, 0] == pytest.approx(4.0 + 3.0)


def test_a_request_that_finds_its_model_idle_waits_for_the_iteration_that_runs() -> None:
    # The first runs half of the time, the second in 0.4 of the rest.
    pressure = Pressure((rival(0.5, 2.0, 1.0), rival(0.4, 6.0, 3.0)))
    assert float(np.asarray(pressure.idle_wait_s)[0]) == pytest.approx(0.5 * 1.0 + 0.5 * 0.4 * 3.0)
    assert Pressure().idle_wait_s == 0.0


def test_a_use_moves_towards_another_by_a_step() -> None:
    one, other = rival(0.2, 1.0, 0.5).use, rival(0.6, 3.0, 2.5).use
    between = one.towards(other, 0.25)
    found = [float(value[0]) for value in (between.share, between.each_s, between.residual_s)]
    assert found == pytest.approx([0.3, 1.5, 1.0])
