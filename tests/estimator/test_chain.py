"""The chain against closed forms of queueing theory."""

from __future__ import annotations

import heapq
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.estimator.chain import Burstiness, birth_death, limited_sharing
from hydra_dse.estimator.nodes import nodes_of


def service(scv: float, n: int = 1) -> Burstiness:
    """Poisson arrivals of work with some variability, nothing of it in common."""
    one, none = np.ones(n), np.zeros(n)
    return Burstiness(one, one, one, scv * one, none, none)


def exponential(n: int) -> Burstiness:
    return service(1.0, n)


def erlang_c(servers: int, offered: float) -> float:
    """Erlang's delay probability through the recursion of his loss formula."""
    loss = 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    return servers * loss / (servers - offered * (1 - loss))


def pool(servers: int, rate: float, service_s: float, burst: Burstiness | None = None):
    nodes = nodes_of(np.array([float(servers)]))
    residence = np.full_like(nodes.batch, service_s)
    return limited_sharing(np.array([rate]), nodes, residence, np.array([float(servers)]), burst or exponential(1))


@pytest.mark.parametrize("load", [0.01, 0.3, 0.7, 0.99])
def test_a_birth_death_chain_with_constant_rates_is_m_m_1(load: float) -> None:
    solved = birth_death(np.full((1, 400), math.log(load)), np.array([load]))
    n = np.arange(401)
    assert np.allclose(solved.levels[0], (1 - load) * load**n, rtol=1e-9, atol=1e-300)
    assert solved.levels.sum() + solved.beyond[0] == pytest.approx(1.0, abs=1e-12)
    mean = solved.levels[0] @ n + solved.beyond[0] * (400 + 1 / (1 - load))
    assert mean == pytest.approx(load / (1 - load), rel=1e-9)


def test_a_closed_birth_death_chain_is_the_erlang_loss_system() -> None:
    offered, servers = 7.0, 10
    solved = birth_death(np.log(offered / np.arange(1, servers + 1))[None])
    terms = [offered**k / math.factorial(k) for k in range(servers + 1)]
    assert solved.levels[0, -1] == pytest.approx(terms[-1] / sum(terms), rel=1e-9)


def test_a_birth_death_chain_of_ten_thousand_levels_at_triple_load_does_not_overflow() -> None:
    solved = birth_death(np.full((1, 10_000), math.log(3.0)))
    assert np.isfinite(solved.levels).all()
    assert solved.levels[0, -1] == pytest.approx(2 / 3, rel=1e-9)


def test_a_birth_death_chain_agrees_with_the_null_space_of_its_generator() -> None:
    rng = np.random.default_rng(3)
    births, deaths = rng.uniform(0.2, 3.0, 12), rng.uniform(0.2, 3.0, 12)
    generator = np.diag(births, 1) + np.diag(deaths, -1)
    generator -= np.diag(generator.sum(axis=1))
    system = np.vstack((generator.T, np.ones(13)))
    exact = np.linalg.lstsq(system, np.append(np.zeros(13), 1.0), rcond=None)[0]
    assert np.allclose(birth_death(np.log(births / deaths)[None]).levels[0], exact, rtol=1e-9)


@pytest.mark.parametrize("servers", [1, 2, 5, 16, 40, 200])
@pytest.mark.parametrize("load", [0.2, 0.8, 0.97])
def test_a_pool_of_constant_residence_is_m_m_c(servers: int, load: float) -> None:
    service = 2.0
    rate = load * servers / service
    found = pool(servers, rate, service)
    waits = erlang_c(servers, load * servers)
    assert found.full[0] == pytest.approx(waits, rel=1e-9)
    assert found.in_service[0] == pytest.approx(load * servers, rel=1e-9)
    queue = found.beyond(np.zeros(1))[0]
    assert queue == pytest.approx(waits * load / (1 - load), rel=1e-9)
    # The queue beyond three waiting places, from the geometric tail of M/M/c.
    assert found.beyond(np.full(1, 3.0))[0] == pytest.approx(queue * load**3, rel=1e-9)
    assert found.exceeds(np.full(1, 3.0))[0] == pytest.approx(waits * load**3, rel=1e-9)


@pytest.mark.parametrize("service_scv", [0.0, 0.5, 1.0, 3.0])
def test_the_queue_of_one_server_is_pollaczek_khinchine(service_scv: float) -> None:
    load = 0.8
    burst = service(service_scv)
    found = pool(1, load, 1.0, burst)
    assert found.beyond(np.zeros(1))[0] == pytest.approx(load**2 * (1 + service_scv) / (2 * (1 - load)), rel=1e-9)


def test_the_tail_of_m_d_1_decays_as_its_exact_generating_function() -> None:
    load = 0.8
    burst = service(0.0)
    # The decay 1/z of M/D/1 solves e^{ρ(z−1)} = z; z = 1.5398 at ρ = 0.8.
    low, high = 1.1, 3.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if math.exp(load * (middle - 1)) > middle else (middle, high)
    assert pool(1, load, 1.0, burst).queue_ratio[0] == pytest.approx(1 / low, rel=0.02)


def simulated_queue(servers: int, load: float, work: np.ndarray, rng: np.random.Generator) -> float:
    """Mean queue of M/G/s, first come, first served: each customer takes the server that is free first."""
    rate = load * servers / work.mean()
    free, total = [0.0] * servers, 0.0
    for arrival, each in zip(np.cumsum(rng.exponential(1 / rate, len(work))), work, strict=True):
        start = max(heapq.heappop(free), arrival)
        total += start - arrival
        heapq.heappush(free, start + each)
    return rate * total / len(work)


