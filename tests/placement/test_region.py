"""Connected sets that border the leaves, against enumeration."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hydra_dse.hardware.components import Topology
from hydra_dse.placement.patterns import exchange, patterns
from hydra_dse.placement.region import Layout, bits, graph_of, mask_of, most_leaves
from hydra_dse.routing import build_topology
from tests.placement.pieces import mesh


def as_graph(topology: Topology) -> nx.Graph:
    graph = nx.Graph(topology.edges)
    graph.add_nodes_from(range(len(topology.slots)))
    return graph


def bordered(graph: nx.Graph, core: tuple[int, ...]) -> int:
    """Slots next to a connected core; -1 for one that is not connected."""
    if not nx.is_connected(graph.subgraph(core)):
        return -1
    return len({neighbour for slot in core for neighbour in graph[slot]} - set(core))


@pytest.mark.parametrize(
    "topology", [mesh(4, 3), build_topology("hex", 4, 3, 1, 1), build_topology("torus", 4, 3, 1, 1)]
)
@pytest.mark.parametrize("dies", [1, 2, 3, 4, 5])
def test_the_most_leaves_a_core_can_border_are_those_of_plain_enumeration(topology: Topology, dies: int) -> None:
    graph = as_graph(topology)
    best = max(bordered(graph, core) for core in combinations(range(12), dies))
    count, core, exact = most_leaves(graph_of(topology), dies, 12 - dies)
    assert (count, exact) == (best, True)
    assert bordered(graph, tuple(bits(core))) >= count


@pytest.mark.slow
def test_ten_dies_are_the_fewest_that_hang_together_and_border_all_of_a_6x4_mesh() -> None:
    # All 2^24 subsets as bit masks: dominating, then connected by flooding.
    columns, rows, full = 6, 4, (1 << 24) - 1
    not_left = np.uint32(full & ~mask_of([row * columns for row in range(rows)]))
    not_right = np.uint32(full & ~mask_of([row * columns + columns - 1 for row in range(rows)]))

    def neighbours(sets: np.ndarray) -> np.ndarray:
        sideways = ((sets & not_left) >> np.uint32(1)) | ((sets & not_right) << np.uint32(1))
        return sideways | (sets >> np.uint32(columns)) | ((sets << np.uint32(columns)) & np.uint32(full))

    smallest = 24
    for high in range(16):
        sets = np.arange(high << 20, (high + 1) << 20, dtype=np.uint32)
        sets = sets[(sets | neighbours(sets)) == full]
        flooded = sets & (~sets + np.uint32(1))
        while True:
            wider = (flooded | neighbours(flooded)) & sets
            if (wider == flooded).all():
                break
            flooded = wider
        connected = sets[flooded == sets]
        smallest = min([smallest] + [int(value).bit_count() for value in connected.tolist()])
    assert smallest == 10
    for dies in (8, 9):
        assert most_leaves(graph_of(mesh(6, 4)), dies, 24 - dies)[0] < 24 - dies
    assert most_leaves(graph_of(mesh(6, 4)), 10, 14)[0] == 14


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["mesh", "torus", "hex"]),
    st.integers(2, 6),
    st.integers(2, 4),
    st.data(),
)
def test_every_pattern_is_connected_and_borders_its_leaves(
    kind: str, columns: int, rows: int, data: st.DataObject
) -> None:
    topology = build_topology(kind, columns, rows, 10, 10)
    size = columns * rows
    dies = data.draw(st.integers(1, size))
    leaves = data.draw(st.integers(0, size - dies))
    graph = as_graph(topology)
    found = patterns(graph_of(topology), dies, leaves)
    for pattern in found:
        core, ends = tuple(pattern.core.tolist()), pattern.leaves.tolist()
        assert len(core) == dies
        assert len(ends) == leaves
        assert nx.is_connected(graph.subgraph(core))
        assert all(set(graph[end]) & set(core) for end in ends)
        assert not set(core) & set(ends)
    if not found:
        assert most_leaves(graph_of(topology), dies, leaves)[0] < leaves


@pytest.mark.parametrize("stacks", range(1, 15))
def test_a_6x4_mesh_has_a_pattern_for_one_to_fourteen_leaf_stacks(stacks: int) -> None:
    assert patterns(graph_of(mesh(6, 4)), 24 - stacks, stacks)


@pytest.mark.parametrize("stacks", [15, 16, 20])
def test_a_6x4_mesh_has_none_for_fifteen_or_more(stacks: int) -> None:
    assert not patterns(graph_of(mesh(6, 4)), 24 - stacks, stacks)


def test_patterns_give_stacks_more_than_one_port_where_there_is_room() -> None:
    graph = graph_of(mesh(6, 4))
    for stacks in (2, 4, 6):
        for pattern in patterns(graph, 24 - stacks, stacks):
            ports = [(graph.neighbours[slot] & pattern.layout.core).bit_count() for slot in pattern.leaves.tolist()]
            assert min(ports) >= 2


def test_exchanging_two_slots_twice_changes_nothing() -> None:
    layout = Layout(core=0b0111, leaves=0b1000)
    once = exchange(layout, 0, 3)
    assert once == Layout(core=0b1110, leaves=0b0001)
    assert exchange(once, 0, 3) == layout
