"""Pools and servers under arrivals in two phases, against dense solutions of their Markov chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing
from hydra_dse.estimator.nodes import nodes_of
from hydra_dse.estimator.phased_chain import Waiting, phased_sharing
from hydra_dse.estimator.phases import Phases, phases_of
from hydra_dse.estimator.two_phases import flows_of, waiting
from hydra_dse.workload.arrivals import Mmpp
from tests.estimator.analytic import Array

LEVELS = 400
"""Of dense chains; what lies beyond is below 1e-9 in the cases here."""


@dataclass(frozen=True)
class Case:
    """A pool: limit, places before it, residence at each level and phase, load of the queue, arrivals."""

    limit: int
    places: int
    residence_s: tuple[Array, Array]
    load: float
    process: Mmpp

    @property
    def phases(self) -> Phases:
        found = phases_of(self.process.statistics())
        assert found is not None
        return found

    def solved(self) -> PoolState:
        nodes = nodes_of(np.array([float(self.limit)]))
        one, two = (residence[None] for residence in self.residence_s)
        ones = np.ones(1)
        waiting = Waiting(np.array([float(self.places)]), one[:, self.limit - 1], two[:, self.limit - 1])
        return phased_sharing(
            np.array([self.process.rate_per_s]),
            nodes,
            (_padded(one, nodes.count), _padded(two, nodes.count)),
            np.array([float(self.limit)]),
            Burstiness(ones, ones, ones, ones, 0.0 * ones, ones),
            np.array([self.load]),
            self.phases,
            waiting if self.places else None,
        )

    def dense(self) -> Array:
        """Probabilities of level and phase, shape (levels, 2)."""
        rates, leaving = self.process.rates_per_s, [1.0 / stay for stay in self.process.sojourns_s]
        served = [np.full(LEVELS, self.process.rate_per_s / self.load) for _ in range(2)]
        for phase, residence in enumerate(self.residence_s):
            levels = np.arange(1.0, self.limit + 1.0)
            served[phase][: self.limit] = levels / residence[: self.limit]
            served[phase][self.limit : self.limit + self.places] = self.limit / residence[self.limit - 1]
        moves = np.zeros((2 * LEVELS + 2, 2 * LEVELS + 2))
        for phase in (0, 1):
            at = 2 * np.arange(LEVELS + 1) + phase
            moves[at, at + 1 - 2 * phase] = leaving[phase]
            moves[at[:-1], at[1:]] = rates[phase]
            moves[at[1:], at[:-1]] = served[phase]
        balance = (moves - np.diag(moves.sum(axis=1))).T
        balance[0] = 1.0
        return np.linalg.solve(balance, np.eye(len(balance))[0]).reshape(-1, 2)


def _padded(values: Array, width: int) -> Array:
    """Residences at the nodes of a short grid, which repeats its last entry."""
    return np.hstack((values, np.repeat(values[:, -1:], width, axis=1)))[:, :width]


def drawn(seed: int, places: int) -> Case:
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(2, 15))
    process = Mmpp((float(rng.uniform(1.3, 1.9)), float(rng.uniform(0.05, 0.6))), tuple(rng.uniform(2.0, 10.0, 2)))
    process = Mmpp(tuple(rate / process.rate_per_s for rate in process.rates_per_s), process.sojourns_s)
    step = 1.0 + np.cumsum(rng.uniform(0.0, 0.3, limit))
    scale = limit * 0.8 / step[-1]
    residence = (scale * step * rng.uniform(1.0, 1.1), scale * step)
    return Case(limit, places, residence, 0.75, process)


@pytest.mark.parametrize("places", [0, 5])
@pytest.mark.parametrize("seed", range(5))
def test_levels_and_queue_are_those_of_the_dense_chain(seed: int, places: int) -> None:
    case = drawn(seed, places)
    found, dense = case.solved(), case.dense()
    total = dense.sum(axis=1)
    # Up to 16 levels are nodes; the last one stands for the queue too.
    assert found.at_nodes[0, : case.limit] == pytest.approx(total[: case.limit], rel=1e-7)
    assert found.full[0] == pytest.approx(total[case.limit :].sum(), rel=1e-7)
    queue = np.maximum(np.arange(LEVELS + 1.0) - case.limit, 0.0)
    assert found.beyond(np.zeros(1))[0] == pytest.approx(queue @ total, rel=1e-7)
    assert found.beyond(np.full(1, float(places)))[0] == pytest.approx(
        np.maximum(queue - places, 0.0) @ total, rel=1e-7
    )
    met = dense[case.limit :].sum(axis=0) @ case.phases.relative
    assert found.exceeds(np.zeros(1))[0] == pytest.approx(met, rel=1e-7)
    assert met > found.full[0]  # busy phases fill the pool


def test_two_phases_of_one_rate_are_the_plain_chain() -> None:
    ones, limit = np.ones(3), np.array([4.0, 20.0, 64.0])
    nodes = nodes_of(limit)
    rate, load = np.array([0.5, 2.0, 6.0]), np.array([0.5, 0.8, 0.9])
    residence = (load * limit / rate)[:, None] * (nodes.batch / limit[:, None]) ** 0.3
    burst = Burstiness(1.4 * ones, ones, ones, ones, 0.0 * ones, ones)
    alike = phases_of(Mmpp((3.0, 3.0), (20.0, 10.0)).statistics())
    assert alike is not None
    found = phased_sharing(rate, nodes, (residence, residence), limit, burst, load, alike)
    plain = limited_sharing(rate, nodes, residence, limit, burst, load)
    assert found.at_nodes == pytest.approx(plain.at_nodes, rel=1e-6, abs=1e-12)
    assert found.beyond(np.zeros(3)) == pytest.approx(plain.beyond(np.zeros(3)), rel=1e-5)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_a_server_has_the_queue_of_the_dense_chain_in_both_phases(load: float) -> None:
    case = Case(1, 0, (np.array([load]), np.array([load])), load, Mmpp((1.5, 0.5), (4.0, 4.0)))
    dense = case.dense()
    expected = (np.arange(LEVELS + 1.0) @ dense) / dense.sum(axis=0)
    phases, one = case.phases, np.ones(1)
    found = waiting(flows_of(one, load * one, phases.relative[None], phases.share, phases.changes))
    assert found[0] == pytest.approx(expected, rel=1e-8)


def test_slow_phases_are_two_queues_and_fast_ones_a_single_one() -> None:
    ones = np.ones(1)
    for stay, expected in ((1e5, [0.72 / 0.28, 0.24 / 0.76]), (1e-4, [0.48 / 0.52] * 2)):
        found = phases_of(Mmpp((1.5, 0.5), (stay, stay)).statistics())
        assert found is not None
        number = waiting(flows_of(ones, 0.48 * ones, found.relative[None], found.share, found.changes))[0]
        assert number == pytest.approx(expected, rel=2e-3)


def test_phases_behind_a_server_bring_at_most_what_it_completes_and_the_same_mean() -> None:
    phases = phases_of(Mmpp((1.6, 0.4), (10.0, 10.0)).statistics())
    assert phases is not None
    found = phases.bounded(np.array([1.25, 9.0]), 2.0)
    assert found.relative == pytest.approx(np.array([[1.25, 0.75], [1.6, 0.4]]))
    assert (found.relative * found.share).sum(axis=1) == pytest.approx(1.0)
    assert found.changes == pytest.approx(2.0 * phases.changes)


def test_a_phase_without_arrivals_and_long_chains_stay_finite() -> None:
    phases = phases_of(Mmpp((2.0, 0.0), (50.0, 50.0)).statistics())
    assert phases is not None
    ones, limit = np.ones(1), np.array([256.0])
    nodes = nodes_of(limit)
    residence = 200.0 * (1.0 + nodes.batch / 1e3)
    burst = Burstiness(ones, ones, ones, ones, 0.0 * ones, ones)
    found = phased_sharing(ones, nodes, (residence, residence), limit, burst, 0.95 * ones, phases)
    assert found.at_nodes.sum() == pytest.approx(1.0)
    assert 150.0 < found.in_service[0] < 256.0
    assert 0.0 < found.queue_ratio[0] < 1.0


@pytest.mark.parametrize("seed", range(5))
def test_as_many_are_in_service_as_in_the_dense_chain(seed: int) -> None:
    case = drawn(seed, 0)
    found, total = case.solved(), case.dense().sum(axis=1)
    assert found.in_service[0] == pytest.approx(np.minimum(np.arange(LEVELS + 1.0), case.limit) @ total, rel=1e-7)
