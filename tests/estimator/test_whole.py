"""Whole prompts packed into iterations, against packing them one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.whole import packed_whole
from hydra_dse.workload.nouns import LengthPoints
from tests.estimator.conftest import lognormal, points


def packed_one_by_one(sizes: np.ndarray, budget: float) -> tuple[float, float, float]:
    """Mean tokens, prompts and pairs of an iteration: the next prompt joins while it fits."""
    iterations: list[list[float]] = [[]]
    for size in sizes.tolist():
        if iterations[-1] and sum(iterations[-1]) + size > budget:
            iterations.append([])
        iterations[-1].append(size)
    return (
        float(np.mean([sum(each) for each in iterations])),
        float(np.mean([len(each) for each in iterations])),
        float(np.mean([sum(size**2 for size in each) / 2 for each in iterations])),
    )


@pytest.mark.parametrize("budget", [256.0, 1024.0, 4096.0])
def test_a_backlog_packs_as_prompts_taken_one_by_one(budget: float) -> None:
    rng = np.random.default_rng(3)
    sizes = lognormal(rng, 600, 0.9, 40_000)
    found = packed_whole(np.array([budget]), moments_of(points(sizes, np.full(len(sizes), 10))))
    tokens, prompts, pairs = packed_one_by_one(sizes, budget)
    assert found.tokens.mean() == pytest.approx(tokens, rel=0.02)
    assert found.prompts.mean() == pytest.approx(prompts, rel=0.02)
    # Halves of slices miss some of the spread in the last one.
    assert found.pairs.mean() == pytest.approx(pairs, rel=0.06)


def test_equal_prompts_fill_an_iteration_up_to_the_budget() -> None:
    alike = moments_of(LengthPoints(np.array([100.0]), np.array([5.0]), np.ones(1)))
    found = packed_whole(np.array([99.0, 100.0, 399.0, 400.0]), alike)
    assert found.prompts.mean(axis=1).tolist() == [1.0, 1.0, 3.0, 4.0]
    assert found.tokens.mean(axis=1) == pytest.approx([100.0, 100.0, 300.0, 400.0])


def test_packing_keeps_the_mean_prompt() -> None:
    rng = np.random.default_rng(4)
    lengths = moments_of(points(lognormal(rng, 300, 1.2, 5000), np.full(5000, 10)))
    found = packed_whole(np.array([64.0, 2048.0]), lengths)
    assert found.tokens.mean(axis=1) / found.prompts.mean(axis=1) == pytest.approx([300.0] * 2, rel=0.05)
