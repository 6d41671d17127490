"""Routes over several packages: within a package its own, between packages by the ports of the fabric.

A port hangs on a die at the edge of its package: the first on the one with the fewest hops to all others, each further
one on the die farthest from those taken (ties to fewer hops, then the lower slot).  Where parallel links join two
packages, the slots of a package are dealt over them in slot order, those that pass traffic on and those that do not
apart, so that each link leads to as many of either as the next.  The next hop depends on where a flow is and where it
goes, so tables by destination suffice, as within a package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Topology
from hydra_dse.hardware.topology import Edge

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_TOUCH_MM = 1e-6


class IslandRoutes:
    """Routes of one package as a part of the whole.

    Attributes:
        start: its first slot in the whole.
        next_slot, hops: as in `RouteTable`, in slots of the package.
        gates: slot that each port hangs on, in slots of the package; empty where no slot passes traffic on.
    """

    def __init__(
        self,
        topology: Topology,
        transit: tuple[bool, ...],
        start: int,
        next_slot: IntArray,
        hops: FloatArray,
        ports: int,
    ) -> None:
        self.topology, self.transit, self.start = topology, transit, start
        self.next_slot, self.hops = next_slot, hops
        self.gates = gates(topology, transit, hops, ports)

    def dealt(self, ways: int) -> list[int]:
        """Which of `ways` parallel links leads to each slot."""
        # Leaves go on where the others end, so that the links are even in each kind and in all.
        dealt, count = [], {True: 0, False: sum(self.transit)}
        for passes in self.transit:
            dealt.append(count[passes] % ways)
            count[passes] += 1
        return dealt


def gates(topology: Topology, transit: tuple[bool, ...], hops: FloatArray, ports: int) -> list[int]:
    """Slots that ports hang on, see the module."""
    inside = [slot for slot, passes in enumerate(transit) if passes]
    edge = [slot for slot in at_edge(topology) if transit[slot]] or inside
    if not edge:
        return []
    away = np.where(np.isinf(hops), 2.0 * len(transit), hops)
    total = away[:, inside].sum(axis=1)
    chosen = [min(edge, key=lambda slot: (total[slot], slot))]
    while len(chosen) < ports:
        left = [slot for slot in edge if slot not in chosen] or edge
        chosen.append(min(left, key=lambda slot: (-float(away[slot, chosen].min()), total[slot], slot)))
    return chosen


def at_edge(topology: Topology) -> list[int]:
    """Slots with a side on the outline of the package."""
    slots = topology.slots
    left = min(slot.x_mm - slot.width_mm / 2 for slot in slots)
    right = max(slot.x_mm + slot.width_mm / 2 for slot in slots)
    low = min(slot.y_mm - slot.height_mm / 2 for slot in slots)
    high = max(slot.y_mm + slot.height_mm / 2 for slot in slots)
    return [
        number
        for number, slot in enumerate(slots)
        if min(
            slot.x_mm - slot.width_mm / 2 - left,
            right - slot.x_mm - slot.width_mm / 2,
            slot.y_mm - slot.height_mm / 2 - low,
            high - slot.y_mm - slot.height_mm / 2,
        )
        < _TOUCH_MM
    ]


def hung_links(topology: Topology, islands: Sequence[IslandRoutes]) -> Iterator[Edge]:
    """Undirected links `(slot, port)` between dies and the ports that hang on them."""
    for island, ports in zip(islands, topology.ports, strict=True):
        for gate, port in zip(island.gates, ports, strict=False):
            yield island.start + gate, port


def joined_tables(topology: Topology, islands: Sequence[IslandRoutes]) -> tuple[IntArray, FloatArray]:
    """Return next slots and hops over the whole, shape (slots, slots) each."""
    size = len(topology.slots)
    next_slot = np.full((size, size), -1, dtype=np.int64)
    hops = np.full((size, size), np.inf)
    everything = np.arange(size)
    next_slot[everything, everything], hops[everything, everything] = everything, 0.0
    for island in islands:
        mine = slice(island.start, island.start + len(island.transit))
        next_slot[mine, mine] = np.where(island.next_slot >= 0, island.next_slot + island.start, -1)
        hops[mine, mine] = island.hops
    switch = size - 1 if len(topology.slots) > topology.ports[-1][-1] + 1 else None
    for here, source in enumerate(islands):
        for there, target in enumerate(islands):
            if here != there and source.gates and target.gates:
                ways = len(topology.ports[here]) // (1 if switch is not None else len(islands) - 1)
                for number in range(ways):
                    ends = _ends(topology, here, there, ways, number, switch)
                    _lead(next_slot, hops, source, target, ends, (ways, number), switch)
    return next_slot, hops


def _ends(
    topology: Topology, here: int, there: int, ways: int, number: int, switch: int | None
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Index and slot of the port that a link leaves package `here` by, and of the one it enters `there` by."""
    if switch is not None:
        return (number, topology.ports[here][number]), (number, topology.ports[there][number])
    leaving = (there - (there > here)) * ways + number
    entering = (here - (here > there)) * ways + number
    return (leaving, topology.ports[here][leaving]), (entering, topology.ports[there][entering])


def _lead(
    next_slot: IntArray,
    hops: FloatArray,
    source: IslandRoutes,
    target: IslandRoutes,
    ends: tuple[tuple[int, int], tuple[int, int]],
    way: tuple[int, int],
    switch: int | None,
) -> None:
    """Fill in the routes from all slots of one package to those slots of another that one link leads to."""
    (out, leaving), (into, entering) = ends
    ways, number = way
    gate, entry = source.gates[out], target.gates[into]
    inner = [
        slot for slot, mine in enumerate(target.dealt(ways)) if mine == number and np.isfinite(target.hops[entry, slot])
    ]
    goals = np.array(inner, dtype=np.int64) + target.start
    if not len(goals):
        return
    beyond = target.hops[entry, inner]
    across = 1.0 if switch is None else 2.0
    # From the far port to the die it hangs on, and on to the goal.
    next_slot[entering, goals], hops[entering, goals] = target.start + entry, 1.0 + beyond
    if switch is None:
        next_slot[leaving, goals] = entering
    else:
        next_slot[leaving, goals], next_slot[switch, goals] = switch, entering
        hops[switch, goals] = 2.0 + beyond
    hops[leaving, goals] = across + 1.0 + beyond
    reaching = np.flatnonzero(np.isfinite(source.hops[:, gate]))
    rows = reaching + source.start
    onward = np.where(reaching == gate, leaving, source.next_slot[reaching, gate] + source.start)
    next_slot[np.ix_(rows, goals)] = onward[:, None]
    hops[np.ix_(rows, goals)] = source.hops[reaching, gate][:, None] + 1.0 + across + 1.0 + beyond
