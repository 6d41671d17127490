"""The prompt queue against closed forms, and its pieces against sampling."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hydra_dse.estimator.company import Packer, gap_within, packing_of
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import Bins, LengthMoments, moments_of
from hydra_dse.estimator.prompts import arrival_root, prompt_queue
from hydra_dse.workload.nouns import LengthPoints


def linear_times(lengths: LengthMoments, token_s: float) -> PrefillTimes:
    """Prompts that cost in proportion to their tokens and are never packed with others."""
    sizes = lengths.prompt_bins.size[None, None]
    budget = np.full((1, 1), 1e9)
    return PrefillTimes(
        sizes * token_s, np.ones_like(sizes), sizes * token_s, budget * token_s, np.zeros((1, 1)), budget
    )


def mixed(sizes: list[float]) -> LengthMoments:
    return moments_of(LengthPoints(np.array(sizes), np.full(len(sizes), 5.0), np.full(len(sizes), 1 / len(sizes))))


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_poisson_prompts_wait_by_pollaczek_khinchine(load: float) -> None:
    lengths = mixed([100.0, 200.0, 600.0])
    times = linear_times(lengths, 1e-3)
    rate = load / (lengths.prompt * 1e-3)
    found = prompt_queue(np.full((1, 1), rate), times, lengths, 1.0)
    sizes, weight = lengths.prompt_bins.size, lengths.prompt_bins.weight
    second = (sizes * 1e-3) ** 2 @ weight
    wait = float((found.waits * found.wait_s)[0, 0])
    assert wait == pytest.approx(rate * second / (2 * (1 - load)), rel=1e-9)
    assert float(found.busy[0, 0]) == pytest.approx(load, rel=1e-9)


@pytest.mark.parametrize("scv", [0.25, 1.0, 4.0])
def test_the_root_of_gamma_arrivals_solves_gi_m_1(scv: float) -> None:
    sigma = arrival_root(np.array([0.2, 0.6, 0.95]), scv)
    assert np.allclose(sigma, (1 + (1 - sigma) * scv / np.array([0.2, 0.6, 0.95])) ** (-1 / scv), atol=1e-9)
    assert (sigma < 1).all()


def test_the_root_of_poisson_arrivals_is_the_load() -> None:
    assert np.allclose(arrival_root(np.array([0.3, 0.8]), 1.0), [0.3, 0.8])
    assert np.allclose(arrival_root(np.array([0.3, 0.8]), 1.0 + 1e-6), [0.3, 0.8], atol=1e-5)


def test_regular_arrivals_of_regular_prompts_do_not_wait() -> None:
    lengths = mixed([300.0])
    found = prompt_queue(np.full((1, 1), 2.0), linear_times(lengths, 1e-3), lengths, 0.0)
    assert float((found.waits * found.wait_s)[0, 0]) == pytest.approx(0.0, abs=1e-9)


def test_a_queue_seen_at_a_horizon_is_stationary_at_low_load_and_finite_at_any() -> None:
    lengths = mixed([100.0, 500.0])
    times = linear_times(lengths, 1e-3)
    low = np.full((1, 1), 0.3 / (lengths.prompt * 1e-3))
    plain, seen = (prompt_queue(low, times, lengths, 1.0, h) for h in (None, np.full((1, 1), 1e-9)))
    assert float(seen.wait_s[0, 0]) == pytest.approx(float(plain.wait_s[0, 0]), rel=1e-6)
    over = prompt_queue(low * 5, times, lengths, 1.0, np.full((1, 1), 0.1))
    assert np.isfinite(over.wait_s).all()
    assert (over.waits < 1).all()


def test_packing_of_poisson_arrivals_is_the_mean_of_a_positive_poisson_number() -> None:
    u = np.array([[0.01, 1.0, 4.0]])
    assert np.allclose(packing_of(u, np.full((1, 3), 99.0), 1.0), u / (1 - np.exp(-u)))
    assert np.allclose(packing_of(u, np.full((1, 3), 99.0), 1.0 + 1e-9), packing_of(u, np.full((1, 3), 99.0), 1.0))


def test_a_gap_of_gamma_arrivals_is_distributed_as_sampled() -> None:
    rng = np.random.default_rng(2)
    gaps = rng.gamma(1 / 4.0, 4.0, 200_000)
    assert float(gap_within(np.array([0.3]), 4.0)[0]) == pytest.approx((gaps <= 0.3).mean(), abs=0.005)


def test_prompts_packed_behind_one_agree_with_samples_of_its_wait_and_of_the_room() -> None:
    rng = np.random.default_rng(3)
    lengths, rate, full_s, token_s = mixed([300.0]), 4.0, 0.2, 1e-4
    sizes = lengths.prompt_bins.size[None, None]
    alone, none = sizes * token_s, np.zeros((1, 1))
    times = PrefillTimes(alone, np.ones_like(sizes), alone, none + full_s, none, none + full_s / token_s)
    waits = np.array([0.01, 0.1, 2.0])
    found = Packer(none + rate, times, lengths, 1.0).behind(waits[None, None])
    assert np.allclose(found.chance[0, 0, :, 0], 1.0 - np.exp(-rate * waits))
    room = rng.uniform(0.0, full_s, 200_000)
    for i, wait in enumerate(waits):
        came = rng.exponential(300.0 * token_s * rate * wait / (1.0 - np.exp(-rate * wait)), len(room))
        assert float(found.extra_s[0, 0, i, 0]) == pytest.approx(np.minimum(came, room).mean(), rel=0.01)


def test_who_waits_longer_has_more_company_behind() -> None:
    lengths = mixed([100.0, 400.0, 900.0])
    found = prompt_queue(np.full((1, 1), 1.0), linear_times(lengths, 1e-3), lengths, 1.0)
    mean = found.behind.mean_s(lengths.prompt_bins.weight)[0, 0]
    assert (np.diff(mean) > 0.0).all()
    assert mean[0] < 0.2 * mean[-1]


def test_halves_of_a_slice_of_uniform_sizes_lie_a_quarter_of_its_width_from_its_mean() -> None:
    sizes = np.arange(1.0, 10_001.0)
    bins = moments_of(LengthPoints(sizes, np.full(10_000, 2.0), np.full(10_000, 1e-4))).prompt_bins
    assert np.allclose(bins.half_gap, bins.weight * 10_000 / 4.0, rtol=1e-6)
    assert np.allclose(bins.spread_of(3.0 * bins.size), 3.0 * bins.half_gap)


@pytest.mark.parametrize("shape", [0.2, 1.0, 7.0])
def test_slices_of_a_gamma_variable_agree_with_samples(shape: float) -> None:
    edges = (0.0, 0.3, 0.8, 0.97, 1.0)
    rng = np.random.default_rng(7)
    sample = np.sort(rng.gamma(shape, 2.0 / shape, 400_000))
    cuts = [int(edge * len(sample)) for edge in edges]
    exact = [sample[a:b].mean() for a, b in itertools.pairwise(cuts)]
    found = gamma_slices(np.array([2.0]), np.array([shape]), edges)[0]
    assert np.allclose(found, exact, rtol=0.03, atol=0.004)
    assert found @ np.diff(edges) == pytest.approx(2.0, rel=1e-6)


def test_bins_keep_mean_and_probability() -> None:
    rng = np.random.default_rng(1)
    sizes, weight = rng.lognormal(6, 1, 500), rng.dirichlet(np.ones(500))
    moments = moments_of(LengthPoints(np.maximum(sizes, 1), np.full(500, 2.0), weight))
    bins: Bins = moments.prompt_bins
    assert bins.weight.sum() == pytest.approx(1.0)
    assert bins.weight @ bins.size == pytest.approx(moments.prompt)


def test_fixed_lengths_have_one_bin() -> None:
    moments = mixed([700.0, 700.0])
    assert len(moments.prompt_bins.size) == 1
    assert moments.decode_scv == pytest.approx(0.0)
    assert moments.overlap == pytest.approx(1.0)


def test_moments_of_exponential_outputs_have_half_the_overlap() -> None:
    output = 1 + np.random.default_rng(4).exponential(300.0, 200_000)
    moments = moments_of(LengthPoints(np.full(200_000, 10.0), output, np.full(200_000, 5e-6)))
    assert moments.overlap == pytest.approx(0.5, abs=0.01)
    assert moments.decode_scv == pytest.approx(1.0, abs=0.02)


def test_the_context_of_a_decode_iteration_counts_every_iteration_once() -> None:
    moments = moments_of(LengthPoints(np.array([10.0, 50.0]), np.array([4.0, 3.0]), np.array([0.5, 0.5])))
    contexts = [11, 12, 13, 51, 52]
    assert moments.context == pytest.approx(np.mean(contexts))
