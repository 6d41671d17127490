"""Bytes on directed links, counted by walking the path of every pair of components."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InvariantBroken
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import link_runs, parts_of
from hydra_dse.routing import RouteTable, route

FloatArray = NDArray[np.float64]


class PlacedLinks:
    """The directed links of a placed package and the paths between its components.

    Args:
        package: the hardware; of several packages the links of each and those of the fabric.
        slots: slot of each component (dies first, then stacks).

    Attributes:
        capacity_bytes_per_s: payload of each link, shape (links,).
    """

    def __init__(self, package: Package, slots: Sequence[int]) -> None:
        self.slots = tuple(slots)
        self.routes: RouteTable = route(package.topology, _transit(package, self.slots))
        self.count = len(self.routes.links)
        runs = [(link, bandwidth) for link, bandwidth, count in link_runs(package) for _ in range(count)]
        self.capacity_bytes_per_s = np.array([bandwidth * link.efficiency for link, bandwidth in runs])
        self._joules = np.array([link.joules_per_byte for link, _ in runs])
        self._latency_s = [link.latency_s for link, _ in runs]
        self._alike = package.link if not package.parts else None
        parts = parts_of(package)
        self.noi_bytes_per_s = tuple(part.link_bandwidth_bytes_per_s * part.link.efficiency for part in parts)
        self._paths: dict[tuple[int, int], tuple[int, ...]] = {}

    def path(self, source: int, target: int) -> tuple[int, ...]:
        """Links from one component to another, in order."""
        pair = (source, target)
        if pair not in self._paths:
            self._paths[pair] = self._checked(source, target)
        return self._paths[pair]

    def _checked(self, source: int, target: int) -> tuple[int, ...]:
        """The path of the route table; what leaves a slot on it must have come there."""
        at, links = self.slots[source], self.routes.path(self.slots[source], self.slots[target])
        for link in links:
            start, end = self.routes.links[link]
            if start != at:
                raise InvariantBroken(f"the path from component {source} to {target} jumps from slot {at} to {start}")
            at = end
        if at != self.slots[target]:
            raise InvariantBroken(f"the path from component {source} to {target} ends in slot {at}")
        return links

    def count_bytes(self, sources: Sequence[int], targets: Sequence[int], share: FloatArray) -> FloatArray:
        """Bytes on each link, shape (links,), when `share[i, j]` bytes flow from source `i` to target `j`."""
        bytes_on = np.zeros(self.count)
        for row, column in zip(*(axis.tolist() for axis in np.nonzero(share)), strict=True):
            if sources[row] != targets[column]:
                bytes_on[list(self.path(sources[row], targets[column]))] += share[row, column]
        return bytes_on

    def joules(self, link_bytes: FloatArray) -> float:
        """Energy of bytes on each link."""
        if self._alike is not None:
            return float(link_bytes.sum()) * self._alike.joules_per_byte
        return float(link_bytes @ self._joules)

    def each_joules(self, link_bytes: FloatArray) -> FloatArray:
        """Energy of bytes on each link, by link."""
        return np.asarray(link_bytes * self._joules)

    def longest_path(self, sources: Sequence[int], targets: Sequence[int], share: FloatArray) -> float:
        """Longest path on which anything flows, in units of `delay_s`."""
        pairs = zip(*(axis.tolist() for axis in np.nonzero(share)), strict=True)
        return max((self.length(self.path(sources[row], targets[column])) for row, column in pairs), default=0)

    def length(self, path: Sequence[int]) -> float:
        """Length of a path in units of `delay_s`."""
        return len(path) if self._alike is not None else sum(self._latency_s[link] for link in path)

    @property
    def delay_s(self) -> float:
        """Unit of the lengths of paths: a hop, or a second where links differ."""
        return 1.0 if self._alike is None else self._alike.latency_s

    def degree(self, component: int) -> int:
        """Links that end at a component's slot."""
        return sum(target == self.slots[component] for _, target in self.routes.links)


def _transit(package: Package, slots: tuple[int, ...]) -> tuple[bool, ...]:
    """Slots that pass traffic on: those of dies, and of stacks with a routing base die; empty slots pass nothing."""
    transit = [False] * len(package.topology.slots)
    for component, slot in enumerate(slots):
        transit[slot] = component < package.die_count or not package.memory_is_leaf
    return tuple(transit)
