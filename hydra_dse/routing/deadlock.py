"""Deadlock freedom by virtual layers.

Routes are free of deadlock when the graph of channel dependencies (link `a` is followed by link `b` on some path) has
no cycle (Dally and Seitz 1987).  Where it has one, pairs are spread over virtual layers, each pair in the first layer
that stays acyclic with it (LASH, Skeie et al. 2002).  A layer costs one virtual channel per message class.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from hydra_dse.routing.table import RouteTable


class _Layer:
    """Dependencies of one layer with their transitive closure as bit sets: `reach[a]` has bit `b` where a ⇒ b."""

    def __init__(self, links: int) -> None:
        self.reach = [0] * links
        self.edges: set[tuple[int, int]] = set()

    def admit(self, dependencies: list[tuple[int, int]]) -> bool:
        """Add the dependencies if the layer stays acyclic; otherwise change nothing."""
        fresh = [edge for edge in dependencies if edge not in self.edges]
        if not fresh:
            return True
        reach = self.reach.copy()
        for before, after in fresh:
            if reach[after] >> before & 1:
                return False
            gained = reach[after] | 1 << after
            if gained & ~reach[before]:
                for link, reached in enumerate(reach):
                    if link == before or reached >> before & 1:
                        reach[link] = reached | gained
        self.reach = reach
        self.edges.update(fresh)
        return True


def virtual_layers(table: RouteTable) -> NDArray[np.int64]:
    """Return the layer of each pair of slots, shape (slots, slots); -1 on the diagonal and where there is no path.

    Pairs are taken in index order.  A path of one link depends on nothing and stays in layer 0.
    """
    size = len(table.topology.slots)
    layers: list[_Layer] = [_Layer(len(table.links))]
    result = np.full((size, size), -1, dtype=np.int64)
    for source, target in np.argwhere(table.reachable).tolist():
        if source == target:
            continue
        path = table.path(source, target)
        dependencies = list(pairwise(path))
        number = next((n for n, layer in enumerate(layers) if layer.admit(dependencies)), None)
        if number is None:
            number = len(layers)
            layers.append(_Layer(len(table.links)))
            layers[number].admit(dependencies)
        result[source, target] = number
    return result


def channel_dependencies(table: RouteTable, layer: int) -> dict[int, set[int]]:
    """Return which links follow each link on some path of `layer`."""
    follows: dict[int, set[int]] = defaultdict(set)
    for source, target in np.argwhere(table.layers == layer).tolist():
        path = table.path(source, target)
        for before, after in pairwise(path):
            follows[before].add(after)
    return dict(follows)


def channel_dependencies_acyclic(table: RouteTable) -> bool:
    """Whether no virtual layer of the table has a cycle of channel dependencies (checked by Kahn's algorithm)."""
    return all(_acyclic(channel_dependencies(table, layer)) for layer in range(table.layer_count))


def _acyclic(follows: dict[int, set[int]]) -> bool:
    before: dict[int, int] = defaultdict(int)
    for targets in follows.values():
        for target in targets:
            before[target] += 1
    ready = [link for link in follows if not before[link]]
    done = 0
    while ready:
        link = ready.pop()
        done += 1
        for target in sorted(follows.get(link, ())):
            before[target] -= 1
            if not before[target]:
                ready.append(target)
    return done == len(follows.keys() | before.keys())
