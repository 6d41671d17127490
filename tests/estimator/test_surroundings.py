"""A queue in surroundings that change, against its limits and against simulation."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.surroundings import modulated_load


def mean_queue(load: np.ndarray, diffusion: np.ndarray, per_s: float, weight: np.ndarray) -> np.ndarray:
    found = modulated_load(load[None], diffusion[None], np.array([[per_s]]), weight[None])[0]
    return diffusion / (2.0 * (1.0 - found))


@pytest.mark.parametrize("per_s", [1e-6, 0.1, 1e3])
def test_surroundings_that_are_all_alike_do_not_matter(per_s: float) -> None:
    load, weight = np.full(3, 0.8), np.array([0.2, 0.5, 0.3])
    assert mean_queue(load, np.full(3, 0.05), per_s, weight) == pytest.approx(np.full(3, 0.125), rel=1e-9)


def test_slow_surroundings_give_the_stationary_queue_of_each_state() -> None:
    load, weight = np.array([0.3, 0.9]), np.array([0.5, 0.5])
    found = mean_queue(load, np.full(2, 0.05), 1e-5, weight)
    assert found == pytest.approx(0.05 / (2 * (1 - load)), rel=1e-3)


def test_fast_surroundings_give_the_queue_of_the_mean_drift_even_where_a_state_is_overloaded() -> None:
    load, weight = np.array([0.3, 1.3]), np.array([0.6, 0.4])
    found = mean_queue(load, np.full(2, 0.05), 1e5, weight)
    assert found == pytest.approx(np.full(2, 0.05 / (2 * 0.3)), rel=1e-2)


def reflected(load: np.ndarray, diffusion: float, per_s: float, weight: np.ndarray) -> float:
    """Time average of a reflected random walk whose drift is drawn anew after exponential times."""
    rng = np.random.default_rng(4)
    step_s, count = 0.002, 4_000_000
    fresh = rng.random(count) < per_s * step_s
    period = np.cumsum(fresh)
    drift = (load - 1.0)[rng.choice(len(load), size=period[-1] + 1, p=weight)][period]
    free = np.cumsum(drift * step_s + rng.normal(0.0, np.sqrt(diffusion * step_s), count))
    return float((free - np.minimum(np.minimum.accumulate(free), 0.0)).mean())


@pytest.mark.slow
@pytest.mark.parametrize(("per_s", "highest", "within"), [(0.5, 1.05, 0.1), (3.0, 1.05, 0.1), (3.0, 1.2, 0.2)])
def test_surroundings_as_fast_as_the_queue_agree_with_a_random_walk(
    per_s: float, highest: float, within: float
) -> None:
    """The more a state is overloaded, the less the queue at a change is exponential, as it is taken to be."""
    load, weight = np.array([0.4, 0.8, highest]), np.array([0.4, 0.4, 0.2])
    expected = reflected(load, 0.05, per_s, weight)
    slow = (0.05 / (2 * (1 - load[:2]))) @ weight[:2]
    found = float(mean_queue(load, np.full(3, 0.05), per_s, weight) @ weight)
    assert found == pytest.approx(expected, rel=within)
    assert found > slow
