"""Candidate layouts: where the leaf memories go before anyone asks which component sits where.

Routes depend only on which slots route, so a package has few layouts worth trying and all designs with the same counts
share them with their distances and routes.  Layouts are found by descent from grown cores: swap a leaf (or an empty
slot) with a core slot while that lowers a traffic-blind cost and stays legal.

Cost = a · mean hops core to core + b · mean hops leaf to core + c · mean over leaves of 1 / (core neighbours): compact
compute, memory near it, and stacks that can use several of their links.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Topology
from hydra_dse.placement.region import Graph, Layout, bits, grow, mask_of, most_leaves
from hydra_dse.placement.ring import ring_order
from hydra_dse.routing import RouteTable, route

FloatArray = NDArray[np.float64]

MAX_PATTERNS = 8
# Weights (a, b, c) of the descents: balanced, memory close, many ports, compact compute.
_WEIGHTS = ((1.0, 1.0, 3.0), (0.3, 2.0, 1.0), (0.3, 0.3, 6.0), (2.0, 0.5, 1.0))
_STARTS = 8
_CORE, _LEAF = 1, 2


@dataclass(frozen=True)
class Pattern:
    """A legal layout with its routes."""

    topology: Topology
    layout: Layout

    @cached_property
    def core(self) -> NDArray[np.int64]:
        """Slots that route, ascending."""
        return np.array(list(bits(self.layout.core)), dtype=np.int64)

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Slots that only end routes, ascending."""
        return np.array(list(bits(self.layout.leaves)), dtype=np.int64)

    @cached_property
    def routes(self) -> RouteTable:
        """Route table of the layout."""
        size = len(self.topology.slots)
        return route(self.topology, tuple(bool(self.layout.core >> slot & 1) for slot in range(size)))

    @cached_property
    def hops(self) -> FloatArray:
        """Hops between slots; pairs without a path (empty slots) count as twice the number of slots."""
        hops = self.routes.hops
        return np.where(np.isinf(hops), 2.0 * len(hops), hops)

    @cached_property
    def pair_links(self) -> NDArray[np.float32]:
        """Shape (slots, slots, links): 1 where the path between two slots takes the link; single, for speed."""
        size = len(self.topology.slots)
        return np.ascontiguousarray(self.routes.incidence.T, dtype=np.float32).reshape(size, size, -1)

    def paths(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Links between the components on some slots, shape (components, components, links)."""
        return self._links_of(slots[:, None] * len(self.hops) + slots)

    def ways(self, slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """Links from and, behind them, to every component on some slots, shape (components, 2 · components, links)."""
        pairs = slots[:, None] * len(self.hops) + slots
        return self._links_of(np.concatenate((pairs, pairs.T), axis=1))

    def _links_of(self, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        size, _, links = self.pair_links.shape
        found: NDArray[np.float32] = self.pair_links.reshape(size * size, links).take(pairs, 0)
        return found


@lru_cache(maxsize=256)
def patterns(graph: Graph, core_count: int, leaf_count: int) -> tuple[Pattern, ...]:
    """Return up to `MAX_PATTERNS` legal layouts, best first by the balanced cost, and that with leaves on the ring.

    Empty where none was found.
    """
    found = dict.fromkeys(
        _descend(graph, start, weights) for start in _starts(graph, core_count, leaf_count) for weights in _WEIGHTS
    )
    costs = {layout: _cost(graph, *_indicators(graph, layout), _WEIGHTS[0])[0] for layout in found}
    ranked = sorted(found, key=lambda layout: (costs[layout], layout.core, layout.leaves))[:MAX_PATTERNS]
    ring = _on_ring(graph, core_count, leaf_count)
    if ring is not None and ring not in ranked:
        ranked.append(ring)
    return tuple(Pattern(graph.topology, layout) for layout in ranked)


def _on_ring(graph: Graph, core_count: int, leaf_count: int) -> Layout | None:
    """Leaves from the outside in and core from the inside out, mended: the layout of HYDRA's heuristic."""
    order = ring_order(graph.topology)
    leaves = [slot for slot in order if graph.leaf_slots >> slot & 1][:leaf_count]
    core = [slot for slot in reversed(order) if graph.core_slots >> slot & 1 and slot not in leaves][:core_count]
    if len(core) < core_count or len(leaves) < leaf_count:
        return None
    return mended(graph, Layout(mask_of(core), mask_of(leaves)))


def _starts(graph: Graph, core_count: int, leaf_count: int) -> list[Layout]:
    """Return a few different legal layouts; at least one where one exists and the exact search finds it."""
    cores = dict.fromkeys(grow(graph, root, core_count) for root in bits(graph.core_slots))
    fitting = [core for core in cores if core.bit_count() == core_count]
    fitting = [core for core in fitting if graph.leaf_border(core).bit_count() >= leaf_count]
    if not fitting:
        count, core, _ = most_leaves(graph, core_count, leaf_count)
        fitting = [core] if count >= leaf_count else []
    step = max(1, len(fitting) // _STARTS)
    return [_with_leaves(graph, core, leaf_count) for core in fitting[::step][:_STARTS]]


def _with_leaves(graph: Graph, core: int, leaf_count: int) -> Layout:
    """Put the leaves on the border slots with most core neighbours."""
    ports = {slot: (graph.neighbours[slot] & core).bit_count() for slot in bits(graph.leaf_border(core))}
    chosen = sorted(ports, key=lambda slot: (-ports[slot], slot))[:leaf_count]
    return Layout(core, mask_of(chosen))


Weights = tuple[float, float, float]


def _indicators(graph: Graph, layout: Layout) -> tuple[FloatArray, FloatArray]:
    kind = _kinds(graph, layout)[None]
    return (kind == _CORE).astype(np.float64), (kind == _LEAF).astype(np.float64)


def _kinds(graph: Graph, layout: Layout) -> NDArray[np.int64]:
    """What each slot holds."""
    kind = np.zeros(graph.size, dtype=np.int64)
    kind[list(bits(layout.core))] = _CORE
    kind[list(bits(layout.leaves))] = _LEAF
    return kind


def _cost(graph: Graph, core: FloatArray, leaves: FloatArray, weights: Weights) -> FloatArray:
    """Cost of layouts given as indicators of shape (layouts, slots)."""
    core_count, leaf_count = max(core[0].sum(), 1.0), max(leaves[0].sum(), 1.0)
    to_core = core @ graph.distances
    ports = core @ graph.adjacent
    compact = (to_core * core).sum(-1) / core_count**2
    near = (to_core * leaves).sum(-1) / (core_count * leaf_count)
    few_ports = (leaves / np.maximum(ports, 0.5)).sum(-1) / leaf_count
    cost: FloatArray = weights[0] * compact + weights[1] * near + weights[2] * few_ports
    return cost


def _descend(graph: Graph, layout: Layout, weights: Weights) -> Layout:
    """Swap slots of different kind, always the best legal swap, until none lowers the cost."""
    cost = _cost(graph, *_indicators(graph, layout), weights)[0]
    for _ in range(4 * graph.size):
        pairs = swaps(graph, layout)
        if not len(pairs):
            return layout
        costs = _cost(graph, *_swapped(graph, layout, pairs), weights)
        better = np.flatnonzero(costs < cost - 1e-9)
        for index in better[np.argsort(costs[better], kind="stable")].tolist():
            moved = exchange(layout, *pairs[index].tolist())
            if graph.legal(moved):
                layout, cost = moved, costs[index]
                break
        else:
            return layout
    return layout


def exchange(layout: Layout, a: int, b: int) -> Layout:
    """Exchange what two slots of different kind hold."""
    both = 1 << a | 1 << b
    core, leaves = (mask ^ both if (mask & both).bit_count() == 1 else mask for mask in (layout.core, layout.leaves))
    return Layout(core, leaves)


def swaps(graph: Graph, layout: Layout) -> NDArray[np.int64]:
    """Every pair of slots of different kind, shape (pairs, 2)."""
    kind, (first, second) = _kinds(graph, layout), graph.pairs
    return graph.pairs[:, kind[first] != kind[second]].T


def _swapped(graph: Graph, layout: Layout, pairs: NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """Indicators of the layouts after each swap, shape (pairs, slots)."""
    rows, (first, second) = np.arange(len(pairs)), pairs.T
    kind = _kinds(graph, layout)
    many = np.repeat(kind[None], len(pairs), axis=0)
    many[rows, first], many[rows, second] = kind[second], kind[first]
    return (many == _CORE).astype(np.float64), (many == _LEAF).astype(np.float64)


def mended(graph: Graph, layout: Layout) -> Layout | None:
    """Exchange slots while that removes defects; None where it gets stuck."""
    defects = graph.defects(layout)
    while defects:
        moves = [exchange(layout, a, b) for a, b in swaps(graph, layout).tolist()]
        counts = [graph.defects(move) for move in moves]
        best = int(np.argmin(counts)) if counts else -1
        if best < 0 or counts[best] >= defects:
            return None
        layout, defects = moves[best], counts[best]
    return layout
