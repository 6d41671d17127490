"""The exact optimum of small placements by enumeration, from the routes alone.

Nothing of `hydra_dse.placement` is used: a placement is legal where its routing slots hang together and every leaf
borders one of them, and costs the mean load of the links plus the worst load, both counted path by path.  Components
that can be exchanged without a change of traffic are counted once, which leaves a few thousand arrangements for a
package of nine tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Package
from hydra_dse.routing import adjacency, route

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_CHUNK = 4096
_SAME = 1e-9
_ROOM = 1.0 + 1e-9


@dataclass(frozen=True)
class Optimum:
    """The best placement of a package.

    Attributes:
        objective_bytes: mean + worst load of the links; infinite where no placement is legal.
        slots: of the components.
        arrangements: placements looked at.
    """

    objective_bytes: float
    slots: tuple[int, ...]
    arrangements: int


def optimum(package: Package, traffic: FloatArray) -> Optimum:
    """Return the least objective over all legal placements.

    Args:
        package: of at most about nine components.
        traffic: bytes from component to component, shape (components, components), or apart for parts of the work that
            take turns, shape (parts, components, components).
    """
    dies, count = package.die_count, package.die_count + package.stack_count
    core = dies if package.memory_is_leaf else count
    traffic = traffic.reshape(-1, count, count)
    labels = classes(traffic, package.footprints_mm2, core)
    best = Optimum(np.inf, (), 0)
    looked = 0
    orders = arrangements(labels, core)
    for routing, leaves in layouts(package, core, count - core):
        arranged = np.array([*routing, *leaves], dtype=np.int64)[orders]
        arranged = arranged[_fit(package, arranged)]
        looked += len(arranged)
        if len(arranged):
            costs = objectives(package, traffic, routing, arranged)
            place = int(costs.argmin())
            if costs[place] < best.objective_bytes:
                best = Optimum(float(costs[place]), tuple(arranged[place].tolist()), 0)
    return Optimum(best.objective_bytes, best.slots, looked)


def classes(traffic: FloatArray, footprints: Sequence[float], core: int) -> list[int]:
    """Number of the class of each component: those of a class can be exchanged without a change."""
    found: list[int] = []
    numbers: list[int] = []
    scale = _SAME * max(float(traffic.max()), 1e-300)
    for component in range(traffic.shape[-1]):
        same = (
            other
            for other in found
            if (other < core) == (component < core)
            and footprints[other] == footprints[component]
            and _exchangeable(traffic, other, component, scale)
        )
        first = next(same, None)
        if first is None:
            found.append(component)
        numbers.append(component if first is None else first)
    return numbers


def _exchangeable(traffic: FloatArray, a: int, b: int, tolerance: float) -> bool:
    order = np.arange(traffic.shape[-1])
    order[[a, b]] = b, a
    off = ~np.eye(len(order), dtype=bool)
    return bool(np.abs((traffic[..., order[:, None], order] - traffic)[..., off]).max(initial=0.0) <= tolerance)


def layouts(package: Package, core: int, leaves: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All choices of slots that route and of slots that only end routes."""
    near = adjacency(package.topology)
    slots = range(len(near))
    for routing in combinations(slots, core):
        if not _connected(near, routing):
            continue
        border = [slot for slot in slots if slot not in routing and near[slot, list(routing)].any()]
        for ends in combinations(border, leaves):
            yield routing, ends


def _connected(near: NDArray[np.bool_], slots: Sequence[int]) -> bool:
    inside = near[np.ix_(slots, slots)]
    seen = np.zeros(len(slots), dtype=bool)
    seen[:1] = True
    for _ in slots:
        seen |= inside[seen].any(axis=0)
    return bool(seen.all())


def arrangements(labels: Sequence[int], core: int) -> IntArray:
    """Which place of a layout each component takes, shape (arrangements, components), routing places first.

    Components of one class keep their order.
    """
    count = len(labels)
    first = list(_fillings(labels[:core], range(core)))
    second = list(_fillings(labels[core:], range(core, count)))
    return np.array([[*a, *b] for a in first for b in second], dtype=np.int64).reshape(-1, count)


def _fillings(labels: Sequence[int], slots: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Ways to give slots to components, class by class."""
    if not labels:
        yield ()
        return
    mine = [place for place, label in enumerate(labels) if label == labels[0]]
    others = [place for place in range(len(labels)) if place not in mine]
    for chosen in combinations(slots, len(mine)):
        rest = [slot for slot in slots if slot not in chosen]
        for filled in _fillings([labels[place] for place in others], rest):
            taken = dict(zip(mine, chosen, strict=True)) | dict(zip(others, filled, strict=True))
            yield tuple(taken[place] for place in range(len(labels)))


def _fit(package: Package, arranged: IntArray) -> NDArray[np.bool_]:
    """Which arrangements give every component a slot that is large enough; grids have one size."""
    if package.topology.kind != "floorplan":
        return np.ones(len(arranged), dtype=bool)
    room = np.array([slot.width_mm * slot.height_mm for slot in package.topology.slots])
    fits: NDArray[np.bool_] = (np.array(package.footprints_mm2) <= room[arranged] * _ROOM).all(axis=1)
    return fits


def objectives(package: Package, traffic: FloatArray, routing: Sequence[int], arranged: IntArray) -> FloatArray:
    """Mean load of the links plus the worst of every part for each arrangement of one layout."""
    size = len(package.topology.slots)
    table = route(package.topology, tuple(slot in routing for slot in range(size)))
    takes = np.ascontiguousarray(table.incidence.T)
    costs = np.empty(len(arranged))
    for start in range(0, len(arranged), _CHUNK):
        rows = arranged[start : start + _CHUNK]
        total = np.zeros(len(rows))
        for part in traffic:
            loads = np.zeros((len(rows), takes.shape[1]))
            for i, j in [(i, j) for i, j in zip(*np.nonzero(part), strict=True) if i != j]:
                loads += part[i, j] * takes[rows[:, i] * size + rows[:, j]]
            total += loads.mean(axis=1) + loads.max(axis=1)
        costs[start : start + _CHUNK] = total
    return costs
