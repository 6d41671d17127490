from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from studies.toy import OBJECTIVES, ToyScorer, toy_experiment, toy_space

from benchmarks.search_quality.runs import Limits, run
from hydra_dse.design.space import Parameter, Point
from hydra_dse.search.breeding import variants_each
from hydra_dse.search.offspring import Offspring
from hydra_dse.search.outer import OuterSpace
from hydra_dse.search.scores import ScoreTable, constrained
from hydra_dse.search.study import Search

WORDS = tuple("abcdef")
LARGE = toy_space(
    parameters=(*toy_space().parameters[:3], *(Parameter(name, WORDS) for name in "xyz"), *toy_space().parameters[3:])
)


def _run(search):
    proposed = []
    while batch := search.propose():
        proposed += [(candidate.outer, variant) for candidate in batch for variant in candidate.variants]
        tables = [constrained(ToyScorer().score(candidate.points), OBJECTIVES, ()) for candidate in batch]
        search.take(batch, tables)
    return proposed


def test_a_child_takes_each_unchanged_parameter_from_one_of_its_parents():
    offspring = Offspring(OuterSpace(LARGE), 0)
    parents = [((4, 1, 0, 0, 0, 0), 0), ((2, 3, 1, 5, 5, 5), 5)]
    genes = np.array([[*outer, variant] for outer, variant in (offspring.child(parents, key) for key in range(300))])
    taken = [np.isin(genes[:, place], [4, 2] if place == 0 else [1, 3] if place == 1 else [0, 1]) for place in range(3)]
    taken += [np.isin(genes[:, place], [0, 5]) for place in range(3, 7)]
    changed = 7 - np.sum(taken, axis=0)
    assert 0.3 < changed.mean() < 1.5
    assert len({tuple(row) for row in genes[:, 3:6].tolist()} - {(0, 0, 0), (5, 5, 5)}) > 10
    assert not np.any(np.all(genes == [4, 1, 0, 0, 0, 0, 0], axis=1))


def test_near_variants_start_with_the_variant_itself_and_lie_a_step_away():
    near = Offspring(OuterSpace(LARGE), 0).near(2, 4, "key")  # 3 batches x 2 widths: variant 2 is (1, 0)
    assert near[0] == 2
    assert sorted(near[1:]) == [0, 3, 4]


def test_a_large_space_is_searched_within_budget_without_repeats_and_the_same_for_a_seed():
    first, again = (_run(Search(toy_experiment(space=LARGE, trials=60, seed=1))) for _ in range(2))
    assert first == again
    assert len(first) == len(set(first)) == 60
    other = _run(Search(toy_experiment(space=LARGE, trials=60, seed=2)))
    assert other != first


class BetweenTwoCorners:
    """Two objectives, the squared distances from two corners: what lies on the diagonal between them is best."""

    def score(self, points: Sequence[Point]) -> ScoreTable:
        values = np.array([[float(point[f"p{place}"]) for place in range(8)] for point in points])
        metrics = {
            name: 1 + ((values - corner) ** 2).sum(axis=1) for name, corner in (("ttft_mean_s", 1), ("tpot_mean_s", 8))
        }
        return ScoreTable(tuple(repr(tuple(point.values())) for point in points), metrics, ((),) * len(points))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["nsga2", "neighbours"])
def test_children_of_the_front_find_more_of_a_large_space_than_random_draws(sampler):
    parameters = tuple(Parameter(f"p{place}", tuple(range(10)), inner=place == 7) for place in range(8))
    space = toy_space(parameters=parameters, complete=dict, derived=())
    experiment = replace(toy_experiment(space=space, trials=300), objectives=("ttft_mean_s", "tpot_mean_s"))

    def share(name: str) -> float:
        steps = run(experiment, BetweenTwoCorners(), name, 300, 0, Limits(300, 0.0, (300.0, 300.0)))
        return steps[-1].hypervolume

    assert share("ours" if sampler == "nsga2" else "ours-without-optuna") > 1.3 * share("random")


def test_variants_of_an_outer_point_grow_with_the_budget_up_to_the_grid():
    assert [variants_each(trials, 6) for trials in (100, 1000, 3000, 100_000)] == [1, 1, 3, 6]
