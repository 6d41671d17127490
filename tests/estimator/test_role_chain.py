"""The chain of prompts and roles against dense null vectors and closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hydra_dse.estimator.role_chain import RoleRates, phases_of, solve_roles
from hydra_dse.rng import derive

Array = NDArray[np.float64]

LEVELS = 250
AT_ONCE = 1e5


def random_rates(seed: int, states: int, n: int = 6) -> RoleRates:
    rng = derive(seed, "role chain", states)
    speeds = rng.uniform(0.3, 1.5, (n, states)).cumsum(axis=1)
    highest = np.where(rng.random(n) < 0.3, max(states - 2, 0), states - 1)
    top = np.take_along_axis(speeds, highest[:, None], axis=1)[:, 0]
    down = rng.integers(0, 3, n).astype(float)
    return RoleRates(
        arrival=rng.uniform(0.2, 0.85, n) * top,
        service=speeds[:, [phase.prefill for phase in phases_of(states)]],
        iterations=rng.uniform(1.0, 4.0, n),
        rise_s=rng.uniform(0.01, 2.0, (n, states - 1)),
        fall_s=rng.uniform(0.01, 2.0, (n, states - 1)),
        up=down + rng.integers(1, 6, n),
        down=down,
        lowest=np.zeros(n, dtype=np.int64),
        highest=highest,
    )


def dense(rates: RoleRates, row: int) -> Array:
    """Stationary probabilities, shape (levels, phases), by the null vector of the truncated generator.

    The rules of the chain are written out here transition by transition, apart from those of the module.
    """
    phases, states = phases_of(rates.states), rates.states
    number = {phase: at for at, phase in enumerate(phases)}
    size = len(phases)
    lam, up, down = rates.arrival[row], rates.up[row], rates.down[row]
    low_end, high_end = int(rates.lowest[row]), int(rates.highest[row])
    soon = AT_ONCE * max(rates.service[row].max(), lam)
    generator = np.zeros((LEVELS * size, LEVELS * size))

    def add(level: int, phase: int, to_level: int, to_phase: int, rate: float) -> None:
        if to_level < LEVELS:
            generator[level * size + phase, to_level * size + to_phase] += rate

    for level in range(LEVELS):
        for phase, at in number.items():
            mu = rates.service[row, at]
            add(level, at, level + 1, at, lam)
            if level:
                add(level, at, level - 1, phase.decode if phase.kind == "ready" else at, mu)
            if phase.kind == "still":
                state = phase.prefill
                if state > high_end:
                    add(level, at, level, state - 1, soon)
                elif state < low_end:
                    add(level, at, level, state + 1, soon)
                elif level >= up and state < high_end:
                    add(level, at, level, number[replace(phase, kind="rising", decode=state + 1)], soon)
                elif level <= down and state > low_end:
                    add(level, at, level, number[replace(phase, kind="falling", prefill=state - 1)], soon)
            elif phase.kind == "rising":
                add(level, at, level, number[replace(phase, kind="ready")], 1.0 / rates.rise_s[row, phase.prefill])
            elif phase.kind == "falling":
                add(level, at, level, phase.prefill, 1.0 / rates.fall_s[row, phase.prefill])
            else:
                add(level, at, level, phase.decode, mu * (rates.iterations[row] - 1.0) if level else soon)
                if level >= up and phase.decode + 1 <= high_end and phase.decode + 1 < states:
                    further = number[replace(phase, decode=phase.decode + 1)]
                    add(level, at, level, further, 1.0 / rates.rise_s[row, phase.decode])
    generator[np.diag_indices(len(generator))] -= generator.sum(axis=1)
    generator[:, 0] = 1.0
    right = np.zeros(len(generator))
    right[0] = 1.0
    return np.linalg.solve(generator.T, right).reshape(LEVELS, size)


@pytest.mark.slow
@pytest.mark.parametrize("states", [2, 3])
def test_the_chain_equals_dense_null_vectors(states: int) -> None:
    rates = random_rates(1, states)
    found = solve_roles(rates)
    for row in range(3):
        exact = dense(rates, row)
        level = np.arange(LEVELS)
        assert found.share[row] == pytest.approx(exact.sum(axis=0), abs=1e-9)
        assert found.busy[row] == pytest.approx(exact[1:].sum(axis=0), abs=1e-9)
        assert found.prompts[row] == pytest.approx(level @ exact.sum(axis=1), rel=1e-6)
        assert found.square[row] == pytest.approx(level**2 @ exact.sum(axis=1), rel=1e-5)


def test_equal_states_are_an_m_m_1_queue_whatever_the_roles() -> None:
    rates = random_rates(2, 3)
    rho = np.array([0.3, 0.5, 0.7, 0.9, 0.97, 0.99])
    alike = replace(rates, service=np.full_like(rates.service, 2.0), arrival=2.0 * rho)
    found = solve_roles(alike)
    assert found.prompts == pytest.approx(rho / (1 - rho), rel=1e-9)
    assert found.waiting == pytest.approx(rho**2 / (1 - rho), rel=1e-9)
    assert found.wait_scv == pytest.approx(np.ones(6), rel=1e-8)


def test_prompts_that_arrive_are_prompts_that_end() -> None:
    rates = random_rates(3, 3)
    found = solve_roles(rates)
    assert (found.busy * rates.service).sum(axis=1) == pytest.approx(rates.arrival, rel=1e-9)
    assert found.share.sum(axis=1) == pytest.approx(np.ones(6), abs=1e-12)
    assert (found.share >= -1e-12).all()


def test_a_state_that_a_design_lacks_has_no_probability() -> None:
    rates = replace(random_rates(4, 3), highest=np.full(6, 1, dtype=np.int64))
    rates = replace(rates, arrival=0.6 * rates.service[:, 1])
    found = solve_roles(rates)
    assert found.share[:, 2] == pytest.approx(np.zeros(6), abs=1e-9)


def test_a_result_does_not_depend_on_the_designs_beside_it() -> None:
    rates = random_rates(5, 2)
    together = solve_roles(rates)
    for row in range(len(rates.arrival)):
        one = RoleRates(*(getattr(rates, name)[row : row + 1] for name in rates.__dataclass_fields__))
        alone = solve_roles(one)
        assert alone.prompts[0] == pytest.approx(together.prompts[row], rel=1e-9)
        assert alone.share[0] == pytest.approx(together.share[row], abs=1e-11)


def test_faster_upper_states_shorten_the_queue_and_slower_changes_lengthen_it() -> None:
    rates = random_rates(6, 2)
    rates = replace(rates, highest=np.ones(6, dtype=np.int64))
    base = solve_roles(rates).prompts
    faster = rates.service.copy()
    faster[:, 1] *= 1.2
    assert (solve_roles(replace(rates, service=faster)).prompts < base).all()
    assert (solve_roles(replace(rates, rise_s=4.0 * rates.rise_s)).prompts > base).all()
