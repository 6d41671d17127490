"""Slots and links of grids and floorplans, against networkx and against geometry drawn by hand."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.errors import InputError
from hydra_dse.hardware.components import Slot, Topology
from hydra_dse.routing import build_topology, floorplan


def graph(topology: Topology) -> nx.Graph:
    result = nx.Graph()
    result.add_nodes_from(range(len(topology.slots)))
    result.add_edges_from(topology.edges)
    return result


def grid_edges(columns: int, rows: int, periodic: bool) -> set[tuple[int, int]]:
    reference = nx.grid_2d_graph(rows, columns, periodic=periodic)
    pairs = [(a[0] * columns + a[1], b[0] * columns + b[1]) for a, b in reference.edges]
    return {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}


@pytest.mark.parametrize(("columns", "rows"), [(1, 1), (2, 1), (2, 2), (3, 3), (6, 4), (4, 6)])
def test_a_mesh_has_the_edges_of_networkx(columns: int, rows: int) -> None:
    assert set(build_topology("mesh", columns, rows, 10, 10).edges) == grid_edges(columns, rows, periodic=False)


@pytest.mark.parametrize(("columns", "rows"), [(3, 3), (6, 4), (2, 2), (5, 2), (3, 1)])
def test_a_torus_has_the_edges_of_networkx_and_no_pair_twice(columns: int, rows: int) -> None:
    topology = build_topology("torus", columns, rows, 10, 10)
    assert set(topology.edges) == grid_edges(columns, rows, periodic=True)
    assert len(set(topology.edges)) == len(topology.edges)


@pytest.mark.parametrize(("columns", "rows"), [(2, 2), (3, 3), (6, 4), (5, 5)])
def test_hex_tiles_are_linked_exactly_where_the_bricks_touch(columns: int, rows: int) -> None:
    # Odd rows are shifted by half a tile: bricks touch where centres differ by one width in a row, or by half a
    # width in the next row.
    topology = build_topology("hex", columns, rows, 10, 8)
    touching = set()
    for i, a in enumerate(topology.slots):
        for j, b in enumerate(topology.slots[i + 1 :], i + 1):
            across, along = abs(a.x_mm - b.x_mm), abs(a.y_mm - b.y_mm)
            if (along == 0 and across == 10) or (along == 8 and across == 5):
                touching.add((i, j))
    assert set(topology.edges) == touching


def test_an_inner_hex_tile_has_six_neighbours() -> None:
    assert max(dict(graph(build_topology("hex", 5, 5, 1, 1)).degree).values()) == 6


def test_slots_of_a_grid_lie_in_row_major_order_with_centres_in_their_tiles() -> None:
    slots = build_topology("mesh", 3, 2, 10, 8).slots
    assert [(slot.x_mm, slot.y_mm) for slot in slots] == [(5, 4), (15, 4), (25, 4), (5, 12), (15, 12), (25, 12)]


@given(
    st.sampled_from(["mesh", "torus", "hex"]),
    st.integers(1, 7),
    st.integers(1, 7),
)
def test_every_grid_is_connected_and_lists_each_edge_once_smaller_slot_first(
    kind: str, columns: int, rows: int
) -> None:
    topology = build_topology(kind, columns, rows, 1, 1)
    assert nx.is_connected(graph(topology))
    assert list(topology.edges) == sorted(set(topology.edges))
    assert all(a < b for a, b in topology.edges)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mash", 2, 2, 1, 1), "did you mean 'mesh'"),
        (("floorplan", 2, 2, 1, 1), "built from its slots"),
        (("mesh", 0, 2, 1, 1), "at least one column"),
        (("mesh", 2, 2, 0, 1), "positive size"),
        (("mesh", 2, 2, float("nan"), 1), "positive size"),
    ],
)
def test_a_wrong_grid_is_refused_with_what_was_wrong(arguments: tuple[str, int, int, float, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        build_topology(*arguments)


def test_a_floorplan_links_rectangles_that_face_each_other_within_reach() -> None:
    # A large die, two stacks to its right one above the other, and a die too far away below.
    slots = (Slot(5, 5, 10, 10), Slot(13, 3, 5, 5), Slot(13, 8.5, 5, 5), Slot(5, 20, 10, 10))
    topology = floorplan(slots, reach_mm=2.0, min_shared_mm=1.0)
    assert topology.kind == "floorplan"
    assert topology.edges == ((0, 1), (0, 2), (1, 2))


def test_rectangles_that_share_only_a_corner_are_not_linked() -> None:
    assert floorplan((Slot(5, 5, 10, 10), Slot(15, 15, 10, 10)), 2.0, 1.0).edges == ()


def test_a_link_does_not_cross_a_third_rectangle() -> None:
    slots = (Slot(5, 5, 10, 10), Slot(11, 5, 2, 10), Slot(17, 5, 10, 10))
    assert floorplan(slots, reach_mm=5.0).edges == ((0, 1), (1, 2))


def test_a_floorplan_of_equal_touching_tiles_is_the_mesh() -> None:
    mesh = build_topology("mesh", 4, 3, 10, 10)
    assert floorplan(mesh.slots, reach_mm=0.5).edges == mesh.edges


def test_overlapping_and_empty_slots_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        floorplan((Slot(5, 5, 10, 10), Slot(8, 5, 10, 10), Slot(40, 5, 0, 10)))
    messages = [str(fault) for fault in caught.value.faults]
    assert any("slots 0 and 1 overlap" in message for message in messages)
    assert any("slot 2 needs a positive size" in message for message in messages)
