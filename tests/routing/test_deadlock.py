"""Acyclic channel dependencies, checked with networkx rather than with the code under test."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.hardware.components import Slot, Topology
from hydra_dse.routing import RouteTable, build_topology, channel_dependencies_acyclic, floorplan, route


def dependency_graph(table: RouteTable, layer: int) -> nx.DiGraph:
    graph = nx.DiGraph()
    for source, target in np.argwhere(table.layers == layer).tolist():
        graph.add_edges_from(pairwise(table.path(source, target)))
    return graph


def free_of_deadlock(table: RouteTable) -> bool:
    return all(nx.is_directed_acyclic_graph(dependency_graph(table, layer)) for layer in range(table.layer_count))


def full(topology: Topology) -> RouteTable:
    return route(topology, (True,) * len(topology.slots))


def two_large_dies_with_stacks() -> Topology:
    dies = [Slot(10 + 21 * column, 10, 20, 20) for column in range(3)]
    stacks = [Slot(6 + 12 * column, y, 11, 10) for column in range(5) for y in (-6, 26)]
    return floorplan([*dies, *stacks], reach_mm=2.0, min_shared_mm=2.0)


@pytest.mark.parametrize(("columns", "rows"), [(2, 2), (3, 3), (6, 4), (8, 8)])
def test_a_full_mesh_needs_one_layer(columns: int, rows: int) -> None:
    table = full(build_topology("mesh", columns, rows, 10, 10))
    assert table.layer_count == 1
    assert free_of_deadlock(table)


@pytest.mark.parametrize(("columns", "rows"), [(5, 1), (5, 5), (6, 4)])
def test_a_torus_needs_more_than_one_layer(columns: int, rows: int) -> None:
    # In a ring of five or more the two-hop paths of one direction close a cycle of dependencies (Dally and Seitz 1987).
    table = full(build_topology("torus", columns, rows, 10, 10))
    assert table.layer_count >= 2
    assert free_of_deadlock(table)


@pytest.mark.parametrize(
    "topology",
    [build_topology("hex", 6, 4, 10, 10), build_topology("hex", 5, 5, 10, 10), two_large_dies_with_stacks()],
    ids=["hex-6x4", "hex-5x5", "floorplan"],
)
def test_hex_grids_and_floorplans_are_free_of_deadlock(topology: Topology) -> None:
    table = full(topology)
    assert table.reachable.all()
    assert free_of_deadlock(table)
    assert channel_dependencies_acyclic(table)


def test_putting_all_torus_pairs_in_one_layer_is_seen_as_a_deadlock() -> None:
    table = full(build_topology("torus", 6, 4, 10, 10))
    one_layer = np.where(table.layers >= 0, 0, -1)
    flat = RouteTable(table.topology, table.transit, table.links, table.next_slot, table.hops)
    flat.__dict__["layers"] = one_layer
    assert not channel_dependencies_acyclic(flat)


@settings(max_examples=60)
@given(
    st.sampled_from(["mesh", "torus", "hex"]),
    st.integers(2, 6),
    st.integers(2, 4),
    st.sets(st.integers(0, 23), max_size=14),
)
def test_any_set_of_leaf_memories_is_free_of_deadlock(kind: str, columns: int, rows: int, leaves: set[int]) -> None:
    topology = build_topology(kind, columns, rows, 10, 10)
    table = route(topology, tuple(slot not in leaves for slot in range(columns * rows)))
    assert free_of_deadlock(table)
    assert channel_dependencies_acyclic(table)
    pairs = table.reachable & ~np.eye(columns * rows, dtype=bool)
    assert ((table.layers >= 0) == pairs).all()
    assert table.layer_count <= 4
