"""Every shipped space and design: placed legally, free of deadlock, shared where only inner values differ."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from shipped_points import points_of

from hydra_dse.config import bundled, load_design, load_model, load_space
from hydra_dse.design.nouns import PLACEMENTS, Design
from hydra_dse.mapping import reference_traffic
from hydra_dse.network_load import LinkLoad
from hydra_dse.placement import forget_placements, place_design, placement_violations
from hydra_dse.routing import RouteTable

SPACES = bundled("spaces")
DESIGNS = bundled("designs")
HYBRID = "nemotron-h-8b"


def few(name: str, count: int = 6) -> list[Design]:
    space = load_space(name)
    points = list(points_of(space))
    return [space.build(points[index]) for index in np.linspace(0, len(points) - 1, count).astype(int)]


def free_of_deadlock(table: RouteTable) -> bool:
    layers: dict[int, nx.DiGraph] = defaultdict(nx.DiGraph)
    for source, target in np.argwhere(table.layers >= 0).tolist():
        layers[int(table.layers[source, target])].add_edges_from(pairwise(table.path(source, target)))
    return all(nx.is_directed_acyclic_graph(graph) for graph in layers.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("algorithm", [name for name in PLACEMENTS if name != "explicit"])
def test_designs_of_every_shipped_space_are_placed_legally_and_free_of_deadlock(name: str, algorithm: str) -> None:
    model = load_model(HYBRID)
    placed_any = False
    for design in few(name):
        placed, violations = place_design(_with(design, algorithm), model, 0)
        if violations:
            assert design.package.memory_is_leaf
            # Of several packages each has as few dies as the space says, and these border only so many stacks.
            assert design.package.stack_count >= 15 or any(p.stack_count > p.die_count for p in design.package.parts)
            continue
        placed_any = True
        assert placed.placement is not None
        assert placement_violations(design.package, placed.placement.slots) == ()
        routes = LinkLoad(design.package, placed.placement).routes
        assert free_of_deadlock(routes)
        assert routes.layer_count <= 3
    assert placed_any


def _with(design: Design, algorithm: str) -> Design:
    return replace(design, placement_algorithm=algorithm)


@pytest.mark.parametrize("name", DESIGNS)
def test_every_shipped_design_is_placed(name: str) -> None:
    placed, violations = place_design(load_design(name), load_model(HYBRID), 0)
    assert not violations
    assert placed.placement is not None


def test_designs_that_differ_in_inner_parameters_share_traffic_and_placement() -> None:
    space, model = load_space("hydra-24"), load_model(HYBRID)
    inner = {parameter.name for parameter in space.parameters if parameter.inner}
    assert inner
    outer: dict[tuple[object, ...], list[Design]] = defaultdict(list)
    for point in list(space.points())[: 24 * 5]:
        outer[tuple(value for key, value in point.items() if key not in inner)].append(space.build(point))
    assert max(len(designs) for designs in outer.values()) == 24
    for designs in outer.values():
        expected = reference_traffic(designs[0], model)
        placements = set()
        for design in designs:
            assert reference_traffic(design, model) == pytest.approx(expected, rel=1e-12)
            placements.add(place_design(design, model, 0)[0].placement)
        assert len(placements) == 1


def test_the_order_of_designs_does_not_change_their_placements() -> None:
    model, designs = load_model(HYBRID), few("hydra-24", 8)
    forget_placements()
    forward = [place_design(design, model, 0)[0].placement for design in designs]
    forget_placements()
    backward = [place_design(design, model, 0)[0].placement for design in reversed(designs)]
    assert forward == backward[::-1]


def test_a_different_model_may_be_placed_differently_but_keeps_its_own_result() -> None:
    design = few("hydra-24", 3)[1]
    first = place_design(design, load_model(HYBRID), 0)[0].placement
    place_design(design, load_model("llama-3.1-8b"), 0)
    assert place_design(design, load_model(HYBRID), 0)[0].placement == first
