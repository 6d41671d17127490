"""Packages placed together get the slots they get alone, and those of the plain reference."""

from __future__ import annotations

import numpy as np
import pytest
from shipped_points import points_of

from hydra_dse.config import load_model, load_space
from hydra_dse.design.nouns import Design
from hydra_dse.hardware.components import Package
from hydra_dse.mapping import reference_parts
from hydra_dse.placement import Problem, forget_placements, place_design, place_designs
from hydra_dse.placement.assignment import assign
from hydra_dse.placement.patterns import patterns
from hydra_dse.routing import build_topology
from tests.placement.pieces import mesh, package, random_parts, two_sizes
from tests.placement.plain import plain_assign

PACKAGES = {
    "leaves on a mesh": package(mesh(4, 3), {"Ap": 4, "Ad": 3}, 5),
    "an empty slot": package(mesh(4, 3), {"Ap": 4, "Md": 3}, 4),
    "routing memories": package(mesh(4, 3), {"Ap": 3, "Ad": 3}, 6, leaf=False),
    "leaves on a torus": package(build_topology("torus", 4, 3, 10, 10), {"Ap": 4, "Ad": 4}, 4),
    "a hexagonal grid": package(build_topology("hex", 4, 3, 10, 10), {"Ap": 4, "Mp": 4}, 4),
    "dies of two sizes": two_sizes(),
    "dies alone": package(mesh(3, 3), {"Ap": 9}, 0),
}


def problems_of(built: Package, count: int) -> list[Problem]:
    return [Problem.of(built, random_parts(built, seed, 0.2 + 0.1 * (seed % 7))) for seed in range(count)]


@pytest.mark.parametrize("name", PACKAGES)
def test_each_of_many_packages_gets_the_slots_of_the_plain_reference(name: str) -> None:
    problems = problems_of(PACKAGES[name], 9)
    first = problems[0]
    found = assign(problems, patterns(first.graph, first.core_count, first.leaf_count))
    for problem, one in zip(problems, found, strict=True):
        assert one is not None
        plain = plain_assign(problem)
        assert plain is not None
        assert one.slots == plain[0]
        assert one.cost == pytest.approx(plain[1], rel=1e-5)


@pytest.mark.parametrize("name", PACKAGES)
def test_slots_do_not_depend_on_the_others_in_a_batch(name: str) -> None:
    problems = problems_of(PACKAGES[name], 10)
    shapes = patterns(problems[0].graph, problems[0].core_count, problems[0].leaf_count)
    together = [one and (one.slots, one.cost) for one in assign(problems, shapes)]
    alone = [one and (one.slots, one.cost) for problem in problems for one in assign([problem], shapes)]
    turned = [one and (one.slots, one.cost) for one in assign(problems[::-1], shapes)]
    assert together == alone == turned[::-1]


def test_packages_that_fit_no_layout_have_no_slots() -> None:
    built = package(mesh(6, 4), {"Ap": 1, "Ad": 3, "Mp": 1, "Md": 3}, 16)
    problems = problems_of(built, 3)
    assert assign(problems, patterns(problems[0].graph, 8, 16)) == [None] * 3


@pytest.fixture(scope="module")
def mixed() -> list[Design]:
    """Designs of a shipped space with every count of stacks, some twice and some with too many."""
    space = load_space("hydra-24")
    points = list(points_of(space))
    chosen = [points[index] for index in np.linspace(0, len(points) - 1, 9).astype(int)]
    return [space.build(point) for point in (*chosen, chosen[2], chosen[0])]


def test_designs_of_unlike_counts_keep_their_order_and_results(mixed: list[Design]) -> None:
    model = load_model("nemotron-h-8b")
    forget_placements()
    together = place_designs(mixed, model, 0)
    forget_placements()
    assert together == [place_design(design, model, 0) for design in mixed]
    assert sum(bool(violations) for _, violations in together) >= 1
    assert place_designs(mixed, model, 0) == together  # remembered


def test_designs_of_a_shipped_space_get_the_slots_of_the_plain_reference(mixed: list[Design]) -> None:
    model = load_model("nemotron-h-8b")
    forget_placements()
    for design, violations in place_designs(mixed[2:7:2], model, 0):
        plain = plain_assign(Problem.of(design.package, reference_parts(design, model)))
        assert not violations
        assert plain is not None
        assert design.placement is not None
        assert design.placement.slots == plain[0]