@pytest.mark.slow
@pytest.mark.parametrize(("servers", "load", "cv"), [(2, 0.8, 0.5), (8, 0.6, 0.4), (8, 0.8, 1.2), (24, 0.8, 0.4)])
def test_the_queue_of_several_servers_agrees_with_simulation(servers: int, load: float, cv: float) -> None:
    rng = np.random.default_rng(11)
    spread = math.log(1 + cv * cv)
    work = rng.lognormal(-spread / 2, math.sqrt(spread), 300_000)
    found = pool(servers, load * servers, 1.0, service(cv * cv))
    # The simulated mean has a standard error of 2 to 3 %, Kimura's formula one of up to 10 %.
    expected = simulated_queue(servers, load, work, rng)
    assert found.beyond(np.zeros(1))[0] == pytest.approx(expected, rel=0.13)


def test_a_full_pool_that_stands_for_a_fixed_time_per_request_has_a_shorter_queue() -> None:
    # All the time between two departures is common and fixed: M/D/1 whatever the servers do by themselves.
    one = np.ones(1)
    burst = Burstiness(one, one, one, 5.0 * one, one, 0.0 * one)
    found = pool(1, 0.8, 1.0, burst)
    assert found.beyond(np.zeros(1))[0] == pytest.approx(0.8**2 / (2 * 0.2), rel=1e-9)


@pytest.mark.parametrize(("load", "tolerance"), [(0.5, 0.02), (0.8, 0.02), (1.0, 0.06)])
def test_a_queue_seen_soon_after_an_empty_start_is_that_of_the_resolvent(load: float, tolerance: float) -> None:
    # M/M/1 from empty, seen at an exponential time of rate θ, is geometric with the root of β²μ − β(λ+μ+θ) + λ = 0.
    horizon = 0.01
    nodes = nodes_of(np.ones(1))
    found = limited_sharing(
        np.array([load]), nodes, np.ones_like(nodes.batch), np.ones(1), exponential(1), horizon_per_s=horizon
    )
    both = load + 1.0 + horizon
    root = (both - math.sqrt(both**2 - 4.0 * load)) / 2.0
    assert found.beyond(np.zeros(1))[0] == pytest.approx(root**2 / (1.0 - root), rel=tolerance)


def test_an_uncongested_pool_is_poisson() -> None:
    found = pool(60, 5.0, 2.0)
    nodes = nodes_of(np.array([60.0]))
    mean = found.at_nodes[0, 1:] @ nodes.batch[0]
    assert mean == pytest.approx(10.0, rel=1e-9)
    assert found.at_nodes[0, 0] == pytest.approx(math.exp(-10.0), rel=1e-9)


def test_projection_on_nodes_keeps_probability_and_mean() -> None:
    nodes = nodes_of(np.array([100.0]))
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.ones(101))[None]
    projected = nodes.project(probability * 0.9, np.array([0.1]), np.array([100.0]))
    assert projected.sum() == pytest.approx(1.0)
    mean = 0.9 * probability[0] @ np.arange(101) + 0.1 * 100
    assert projected[0, 1:] @ nodes.batch[0] == pytest.approx(mean)


def test_designs_in_company_are_projected_as_each_alone() -> None:
    # Of a linear quantity the expectation over nodes is that over levels, whatever the grids of the others.
    limits = np.array([7.0, 100.0, 40.5])
    nodes = nodes_of(limits)
    rng = np.random.default_rng(1)
    probability = np.zeros((3, 101))
    for row, limit in enumerate(limits):
        probability[row, : int(limit) + 1] = rng.dirichlet(np.ones(int(limit) + 1))
    beyond = np.array([0.1, 0.2, 0.3])
    projected = nodes.project(probability * (1.0 - beyond[:, None]), beyond, limits)
    assert projected.sum(axis=1) == pytest.approx(np.ones(3))
    mean = (1.0 - beyond) * (probability @ np.arange(101.0)) + beyond * limits
    assert (projected[:, 1:] * nodes.batch).sum(axis=1) == pytest.approx(mean)
    for row in range(3):
        alone = nodes_of(limits[[row]]).project(probability[[row]] * (1.0 - beyond[row]), beyond[[row]], limits[[row]])
        assert projected[row] == pytest.approx(alone[0], abs=1e-12)


@given(limit=st.integers(1, 3000))
@settings(max_examples=60, deadline=None)
def test_interpolation_between_nodes_is_exact_for_linear_functions(limit: int) -> None:
    nodes = nodes_of(np.array([float(limit)]))
    levels = np.unique(np.linspace(1, limit, 50))[None]
    assert np.allclose(nodes.at(3.0 + 2.0 * nodes.batch, levels), 3.0 + 2.0 * levels, rtol=1e-9)
    assert nodes.batch[0, 0] == 1.0
    assert nodes.batch[0, -1] == pytest.approx(limit)


def test_short_grids_hold_every_batch() -> None:
    assert set(nodes_of(np.array([12.0])).batch[0]) == set(range(1, 13))


@given(load=st.floats(0.05, 0.95), servers=st.integers(1, 64))
@settings(max_examples=60, deadline=None)
def test_more_load_means_more_waiting(load: float, servers: int) -> None:
    low, high = pool(servers, load * servers, 1.0), pool(servers, min(load * 1.04, 0.99) * servers, 1.0)
    assert high.beyond(np.zeros(1))[0] > low.beyond(np.zeros(1))[0]
