"""The benchmark of placements: an optimum that nothing beats, layouts of every kind, and tables that go on."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from benchmarks.placement_quality.__main__ import run
from benchmarks.placement_quality.annealing import annealed
from benchmarks.placement_quality.cases import IRREGULAR, KINDS, LARGE, TILE_MM, layout, small_designs
from benchmarks.placement_quality.optimum import arrangements, classes, optimum
from benchmarks.placement_quality.simulated import shipped
from hydra_dse.config import load_model
from hydra_dse.design.nouns import Placement
from hydra_dse.mapping import reference_parts
from hydra_dse.network_load import LinkLoad
from hydra_dse.physical.limits import package_violations
from hydra_dse.placement import Problem, place, placement_violations
from hydra_dse.routing import build_topology
from tests.placement.pieces import mesh, package, random_traffic

SMALL = {
    "leaves": package(mesh(2, 2), {"Ap": 1, "Ad": 1}, 2),
    "an empty slot": package(mesh(3, 2), {"Ap": 1, "Ad": 2}, 2),
    "stacks route": package(mesh(3, 2), {"Ap": 1, "Ad": 2}, 2, leaf=False),
    "hexagonal": package(build_topology("hex", 3, 2, 10, 10), {"Ap": 1, "Ad": 2}, 2),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_optimum_is_that_of_all_permutations(name):
    built = SMALL[name]
    traffic = random_traffic(built, 3)
    count = built.die_count + built.stack_count
    costs = [
        float(loads.mean() + loads.max())
        for slots in permutations(range(len(built.topology.slots)), count)
        if not placement_violations(built, slots)
        for loads in [LinkLoad(built, Placement(slots)).loads(traffic)]
    ]
    found = optimum(built, traffic)
    assert found.objective_bytes == pytest.approx(min(costs))
    loads = LinkLoad(built, Placement(found.slots)).loads(traffic)
    assert loads.mean() + loads.max() == pytest.approx(min(costs))
    assert placement_violations(built, found.slots) == ()


def test_components_that_can_be_exchanged_are_counted_once():
    built = SMALL["stacks route"]
    traffic = np.ones((5, 5))
    assert classes(traffic, built.footprints_mm2, 3) == [0, 0, 0, 3, 3]
    assert len(arrangements([0, 0, 0, 3, 3], 3)) == 1
    assert len(arrangements([0, 0, 2, 3, 4], 3)) == 3 * 2
    traffic[0, 3] = 2.0
    assert classes(traffic, built.footprints_mm2, 3) == [0, 1, 1, 3, 4]


def test_nothing_beats_the_optimum_of_an_irregular_package():
    design = small_designs("irregular")[0]
    traffic = reference_parts(design, load_model("nemotronh-4b"))
    exact = optimum(design.package, traffic).objective_bytes
    for algorithm in ("communication_aware", "hydra", "round_robin", "random"):
        assert place(design.package, traffic, algorithm, 0).objective_bytes >= exact * (1 - 1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_of_every_layout_can_be_built_and_placed(kind):
    design = shipped(kind, 256.0)
    where = layout(kind, 6, 4)
    assert len(where.topology.slots) == (IRREGULAR if kind == "irregular" else 24)
    assert design.package.die_count + design.package.stack_count == len(where.topology.slots)
    assert [str(one) for one in package_violations(design.package)] == []
    large = [slot for slot in where.topology.slots if slot.width_mm > TILE_MM]
    assert len(large) == where.large
    assert all(slot.width_mm * slot.height_mm == pytest.approx(LARGE * TILE_MM**2) for slot in large)


def test_annealing_returns_a_legal_placement_with_its_objective():
    design = small_designs("mesh")[0]
    traffic = reference_parts(design, load_model("nemotronh-4b"))
    start = place(design.package, traffic, "random", 1)
    problem = Problem.of(design.package, traffic)
    objective, slots = annealed(problem, start.placement.slots, 200)
    assert objective <= start.objective_bytes
    assert objective == pytest.approx(problem.objective(slots), rel=1e-5)
    assert placement_violations(design.package, slots) == ()


@pytest.mark.slow
def test_a_table_goes_on_where_it_was_interrupted(tmp_path):
    file = tmp_path / "gap.csv"
    rows = run("gap", ["irregular"], file, quick=True)
    assert {row["algorithm"] for row in rows} >= {"communication_aware", "hydra", "round_robin", "annealing"}
    assert all(row["mean"] >= 1.0 - 1e-5 for row in rows)
    before = file.read_bytes()
    assert [row["kind"] for row in run("gap", ["irregular"], file, quick=True)] == ["irregular"] * len(rows)
    assert file.read_bytes() == before
