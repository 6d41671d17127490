"""Length distributions: moments and percentiles of samples and points against their definition."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.config import load_workload
from hydra_dse.errors import InputError
from hydra_dse.rng import derive
from hydra_dse.workload import Constant, Empirical, JointLengths, Lognormal, Quantiles, fixed
from hydra_dse.workload.nouns import LengthPoints
from hydra_dse.workload.points import MAX_POINTS, thin


def moments(points):
    prompt, output = points.prompt_tokens, points.output_tokens
    return [points.mean(value) for value in (prompt, output, prompt**2, output**2, prompt * output, output**3)]


def sample_moments(prompt, output):
    prompt, output = prompt.astype(float), output.astype(float)
    return [float(value.mean()) for value in (prompt, output, prompt**2, output**2, prompt * output, output**3)]


def test_fixed_lengths_are_one_point():
    lengths = fixed(32000, 256)
    prompt, output = lengths.sample(5, derive(0))
    assert set(prompt.tolist()) == {32000}
    assert set(output.tolist()) == {256}
    points = lengths.points()
    assert (points.prompt_tokens.tolist(), points.output_tokens.tolist(), points.weight.tolist()) == (
        [32000.0],
        [256.0],
        [1.0],
    )


@pytest.mark.parametrize(
    "marginal",
    [Lognormal(1000, 0.5), Lognormal(200, 1.5), Lognormal(2000, 0.8, 16, 8192), Lognormal(300, 0.8, 1, 1024)],
)
def test_a_lognormal_sample_has_the_stated_mean_and_cv_within_its_bounds(marginal):
    count = 400_000
    tokens, _ = JointLengths(marginal, Constant(1)).sample(count, derive(1, marginal))
    assert tokens.min() >= marginal.minimum
    assert marginal.maximum is None or tokens.max() <= marginal.maximum
    assert tokens.mean() == pytest.approx(marginal.mean, abs=4 * marginal.mean * marginal.cv / math.sqrt(count) + 0.01)
    # The fourth moment of a lognormal makes its CV converge slowly: 3 % at this count for a CV of 1.5.
    assert tokens.std() / tokens.mean() == pytest.approx(marginal.cv, rel=0.03)


def test_a_lognormal_without_bounds_has_the_textbook_median():
    # Median = mean / √(1 + cv²); the lower bound of one token cuts off almost nothing.
    assert Lognormal(1000, 1.0).inverse(np.array([0.5]))[0] == pytest.approx(1000 / math.sqrt(2), rel=1e-4)


# On [1, 1024] a bounded lognormal's CV at a mean of 300 stays below that of a power law of that mean, 0.965.
@pytest.mark.parametrize("figures", [(1000, 5.0, 900, 1100), (300, 1.0, 1, 1024), (1000, 2.0, 16, 8192)])
def test_bounds_that_no_lognormal_fits_are_an_input_error(figures):
    with pytest.raises(InputError, match="no lognormal between"):
        Lognormal(*figures)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Lognormal(0.5, 1.0),
        lambda: Lognormal(100, 0.0),
        lambda: Lognormal(100, 1.0, 200),
        lambda: Lognormal(100, 1.0, 1, 50),
        lambda: Constant(0),
        lambda: Constant(10**12),
        lambda: Quantiles((0.0, 1.0), (5.0, 1.0)),
        lambda: Quantiles((0.0, 0.5), (1.0, 5.0)),
        lambda: Quantiles((0.0, 0.5, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0)),
        lambda: Quantiles((0.0, 1.0), (0.0, 4.0)),
        lambda: Quantiles((0.0, 1.0), (1.0, 4.0), 5.0),
        lambda: Quantiles((0.0, 1.0), (1.0, 4.0), 1.0),
        lambda: JointLengths(Constant(1), Constant(1), 1.0),
        lambda: Empirical(np.array([]), np.array([])),
        lambda: Empirical(np.array([0]), np.array([1])),
        lambda: Empirical(np.array([1, 2]), np.array([1])),
    ],
)
def test_impossible_lengths_are_an_input_error(make):
    with pytest.raises(InputError):
        make()


QUANTILES = Quantiles((0.0, 0.5, 0.9, 0.99, 1.0), (2.0, 1020.0, 2734.5, 4142.0, 14050.0), 1154.7)


def test_quantiles_are_met_exactly_and_so_is_the_mean():
    levels = np.array(QUANTILES.levels)
    assert QUANTILES.inverse(levels).tolist() == pytest.approx(list(QUANTILES.tokens), rel=1e-12)
    grid = (np.arange(2_000_000) + 0.5) / 2_000_000
    assert QUANTILES.inverse(grid).mean() == pytest.approx(1154.7, rel=1e-5)


def test_quantiles_without_a_mean_are_joined_by_straight_lines():
    line = Quantiles((0.0, 0.5, 1.0), (10.0, 20.0, 60.0))
    assert line.inverse(np.array([0.25, 0.75])).tolist() == [15.0, 40.0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=9), st.floats(0.05, 0.95))
def test_any_quantiles_give_a_rising_inverse_with_the_stated_mean(tokens, place):
    tokens = tuple(float(value) for value in sorted(tokens))
    levels = tuple(np.linspace(0.0, 1.0, len(tokens)).tolist())
    widths = np.diff(levels)
    low, high = float(widths @ tokens[:-1]), float(widths @ tokens[1:])
    if high <= low:
        return
    mean = low + place * (high - low)
    marginal = Quantiles(levels, tokens, mean)
    # Mean of each power segment in closed form: a + (b − a)/(k + 1).
    closed = float(widths @ (np.array(tokens[:-1]) + np.diff(tokens) / (marginal.exponent + 1)))
    assert closed == pytest.approx(mean, rel=1e-9)
    values = marginal.inverse(np.linspace(0.0, 1.0, 101))
    assert (np.diff(values) >= -1e-9).all()
    assert tokens[0] <= values.min() <= values.max() <= tokens[-1]


@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.4])
def test_points_have_the_moments_of_a_large_sample(correlation):
    lengths = JointLengths(Lognormal(1000, 1.0), Lognormal(200, 0.8), correlation)
    points = lengths.points()
    sampled = sample_moments(*lengths.sample(1_000_000, derive(2, correlation)))
    assert len(points.weight) <= MAX_POINTS
    assert points.weight.sum() == pytest.approx(1.0, rel=1e-12)
    for value, expected, tolerance in zip(
        moments(points), sampled, [0.004, 0.004, 0.02, 0.02, 0.01, 0.06], strict=True
    ):
        assert value == pytest.approx(expected, rel=tolerance)


def test_the_product_moment_of_correlated_lognormals_is_the_closed_form():
    # E[XY] = E[X]E[Y]·exp(ρσ₁σ₂) for lognormals joined by a Gaussian copula.
    sigma = math.sqrt(math.log(2.0))
    points = JointLengths(Lognormal(1000, 1.0), Lognormal(500, 1.0), 0.5).points()
    expected = 1000 * 500 * math.exp(0.5 * sigma**2)
    assert points.mean(points.prompt_tokens * points.output_tokens) == pytest.approx(expected, rel=0.005)


def test_the_second_moment_of_lognormal_points_is_the_closed_form():
    points = JointLengths(Lognormal(1000, 1.5), Constant(10)).points()
    assert points.mean(points.prompt_tokens**2) == pytest.approx(1000**2 * (1 + 1.5**2), rel=0.01)


def test_a_copula_keeps_the_marginals():
    free, bound = (JointLengths(QUANTILES, Lognormal(200, 0.8), rho) for rho in (0.0, 0.7))
    for value, expected in zip(moments(bound.points())[:4], moments(free.points())[:4], strict=True):
        assert value == pytest.approx(expected, rel=1e-6)


def test_empirical_lengths_draw_pairs_of_the_record():
    lengths = Empirical(np.array([1, 2, 3, 3]), np.array([10, 20, 30, 30]))
    prompt, output = lengths.sample(1000, derive(3))
    assert (output == 10 * prompt).all()
    points = lengths.points()
    assert points.prompt_tokens.tolist() == [1.0, 2.0, 3.0]
    assert points.weight.tolist() == [0.25, 0.25, 0.5]


def test_empirical_lengths_are_equal_where_their_rows_are():
    first, second = (Empirical(np.array([1, 2]), np.array([3, 4])) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != Empirical(np.array([1, 2]), np.array([3, 5]))


def test_many_rows_are_thinned_to_points_with_the_same_means_and_close_higher_moments():
    rng = derive(4)
    prompt = np.rint(rng.lognormal(6.5, 1.0, 50_000)).astype(np.int64) + 1
    output = np.rint(rng.lognormal(5.0, 0.8, 50_000) + 0.05 * prompt).astype(np.int64) + 1
    points = Empirical(prompt, output).points()
    exact = sample_moments(prompt, output)
    assert len(points.weight) <= MAX_POINTS
    for value, expected, tolerance in zip(moments(points), exact, [1e-9, 1e-9, 0.01, 0.01, 0.005, 0.03], strict=True):
        assert value == pytest.approx(expected, rel=tolerance)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 400), st.integers(1, 120), st.integers(0, 1000))
def test_thinning_keeps_weight_and_means_and_the_limit(size, limit, seed):
    rng = derive(seed)
    weight = rng.random(size) + 1e-6
    points = LengthPoints(rng.integers(1, 50, size).astype(float), rng.random(size) * 100 + 1, weight / weight.sum())
    thinned = thin(points, limit)
    assert len(thinned.weight) <= max(limit, 1)
    assert thinned.weight.sum() == pytest.approx(1.0)
    assert thinned.mean(thinned.prompt_tokens) == pytest.approx(points.mean(points.prompt_tokens))
    assert thinned.mean(thinned.output_tokens) == pytest.approx(points.mean(points.output_tokens))


@pytest.mark.parametrize("workload", ["hydra-chat", "azure-conversation", "azure-code"])
def test_points_have_the_mean_of_one_over_the_tokens_after_the_first(workload: str) -> None:
    lengths = load_workload(workload).classes[0].lengths
    assert isinstance(lengths, JointLengths)
    uniform = (np.arange(400_000) + 0.5) / 400_000
    steps = np.maximum(np.rint(lengths.output.inverse(uniform)), 1.0) - 1.0
    points = lengths.points()
    after = points.output_tokens - 1.0
    decodes = after > 0

    assert points.weight[decodes].sum() == pytest.approx((steps > 0).mean(), abs=2e-4)
    found = (points.weight[decodes] / after[decodes]).sum() / points.weight[decodes].sum()
    assert found == pytest.approx((1.0 / steps[steps > 0]).mean(), rel=0.06)


def test_short_outputs_apart_leave_as_many_points_and_the_same_mean() -> None:
    short = JointLengths(Lognormal(100.0, 1.0), Lognormal(20.0, 1.5), 0.4).points()

    assert len(short.weight) == 44 * 44
    assert {1.0, 2.0, 3.0, 4.0} <= set(np.round(short.output_tokens, 9))
    assert short.weight @ short.output_tokens == pytest.approx(20.0, rel=0.01)


@pytest.mark.parametrize("mean", [1.0, 5.5, 10.0])
def test_a_mean_at_or_beyond_what_the_quantiles_allow_is_refused(mean):
    # Half of the lengths lie from 1 to 1 and half from 1 to 10: their mean lies between 1 and 5.5.
    with pytest.raises(InputError, match=r"between 1 and 5\.5"):
        Quantiles((0.0, 0.5, 1.0), (1.0, 1.0, 10.0), mean=mean)


def test_a_mean_within_rounding_of_the_lowest_is_the_lowest():
    levels, tokens = (0.0, 0.1, 0.3, 0.7, 1.0), (3.0, 7.0, 11.0, 17.0, 29.0)
    lowest = math.fsum((b - a) * x for (a, b), x in zip(itertools.pairwise(levels), tokens, strict=False))
    found = Quantiles(levels, tokens, mean=math.nextafter(lowest, math.inf))
    assert float(found.inverse(np.array([0.2]))[0]) == 7.0
