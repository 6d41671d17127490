"""Which slots may route and which may only end a route: sets of slots as bit masks.

A *core* component passes traffic on (a die, or a stack with a routing base die); a *leaf* does not (a stack without
one).  A layout is legal when the core slots are connected among themselves and every leaf slot borders a core slot:
the core is a connected set that dominates the leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Topology
from hydra_dse.routing import adjacency, hop_distances


def bits(mask: int) -> Iterator[int]:
    """Yield the slots of a mask in ascending order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_of(slots: Iterator[int] | tuple[int, ...] | list[int]) -> int:
    """Return the mask of some slots."""
    mask = 0
    for slot in slots:
        mask |= 1 << slot
    return mask


@dataclass(frozen=True)
class Layout:
    """Which slots hold routing components and which hold leaves; the others stay empty."""

    core: int
    leaves: int


@dataclass(frozen=True)
class Graph:
    """Neighbours of a topology as bit masks, and its distances when every slot routes.

    Attributes:
        core_slots, leaf_slots: slots that are large enough for some core (leaf) component.
    """

    topology: Topology
    core_slots: int
    leaf_slots: int

    @property
    def size(self) -> int:
        """Number of slots."""
        return len(self.topology.slots)

    @cached_property
    def neighbours(self) -> tuple[int, ...]:
        """Mask of the neighbours of each slot."""
        masks = [0] * self.size
        for a, b in self.topology.edges:
            masks[a] |= 1 << b
            masks[b] |= 1 << a
        return tuple(masks)

    @cached_property
    def distances(self) -> NDArray[np.float64]:
        """Hops between slots on the full topology; a pair without a path counts as `size` hops."""
        hops = hop_distances(adjacency(self.topology), np.ones(self.size, dtype=bool))
        return np.where(np.isinf(hops), float(self.size), hops)

    @cached_property
    def adjacent(self) -> NDArray[np.float64]:
        """Shape (slots, slots): 1 between neighbours."""
        return adjacency(self.topology).astype(np.float64)

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Every pair of slots `a < b`, shape (2, pairs)."""
        return np.array(np.triu_indices(self.size, k=1), dtype=np.int64)

    def border(self, mask: int) -> int:
        """Return the slots next to the mask, outside of it."""
        around, rest, neighbours = 0, mask, self.neighbours
        while rest:
            low = rest & -rest
            around |= neighbours[low.bit_length() - 1]
            rest ^= low
        return around & ~mask

    def leaf_border(self, core: int) -> int:
        """Return the slots where a leaf can join the core."""
        return self.border(core) & self.leaf_slots

    def part_of(self, mask: int, start: int) -> int:
        """Return the connected part of `mask` that holds slot `start`."""
        part, front, neighbours = 1 << start, 1 << start, self.neighbours
        while front:
            low = front & -front
            new = neighbours[low.bit_length() - 1] & mask & ~part
            part |= new
            front ^= low | new
        return part

    def parts(self, mask: int) -> int:
        """Return how many connected parts the mask has."""
        count = 0
        while mask:
            mask &= ~self.part_of(mask, (mask & -mask).bit_length() - 1)
            count += 1
        return count

    def legal(self, layout: Layout) -> bool:
        """Whether the core is connected and borders every leaf, each on a slot that takes it."""
        if layout.core & ~self.core_slots or layout.leaves & ~self.leaf_border(layout.core):
            return False
        return self.parts(layout.core) <= 1

    def defects(self, layout: Layout) -> int:
        """Return 0 for a legal layout, else a number that falls with the parts of the core and the lonely leaves."""
        misplaced = (layout.core & ~self.core_slots).bit_count()
        lonely = (layout.leaves & ~self.leaf_border(layout.core)).bit_count()
        return max(self.parts(layout.core) - 1, 0) * self.size + lonely + misplaced


@lru_cache(maxsize=64)
def graph_of(topology: Topology, core_slots: int | None = None, leaf_slots: int | None = None) -> Graph:
    """Return the graph of a topology (cached); by default every slot takes every component."""
    full = (1 << len(topology.slots)) - 1
    return Graph(topology, full if core_slots is None else core_slots, full if leaf_slots is None else leaf_slots)


SEARCH_NODES = 400_000  # bound on the exact search: about a second


@lru_cache(maxsize=256)
def most_leaves(graph: Graph, core_count: int, wanted: int) -> tuple[int, int, bool]:
    """Return how many leaf slots `core_count` connected slots can border, counted up to `wanted`.

    Returns:
        `(count, core, exact)`: the count, the mask of a core that reaches it (0 where no such core was found), and
        whether more is proven impossible or not wanted.  Exact by enumeration of connected sets with pruning;
        `exact` is False where the search was cut off.
    """
    counts: dict[int, int] = {}
    for root in bits(graph.core_slots):
        core = grow(graph, root, core_count)
        if core.bit_count() == core_count:
            counts.setdefault(core, graph.leaf_border(core).bit_count())
    grown = max(counts, key=counts.__getitem__, default=0)
    reached = counts.get(grown, -1)
    if reached >= wanted:
        return wanted, grown, True
    nodes = SEARCH_NODES
    for target in range(wanted, reached, -1):
        found, nodes = _connected_set(graph, core_count, target, nodes)
        if found:
            return target, found, True
        if nodes <= 0:
            break
    return max(reached, 0), grown, nodes > 0


def _connected_set(graph: Graph, size: int, leaves: int, nodes: int) -> tuple[int, int]:
    """Find a connected set of `size` slots that borders `leaves` leaf slots; 0 if there is none.

    Enumerates every connected set once (ESU, Wernicke 2006) within a budget of `nodes`; returns what is left of it.
    A new slot lies in the border already and touches the set, so it adds at most `degree - 1` slots to set and
    border together (one more where it could not hold a leaf): branches that cannot reach the goal are cut.
    """
    inside = [mask & graph.core_slots for mask in graph.neighbours]
    outside = [mask & graph.leaf_slots for mask in graph.neighbours]
    gain = max((mask.bit_count() for mask in graph.neighbours), default=1) - 1
    gain += bool(graph.core_slots & ~graph.leaf_slots)
    stack = []
    for root in bits(graph.core_slots):
        higher = -1 << (root + 1)
        stack.append((1 << root, inside[root] & higher, inside[root], outside[root], higher))
    while stack and nodes > 0:
        chosen, extension, seen, near, higher = stack.pop()
        nodes -= 1
        missing = size - chosen.bit_count()
        if (near | chosen).bit_count() + gain * missing < size + leaves:
            continue
        if missing == 0:
            return chosen, nodes
        while extension:
            slot = extension & -extension
            extension ^= slot
            index = slot.bit_length() - 1
            fresh = inside[index] & ~seen & ~chosen & higher
            stack.append((chosen | slot, extension | fresh, seen | inside[index], near | outside[index], higher))
    return 0, nodes


def grow(graph: Graph, root: int, size: int) -> int:
    """Grow a connected set from `root`: always the border slot that covers most new slots, then the nearest one.

    Smaller than `size` where the slots run out.
    """
    core = 1 << root
    covered = core | graph.neighbours[root]
    for _ in range(size - 1):
        options = graph.border(core) & graph.core_slots
        if not options:
            break
        gains = [
            ((graph.neighbours[slot] & graph.leaf_slots & ~covered).bit_count(), -graph.distances[root, slot], -slot)
            for slot in bits(options)
        ]
        slot = -max(gains)[2]
        core |= 1 << slot
        covered |= graph.neighbours[slot]
    return core
