"""Saturation of pools in tandem: bounds, monotonicity, and the engine where memory binds."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.nodes import nodes_of
from hydra_dse.estimator.saturation import tandem_saturation
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points
from tests.estimator.reference_disaggregated import disaggregated
from tests.estimator.reference_engine import Rules

PREFILL = System(tw=6e-3, tc=8e-5, tssm=4e-5)
DECODE = System(tw=7e-3, tc=3e-4, tssm=1e-4)
MEMORY, STATE = 2.2e5, 6000.0
LIMITS = (4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 128)


def lengths(cv: float, count: int, mean: float = 1000.0) -> tuple[np.ndarray, np.ndarray]:
    if cv == 0.0:
        return np.full(count, int(mean)), np.full(count, int(mean))
    rng = np.random.default_rng(3)
    return lognormal(rng, mean, cv, count), lognormal(rng, mean, cv, count)


def estimated(max_batch: int, of: LengthPoints) -> float:
    profile = profile_of(
        {"prefill": [PREFILL], "decode": [DECODE]},
        batching="chunked",
        max_batch=max_batch,
        token_budget=2048,
        memory_tokens=MEMORY,
        state_tokens=STATE,
    )
    table = estimate(profile, ArrivalStatistics(0.01), of, percentiles=False)
    return float(table.metrics["saturation_requests_per_s"][0])


def chain(
    birth: float, step: tuple[float, float], limit: float, places: float, spread: float, paused: float = 1.0
) -> float:
    """Saturation where decode takes `step[0] + step[1]·b` seconds."""
    nodes = nodes_of(np.array([64.0]))
    residence = step[0] + step[1] * nodes.batch
    births = np.full((1, nodes.count + 1), birth)
    at_limit = paused * nodes.at(residence, np.array([[limit]]))[:, 0]
    return float(
        tandem_saturation(nodes, births, residence, at_limit, np.array([limit]), np.array([places]), spread)[0]
    )


@pytest.mark.parametrize("cv", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("max_batch", [16, 28, 64])
def test_saturation_agrees_with_the_engine_where_memory_binds(cv: float, max_batch: int) -> None:
    count = 400
    prompt, output = lengths(cv, count)
    log = disaggregated(
        np.zeros(count),
        prompt,
        output,
        (PREFILL.time, DECODE.time),
        Rules(max_batch, 2048, False, MEMORY, STATE),
        lambda *_: (1.0, 1.0),
    )
    last = np.sort(log.last_s)
    measured = 0.6 * count / (last[int(0.85 * count)] - last[int(0.25 * count)])
    assert estimated(max_batch, points(prompt, output)) == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("cv", [0.0, 0.1, 0.3, 1.0, 2.0])
def test_a_higher_batch_limit_never_lowers_saturation(cv: float) -> None:
    of = points(*lengths(cv, 3000))
    found = np.array([estimated(limit, of) for limit in LIMITS])
    # Memory shared between slots and waiting prompts is counted in sequences, to within half of one.
    assert (found >= 0.99 * np.maximum.accumulate(found)).all()


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize("places", [0.0, 0.3, 1.0, 8.0])
def test_the_slower_pool_bounds_saturation_and_sets_it_where_it_is_far_slower(spread: float, places: float) -> None:
    for birth in (0.01, 1.0, 4.0, 6.0, 40.0, 1e4):
        decode = 16.0 / (1.0 + 0.1 * 16.0)
        rate = chain(birth, (1.0, 0.1), 16.0, places, spread)
        assert rate <= min(birth, decode) * (1 + 1e-9)
    assert chain(1e5, (1.0, 0.1), 16.0, places, spread) == pytest.approx(decode, rel=1e-3)
    assert chain(1e-3, (1.0, 0.1), 16.0, places, spread) == pytest.approx(1e-3, rel=0.03)


@pytest.mark.parametrize("places", [0, 1, 5])
def test_poisson_prompts_before_slots_of_constant_residence_saturate_as_a_loss_system(places: int) -> None:
    birth, slots = 3.0, 4
    weight = [1.0]
    for level in range(1, slots + places + 1):
        weight.append(weight[-1] * birth / min(level, slots))
    open_share = 1.0 - weight[-1] / sum(weight)
    assert chain(birth, (1.0, 0.0), float(slots), float(places), 1.0) == pytest.approx(birth * open_share, rel=1e-9)


def test_saturation_grows_evenly_with_waiting_places() -> None:
    found = np.array([chain(6.0, (1.0, 0.1), 16.0, places, 0.5) for places in np.linspace(0.0, 3.0, 61)])
    assert (np.diff(found) > 0).all()
    assert np.diff(found).max() < 0.02 * found[0]


@pytest.mark.parametrize(("limit", "places", "birth"), [(1, 1, 20.0), (3, 2, 25.0), (4, 6, 60.0), (8, 3, 45.0)])
def test_a_tandem_of_exponential_servers_is_its_exact_finite_chain(limit: int, places: int, birth: float) -> None:
    # Levels 0 … limit + places beyond prefill; decode completes l/(0.05 + 0.01·l) requests per second of l.
    level = np.arange(1, limit + places + 1)
    served = np.minimum(level, limit)
    death = served / (0.05 + 0.01 * served)
    weight = np.concatenate(([1.0], np.cumprod(birth / death)))
    exact = float((death * weight[1:]).sum() / weight.sum())
    assert chain(birth, (0.05, 0.01), limit, places, 1.0) == pytest.approx(exact, rel=1e-9)
