"""Shortest-path routes between the slots of a package, one path a pair, by destination tables.

A slot passes traffic on only where `transit` says so: a memory stack without a routing base die is a leaf, an empty
slot is not there at all.  On a full mesh or torus the routes are dimension-ordered (x first, Dally and Towles 2004,
ch. 8); on anything else ties go to the link that fewer pairs use so far.  Either way the next hop depends only on
where a flow is and where it goes, so a router holds one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import Topology
from hydra_dse.routing.deadlock import virtual_layers
from hydra_dse.routing.fabric import IslandRoutes, hung_links, joined_tables

Link = tuple[int, int]
FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RouteTable:
    """Routes of a topology in which only the slots of `transit` may be passed through.

    Attributes:
        links: directed links `(from slot, to slot)`; both directions of edge `e` are links `2e` and `2e + 1`.  Of
            several packages those between ports and the dies they hang on follow, two for each port.
        next_slot: shape (slots, slots): where a flow in slot `s` to slot `t` goes next; `s` itself at its end,
            -1 where there is no route.
        hops: shape (slots, slots): links on the path; infinite where there is none.
    """

    topology: Topology
    transit: tuple[bool, ...]
    links: tuple[Link, ...]
    next_slot: IntArray
    hops: FloatArray

    @cached_property
    def link_index(self) -> IntArray:
        """Shape (slots, slots): index of the link between neighbours, -1 elsewhere."""
        index = np.full(self.hops.shape, -1, dtype=np.int64)
        for number, (source, target) in enumerate(self.links):
            index[source, target] = number
        return index

    @cached_property
    def reachable(self) -> BoolArray:
        """Shape (slots, slots): whether there is a route; True on the diagonal."""
        return np.isfinite(self.hops)

    @cached_property
    def incidence(self) -> FloatArray:
        """Shape (links, slots·slots): 1 where the path of pair `s·slots + t` takes the link."""
        size = len(self.topology.slots)
        pairs = np.flatnonzero(self.reachable & ~np.eye(size, dtype=bool))
        here, target = pairs // size, pairs % size
        matrix = np.zeros((len(self.links), size * size))
        while len(pairs):
            there = self.next_slot[here, target]
            matrix[self.link_index[here, there], pairs] = 1.0
            going = there != target
            pairs, here, target = pairs[going], there[going], target[going]
        return matrix

    @cached_property
    def paths(self) -> NDArray[np.int32]:
        """Shape (slots, slots, longest path): the links of each path in order, -1 where it has ended."""
        size = len(self.topology.slots)
        pairs = np.flatnonzero(self.reachable & ~np.eye(size, dtype=bool))
        here, target = pairs // size, pairs % size
        steps = []
        while len(pairs):
            there = self.next_slot[here, target]
            step = np.full(size * size, -1, dtype=np.int32)
            step[pairs] = self.link_index[here, there]
            steps.append(step)
            going = there != target
            pairs, here, target = pairs[going], there[going], target[going]
        taken = np.stack(steps, axis=-1) if steps else np.full((size * size, 0), -1, dtype=np.int32)
        return taken.reshape(size, size, len(steps))

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """Link indices from `source` to `target`, in order; empty for a slot to itself.

        Raises:
            KeyError: there is no route.
        """
        if not self.reachable[source, target]:
            raise KeyError(f"no route from slot {source} to slot {target}")
        links = []
        while source != target:
            onward = int(self.next_slot[source, target])
            links.append(int(self.link_index[source, onward]))
            source = onward
        return tuple(links)

    @cached_property
    def layers(self) -> IntArray:
        """Shape (slots, slots): virtual layer of each pair, -1 where there is no path; see `virtual_layers`."""
        return virtual_layers(self)

    @property
    def layer_count(self) -> int:
        """Virtual layers that keep the routes free of deadlock."""
        return int(self.layers.max(initial=0)) + 1


@lru_cache(maxsize=256)
def route(topology: Topology, transit: tuple[bool, ...]) -> RouteTable:
    """Return the routes among all slots, where only slots with `transit` True may be passed through.

    Raises:
        InputError: `transit` does not have one entry per slot.
    """
    size = len(topology.slots)
    if len(transit) != size:
        raise InputError(Fault(f"transit names {len(transit)} slots, the topology has {size}"))
    if topology.islands:
        return _over_fabric(topology, transit)
    links = tuple(link for a, b in topology.edges for link in ((a, b), (b, a)))
    hops = hop_distances(adjacency(topology), np.array(transit, dtype=bool))
    next_slot = _next_slots(topology, links, hops, transit)
    for array in (hops, next_slot):
        array.setflags(write=False)
    return RouteTable(topology, transit, links, next_slot, hops)


def _over_fabric(topology: Topology, transit: tuple[bool, ...]) -> RouteTable:
    """Routes of several packages, each by its own table, joined by the ports of the fabric."""
    islands, start = [], 0
    for island, ports in zip(topology.islands, topology.ports, strict=True):
        mine = transit[start : start + len(island.slots)]
        table = route(island, mine)
        islands.append(IslandRoutes(island, mine, start, table.next_slot, table.hops, len(ports)))
        start += len(island.slots)
    next_slot, hops = joined_tables(topology, islands)
    edges = (*topology.edges, *hung_links(topology, islands))
    for array in (hops, next_slot):
        array.setflags(write=False)
    return RouteTable(topology, transit, tuple(link for a, b in edges for link in ((a, b), (b, a))), next_slot, hops)


@lru_cache(maxsize=64)
def adjacency(topology: Topology) -> BoolArray:
    """Shape (slots, slots): True between linked slots (read only)."""
    matrix = np.zeros((len(topology.slots),) * 2, dtype=bool)
    for a, b in topology.edges:
        matrix[a, b] = matrix[b, a] = True
    matrix.setflags(write=False)
    return matrix


def hop_distances(neighbours: BoolArray, transit: BoolArray) -> FloatArray:
    """Return the shortest hops between all slots through slots of `transit`; infinite where there is no path.

    Args:
        neighbours: shape (slots, slots).
        transit: shape (..., slots); the result has shape (..., slots, slots).
    """
    edges = neighbours.astype(np.float32)
    hops = np.full((*transit.shape[:-1], *edges.shape), np.inf)
    hops[..., neighbours] = 1.0
    hops[..., np.eye(len(edges), dtype=bool)] = 0.0
    onward = transit[..., :, None] * edges
    front = np.broadcast_to(edges, hops.shape)
    length = 1.0
    while True:
        length += 1.0
        fresh = (front @ onward > 0) & np.isinf(hops)
        if not fresh.any():
            return hops
        hops[fresh] = length
        front = fresh.astype(np.float32)


def _next_slots(topology: Topology, links: tuple[Link, ...], hops: FloatArray, transit: tuple[bool, ...]) -> IntArray:
    """Choose, for each destination, the next slot of every source.

    Sources are taken farthest first, so that the number of pairs that a link would carry is known when it is chosen.
    """
    size = len(transit)
    options = _shortest_steps(topology, links, hops, transit)
    # Farthest first; unreachable slots (infinite) lead the order and have no options.
    order = np.argsort(-hops, axis=0, kind="stable").T.tolist()
    used = [0] * len(links)
    table = np.full((size, size), -1, dtype=np.int64)
    rows = table.T  # rows[target][source]
    for target in range(size):
        carried = [1 if transit[source] or transit[target] else 0 for source in range(size)]
        chosen = [-1] * size
        chosen[target] = target
        for source in order[target]:
            steps = options[target].get(source)
            if steps is None:
                continue
            best = steps[0]
            for step in steps[1:]:
                if step[0] < best[0] or (step[0] == best[0] and used[step[2]] < used[best[2]]):
                    best = step
            used[best[2]] += carried[source]
            carried[best[1]] += carried[source]
            chosen[source] = best[1]
        rows[target] = chosen
    return table


Step = tuple[int, int, int]


def _shortest_steps(
    topology: Topology, links: tuple[Link, ...], hops: FloatArray, transit: tuple[bool, ...]
) -> list[dict[int, list[Step]]]:
    """Return, per destination and source, the steps `(rank, next slot, link)` that lie on a shortest path."""
    size = len(transit)
    steps: list[dict[int, list[Step]]] = [{} for _ in range(size)]
    if not links:
        return steps
    sources, targets = np.array(links).T
    passable = np.array(transit)[targets, None] | (targets[:, None] == np.arange(size))
    nearer = (hops[sources] == hops[targets] + 1) & passable & np.isfinite(hops[sources])
    dimension_order = topology.kind in ("mesh", "torus") and all(transit)
    columns = max(topology.columns, 1)
    for link, target in zip(*(axis.tolist() for axis in np.nonzero(nearer)), strict=True):
        source, onward = links[link]
        rank = int(dimension_order and source // columns != onward // columns)
        steps[target].setdefault(source, []).append((rank, onward, link))
    return steps
