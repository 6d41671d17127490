"""Probabilities that tokens choose experts, against draws, small cases by hand, and limits."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.model.routing import Routing
from hydra_dse.rng import derive

DRAWS = 40_000


def drawn(routing: Routing, tokens: int, key: str) -> np.ndarray:
    """Experts of each token, drawn one after another without replacement: shape (tokens, top_k)."""
    rng = derive(1, "routing", key)
    chosen = np.zeros((tokens, routing.top_k), dtype=np.int64)
    left = np.tile(routing.popularity, (tokens, 1))
    for draw in range(routing.top_k):
        upto = np.cumsum(left, axis=1)
        chosen[:, draw] = (upto < rng.random(tokens)[:, None] * upto[:, -1:]).sum(axis=1)
        left[np.arange(tokens), chosen[:, draw]] = 0.0
    return chosen


def test_two_of_three_experts_agree_with_the_sum_over_orders() -> None:
    p = np.array([0.5, 0.3, 0.2])
    routing = Routing(3, 2, shares=(5.0, 3.0, 2.0))
    by_hand = [p[e] + sum(p[o] * p[e] / (1 - p[o]) for o in range(3) if o != e) for e in range(3)]
    assert routing.inclusion == pytest.approx(by_hand, abs=1e-9)


def test_one_expert_per_token_is_chosen_by_its_popularity() -> None:
    routing = Routing(6, 1, skew=1.3)
    assert routing.inclusion == pytest.approx(routing.popularity, abs=1e-9)


@pytest.mark.parametrize(("experts", "top_k", "skew"), [(8, 2, 1.0), (32, 4, 0.5), (64, 6, 1.0), (16, 14, 1.5)])
def test_inclusion_sums_to_top_k_and_agrees_with_draws(experts: int, top_k: int, skew: float) -> None:
    routing = Routing(experts, top_k, skew)
    assert routing.inclusion.sum() == pytest.approx(top_k, abs=1e-6)
    seen = np.bincount(drawn(routing, DRAWS, f"{experts}").ravel(), minlength=experts) / DRAWS
    error = np.sqrt(routing.inclusion * (1 - routing.inclusion) / DRAWS)
    assert np.abs(seen - routing.inclusion).max() < 4.5 * error.max()


def test_a_skew_of_zero_and_equal_shares_are_uniform() -> None:
    even = Routing(12, 3, shares=(2.0,) * 12)
    assert even.inclusion == pytest.approx(Routing(12, 3).inclusion, abs=1e-9)
    assert even.distinct(7.0) == pytest.approx(float(Routing(12, 3).distinct(7.0)), abs=1e-6)


@pytest.mark.parametrize("tokens", [1, 3, 16, 100])
@pytest.mark.parametrize("skew", [0.0, 0.5, 1.0])
def test_distinct_experts_of_an_iteration_agree_with_draws(tokens: int, skew: float) -> None:
    routing, iterations = Routing(64, 6, skew), 20_000 // (tokens + 10)
    chosen = drawn(routing, iterations * tokens, f"distinct {tokens} {skew}").reshape(iterations, -1)
    counts = np.array([len(set(row)) for row in chosen.tolist()], dtype=np.float64)
    half_width = 4.0 * counts.std() / np.sqrt(iterations) + 1e-9
    assert float(routing.distinct(float(tokens))) == pytest.approx(counts.mean(), abs=half_width)


def test_an_expert_without_a_share_is_never_read() -> None:
    routing = Routing(4, 2, shares=(0.0, 1.0, 1.0, 2.0))
    assert routing.inclusion[0] == 0.0
    assert float(routing.distinct(1e9)) == pytest.approx(3.0)


def test_as_many_experts_with_a_share_as_a_token_uses_are_all_chosen() -> None:
    assert Routing(4, 2, shares=(0.0, 9.0, 1.0, 0.0)).inclusion.tolist() == [0.0, 1.0, 1.0, 0.0]


def test_sets_are_hit_as_often_as_draws_hit_them() -> None:
    routing = Routing(24, 4, 1.0)
    set_of = np.arange(24) % 5 - 1  # every fifth expert in no set
    seen = set_of[drawn(routing, DRAWS, "sets")]
    hit = [(seen == number).any(axis=1).mean() for number in range(4)]
    assert routing.hits(set_of) == pytest.approx(hit, abs=4.5 * 0.5 / np.sqrt(DRAWS))


def test_skew_lowers_the_distinct_experts() -> None:
    read = [float(Routing(128, 8, skew).distinct(32.0)) for skew in (0.0, 0.5, 1.0, 2.0)]
    assert read == sorted(read, reverse=True)
