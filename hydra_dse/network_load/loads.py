"""Bytes on the links of a placed package, and what they cost, in closed form.

Traffic is a matrix over components (dies first, then stacks); a route table turns it into bytes per directed link.
Time follows from the effective capacity of a link, bandwidth × payload share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hydra_dse.design.nouns import Placement
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.components import Package
from hydra_dse.hardware.fabric import link_runs
from hydra_dse.routing import RouteTable, route

FloatArray = NDArray[np.float64]

UTILISATION_CAP = 0.98  # an M/D/1 wait grows without bound at 1; beyond the cap a caller must look at saturation


def link_capacity(package: Package) -> float:
    """Payload bytes per second of one directed link: bandwidth × share left by headers, CRC, retry, requests.

    Raises:
        InputError: several packages, whose links differ (`LinkLoad.capacity` has that of each).
    """
    if package.parts:
        raise InputError(
            Fault(f"the links of the {len(package.parts)} packages of {package.name!r} have no one capacity")
        )
    return package.link_bandwidth_bytes_per_s * package.link.efficiency


def transit_slots(package: Package, slots: tuple[int, ...]) -> tuple[bool, ...]:
    """Return which slots pass traffic on: those of dies, and those of stacks that have a routing base die.

    An empty slot of a passive interposer passes nothing.
    """
    transit = [False] * len(package.topology.slots)
    for component, slot in enumerate(slots):
        transit[slot] = component < package.die_count or not package.memory_is_leaf
    return tuple(transit)


@dataclass(frozen=True)
class LinkLoad:
    """Link loads of one placed package.

    Raises:
        InputError: the placement does not give every component a slot of its own.
    """

    package: Package
    placement: Placement

    def __post_init__(self) -> None:
        slots = self.placement.slots
        expected = self.package.die_count + self.package.stack_count
        places = len(self.package.topology.slots)
        if len(slots) != expected:
            raise InputError(Fault(f"the placement has {len(slots)} slots for {expected} components"))
        if len(set(slots)) != len(slots) or any(not 0 <= slot < places for slot in slots):
            raise InputError(Fault(f"a placement needs distinct slots from 0 to {places - 1}, got {slots}"))

    @cached_property
    def routes(self) -> RouteTable:
        """Routes of the package with its memory tiles where the placement puts them."""
        return route(self.package.topology, transit_slots(self.package, self.placement.slots))

    @cached_property
    def slot_of(self) -> NDArray[np.int64]:
        """Slot of each component."""
        return np.array(self.placement.slots, dtype=np.int64)

    @cached_property
    def capacity(self) -> FloatArray:
        """Payload bytes per second of each directed link, shape (links,)."""
        return _of_links([(bandwidth * link.efficiency, count) for link, bandwidth, count in link_runs(self.package)])

    @cached_property
    def delays(self) -> tuple[FloatArray, float]:
        """Latencies between components on idle links, shape (components, components), and their unit in seconds.

        Hops in hops of the one link class of a package; of several packages the sum over the links of the path.
        """
        slots = self.slot_of
        if not self.package.parts:
            return self.routes.hops[slots[:, None], slots], self.package.link.latency_s
        each = _of_links([(link.latency_s, count) for link, _, count in link_runs(self.package)])
        between = (each @ self.pair_incidence).reshape(len(slots), len(slots))
        return np.where(self.routes.reachable[slots[:, None], slots], between, np.inf), 1.0

    def joules(self, loads: FloatArray) -> FloatArray:
        """Energy of bytes on each link, shape (..., links), summed over links."""
        if not self.package.parts:
            return np.asarray(loads.sum(axis=-1) * self.package.link.joules_per_byte)
        each = [(link.joules_per_byte, count) for link, _, count in link_runs(self.package)]
        return np.asarray(loads @ _of_links(each))

    @cached_property
    def pair_incidence(self) -> FloatArray:
        """Shape (links, components²): 1 where the path between two components takes the link."""
        slots, size = self.slot_of, len(self.package.topology.slots)
        pairs = (slots[:, None] * size + slots).ravel()
        return self.routes.incidence[:, pairs]

    def loads(self, traffic: ArrayLike) -> FloatArray:
        """Return the bytes on each directed link, shape (..., links), for traffic (..., components, components).

        Traffic between components without a route is not counted: `disconnected_bytes` tells how much it is.
        """
        matrix = np.asarray(traffic, dtype=np.float64)
        flat = matrix.reshape(*matrix.shape[:-2], -1)
        loads: FloatArray = flat @ self.pair_incidence.T
        return loads

    def disconnected_bytes(self, traffic: ArrayLike) -> FloatArray:
        """Bytes between components that no route joins, shape (...)."""
        slots = self.slot_of
        apart = ~self.routes.reachable[np.ix_(slots, slots)]
        total: FloatArray = (np.asarray(traffic, dtype=np.float64) * apart).sum(axis=(-2, -1))
        return total

    def utilisation(self, traffic_per_s: ArrayLike) -> FloatArray:
        """Busy share of each link for traffic in bytes per second; above 1 where it saturates."""
        return self.loads(traffic_per_s) / self.capacity

    def saturation_factor(self, traffic_per_s: ArrayLike) -> FloatArray:
        """Largest factor by which the traffic may grow before its worst link is full; infinite without traffic."""
        worst = self.utilisation(traffic_per_s).max(axis=-1, initial=0.0)
        with np.errstate(divide="ignore"):
            factor: FloatArray = 1.0 / worst
        return factor

    def latency_s(self, source: int, target: int, message_bytes: float) -> float:
        """Time of one message between two components on idle links: hops × hop latency + serialisation.

        Of a single package; see `delays` and `capacity` for several.
        """
        hops = float(self.routes.hops[self.slot_of[source], self.slot_of[target]])
        return flow_latency_s(self.package, hops, message_bytes)


def _of_links(runs: Sequence[tuple[float, int]]) -> FloatArray:
    return np.repeat([value for value, _ in runs], [count for _, count in runs]).astype(np.float64)


def flow_latency_s(package: Package, hops: float, message_bytes: float) -> float:
    """Cut-through latency on idle links: `hops · hop latency + message / capacity` (nothing for zero hops)."""
    if hops == 0:
        return 0.0
    return hops * package.link.latency_s + message_bytes / link_capacity(package)


def link_wait_s(utilisation: ArrayLike, message_bytes: ArrayLike, capacity_bytes_per_s: float) -> FloatArray:
    """Mean wait at a link, M/D/1 with one message size: `S·u / (2(1 - u))`, `S` the time of a message.

    Utilisation is capped at `UTILISATION_CAP`, so that the wait stays finite.
    Source: Pollaczek-Khinchine with zero variance of service.
    """
    load = np.minimum(np.asarray(utilisation, dtype=np.float64), UTILISATION_CAP)
    service = np.asarray(message_bytes, dtype=np.float64) / capacity_bytes_per_s
    wait: FloatArray = service * load / (2.0 * (1.0 - load))
    return wait
