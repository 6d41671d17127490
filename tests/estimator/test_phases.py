"""Arrivals in two phases: what queues of short and long memory see of them."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator import estimate
from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.phases import Phases, phases_of
from hydra_dse.estimator.transient import reflect
from hydra_dse.workload.arrivals import Mmpp
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints
from tests.estimator.analytic import System, profile_of
from tests.estimator.conftest import lognormal, points
from tests.estimator.reference_disaggregated import disaggregated
from tests.estimator.reference_engine import Rules

PREFILL, DECODE = System(tw=6e-3, tc=2e-4, tssm=4e-5), System(tw=7e-3, tc=3e-4, tssm=1e-4)


def phases(rates: tuple[float, float], sojourns: tuple[float, float]) -> Phases:
    found = phases_of(Mmpp(rates, sojourns).statistics())
    assert found is not None
    return found


def test_a_long_life_sees_the_limit_of_the_dispersion_and_a_short_one_poisson_arrivals() -> None:
    process = Mmpp((2.0, 10.0), (20.0, 10.0))
    found = phases_of(process.statistics())
    assert found is not None
    rate = np.full(2, process.rate_per_s)
    seen = found.scv_in(rate, np.array([1e-6, 1e9]))
    assert seen == pytest.approx([1.0, effective_scv(process.statistics())], rel=1e-4)


def test_the_peakedness_of_exponential_lives_is_that_of_a_simulated_number_in_service() -> None:
    process, life = Mmpp((1.0, 7.0), (6.0, 3.0)), 4.0
    rng = np.random.default_rng(8)
    arrival = process.sample(200_000, rng)
    leaves = np.sort(arrival + rng.exponential(life, len(arrival)))
    at = np.linspace(50.0, arrival[-1] - 50.0, 200_000)
    number = np.searchsorted(arrival, at) - np.searchsorted(leaves, at)
    found = phases_of(process.statistics())
    assert found is not None
    scv = found.scv_in(np.array([process.rate_per_s]), np.array([life]))[0]
    # Exponential lives overlap by half.
    assert 1.0 + 0.5 * (scv - 1.0) == pytest.approx(number.var() / number.mean(), rel=0.04)


@pytest.mark.parametrize("load", [0.2, 0.6, 0.9])
def test_phases_of_equal_rates_are_a_poisson_process(load: float) -> None:
    alike = phases((3.0, 3.0), (20.0, 10.0))
    rate, each = np.array([3.0]), load / 3.0
    assert alike.loads(rate, np.array([load]), rate * 2.0 * each**2)[0] == pytest.approx([load, load], rel=1e-6)
    assert alike.scv_before(rate, np.array([load]), np.array([each]), np.ones(1)) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("sojourns", [(1.0, 0.5), (10.0, 5.0), (100.0, 50.0)])
@pytest.mark.parametrize(("load", "tolerance"), [(0.3, 0.05), (0.6, 0.05), (0.8, 0.15)])
def test_the_mean_wait_is_that_of_a_simulated_server(
    sojourns: tuple[float, float], load: float, tolerance: float
) -> None:
    process = Mmpp((2.0, 5.0), sojourns)
    rng = np.random.default_rng(5)
    arrival = process.sample(400_000, rng)
    each = load / process.rate_per_s
    gaps, service = np.diff(arrival, prepend=0.0), rng.exponential(each, len(arrival))
    waits = reflect(np.zeros(1), service[None], gaps[None])
    found = phases_of(process.statistics())
    assert found is not None
    rate = np.array([process.rate_per_s])
    loads = found.loads(rate, np.array([load]), rate * 2.0 * each**2)[0]
    assert each * loads / (1.0 - loads) @ found.met == pytest.approx(waits.mean(), rel=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(("sojourns", "tolerance"), [((2.0, 1.0), 0.15), ((20.0, 10.0), 0.35)])
def test_ttft_of_phases_agrees_with_the_engine(sojourns: tuple[float, float], tolerance: float) -> None:
    count, process = 12_000, Mmpp((1.3, 6.5), sojourns)
    rng = np.random.default_rng(1)
    prompt, output = lognormal(rng, 1155.0, 0.95, count), lognormal(rng, 211.0, 0.8, count)
    profile = profile_of(
        {"prefill": [PREFILL], "decode": [DECODE]}, batching="chunked", max_batch=64, token_budget=2048
    )
    arrivals = process.with_rate(2.0)
    arrivals = Mmpp(arrivals.rates_per_s, sojourns)
    table = estimate(profile, arrivals.statistics(), points(prompt, output))
    means = []
    for seed in (100, 101):
        arrival = arrivals.sample(count, np.random.default_rng(seed))
        rules = Rules(64, 2048, False, 1e12, 0.0)
        log = disaggregated(arrival, prompt, output, (PREFILL.time, DECODE.time), rules, lambda *_: (1.0, 1.0))
        means.append((log.first_s - arrival)[count // 10 :].mean())
    assert table.metrics["ttft_mean_s"][0] == pytest.approx(np.mean(means), rel=tolerance)


def test_phases_outside_the_validated_range_are_noted_and_widen_the_interval(chat: LengthPoints) -> None:
    profile = profile_of({"prefill": [PREFILL], "decode": [DECODE]}, batching="chunked", max_batch=64)
    bursty = Mmpp((0.5, 2.5), (60.0, 30.0)).statistics()
    mild = Mmpp((0.9, 1.2), (2.0, 1.0)).with_rate(1.0).statistics()
    wide, narrow = (estimate(profile, of, chat) for of in (bursty, mild))
    assert effective_scv(bursty) > 9.0
    assert any("index of dispersion" in note for note in wide.notes)
    assert not narrow.notes
    ratios = [table.high["ttft_mean_s"][0] / table.low["ttft_mean_s"][0] for table in (wide, narrow)]
    assert ratios[0] > ratios[1]


def test_arrivals_without_phases_have_none() -> None:
    assert phases_of(ArrivalStatistics(1.0, 2.0)) is None
