"""Routes against hand-drawn 2×2 and 3×3 meshes and against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hydra_dse.errors import InputError
from hydra_dse.routing import RouteTable, build_topology, route


def slots_on_path(table: RouteTable, source: int, target: int) -> list[int]:
    return [source] + [table.links[link][1] for link in table.path(source, target)]


def full(kind: str, columns: int, rows: int) -> RouteTable:
    return route(build_topology(kind, columns, rows, 10, 10), (True,) * (columns * rows))


def test_a_2x2_mesh_routes_x_first() -> None:
    # 0 1
    # 2 3
    table = full("mesh", 2, 2)
    assert slots_on_path(table, 0, 3) == [0, 1, 3]
    assert slots_on_path(table, 3, 0) == [3, 2, 0]
    assert slots_on_path(table, 1, 2) == [1, 0, 2]
    assert slots_on_path(table, 2, 1) == [2, 3, 1]
    assert table.path(1, 1) == ()


def test_a_3x3_mesh_routes_x_first() -> None:
    # 0 1 2
    # 3 4 5
    # 6 7 8
    table = full("mesh", 3, 3)
    assert slots_on_path(table, 0, 8) == [0, 1, 2, 5, 8]
    assert slots_on_path(table, 8, 0) == [8, 7, 6, 3, 0]
    assert slots_on_path(table, 6, 2) == [6, 7, 8, 5, 2]
    assert slots_on_path(table, 4, 6) == [4, 3, 6]


def test_hops_of_a_full_mesh_are_manhattan_distances() -> None:
    table = full("mesh", 6, 4)
    row, column = np.divmod(np.arange(24), 6)
    manhattan = abs(row[:, None] - row) + abs(column[:, None] - column)
    assert (table.hops == manhattan).all()


def test_a_leaf_is_not_passed_through() -> None:
    # The middle of a 3×3 mesh holds a leaf: opposite sides go around it.
    transit = tuple(slot != 4 for slot in range(9))
    table = route(build_topology("mesh", 3, 3, 10, 10), transit)
    assert table.hops[3, 5] == 4
    assert table.hops[3, 4] == table.hops[4, 5] == 1
    assert slots_on_path(table, 3, 5)[1:-1] in ([0, 1, 2], [6, 7, 8])


def test_a_leaf_in_a_corner_is_reached_and_reaches_all() -> None:
    table = route(build_topology("mesh", 3, 3, 10, 10), tuple(slot != 0 for slot in range(9)))
    assert table.reachable.all()
    assert table.hops[0, 8] == 4


def test_slots_cut_off_by_leaves_have_no_route() -> None:
    # 0 1 2 in a row, the middle is a leaf.
    table = route(build_topology("mesh", 3, 1, 10, 10), (True, False, True))
    assert not table.reachable[0, 2]
    assert np.isinf(table.hops[0, 2])
    with pytest.raises(KeyError, match="no route from slot 0 to slot 2"):
        table.path(0, 2)
    assert table.incidence[:, 0 * 3 + 2].sum() == 0


def first_neighbour_loads(table: RouteTable) -> np.ndarray:
    """Pairs per link when every tie goes to the lowest slot: the rule to be better than."""
    index = {link: number for number, link in enumerate(table.links)}
    loads = np.zeros(len(table.links))
    for source, target in np.argwhere(table.reachable).tolist():
        if not (table.transit[source] or table.transit[target]):
            continue
        here = source
        while here != target:
            onward = min(
                b
                for a, b in table.links
                if a == here
                and (b == target or table.transit[b])
                and table.hops[b, target] == table.hops[here, target] - 1
            )
            loads[index[here, onward]] += 1
            here = onward
    return loads


@pytest.mark.parametrize("leaves", [(0, 5, 18, 23), (0, 2, 5, 12, 18, 21, 23), (7, 10, 13, 16), (0, 3, 8, 11, 12, 16)])
def test_ties_off_the_full_mesh_are_spread_over_the_links(leaves: tuple[int, ...]) -> None:
    table = route(build_topology("mesh", 6, 4, 10, 10), tuple(slot not in leaves for slot in range(24)))
    useful = [
        source * 24 + target
        for source in range(24)
        for target in range(24)
        if table.transit[source] or table.transit[target]
    ]
    spread, stacked = table.incidence[:, useful].sum(axis=1), first_neighbour_loads(table)
    assert spread.sum() == stacked.sum()
    assert spread.std() < stacked.std()


grids = st.tuples(st.sampled_from(["mesh", "torus", "hex"]), st.integers(1, 5), st.integers(1, 5))


@st.composite
def tables(draw: st.DrawFn) -> RouteTable:
    kind, columns, rows = draw(grids)
    transit = draw(st.lists(st.booleans(), min_size=columns * rows, max_size=columns * rows))
    return route(build_topology(kind, columns, rows, 10, 10), tuple(transit))


@given(tables())
def test_hops_are_the_shortest_paths_of_networkx_through_routing_slots(table: RouteTable) -> None:
    size = len(table.transit)
    both_ways = [*table.topology.edges, *((target, source) for source, target in table.topology.edges)]
    for source in range(size):
        # Only the source and slots that route send on.
        graph = nx.DiGraph(edge for edge in both_ways if edge[0] == source or table.transit[edge[0]])
        graph.add_node(source)
        expected = nx.single_source_shortest_path_length(graph, source)
        assert table.hops[source].tolist() == [expected.get(target, float("inf")) for target in range(size)]


@given(tables())
def test_paths_are_shortest_avoid_leaves_and_agree_with_the_incidence(table: RouteTable) -> None:
    size = len(table.transit)
    for source in range(size):
        for target in range(size):
            column = table.incidence[:, source * size + target]
            if not table.reachable[source, target]:
                assert not column.any()
                continue
            path = table.path(source, target)
            visited = slots_on_path(table, source, target)
            assert len(path) == table.hops[source, target]
            assert visited[-1] == target
            assert all(table.transit[slot] for slot in visited[1:-1])
            assert sorted(path) == np.flatnonzero(column).tolist()


@given(tables())
def test_the_next_hop_depends_only_on_place_and_destination(table: RouteTable) -> None:
    for source, target in np.argwhere(table.reachable).tolist():
        if source != target:
            onward = int(table.next_slot[source, target])
            assert table.path(source, target)[1:] == table.path(onward, target)


def test_route_tables_are_shared_and_cannot_be_changed() -> None:
    table = full("mesh", 3, 3)
    assert full("mesh", 3, 3) is table
    with pytest.raises(ValueError, match="read-only"):
        table.hops[0, 0] = 1


def test_transit_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match="3 slots, the topology has 4"):
        route(build_topology("mesh", 2, 2, 1, 1), (True, True, True))
