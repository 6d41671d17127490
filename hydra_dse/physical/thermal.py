"""Temperatures of packages: superposition of slot powers, leakage and refresh that grow with heat, and throttling.

Heat flow is linear in power, so with silicon in every slot the temperatures of all die cells are a matrix product with
the powers of the slots (`Influence`, one sparse factorisation per topology and cooling).  Power itself depends on
temperature: leakage by `exp(per_k · (T − nominal))`, the refresh of DRAM doubles above `refresh_c`.  Iterated from
cold, both only rise, so that the iteration ends at the lowest fixed point, or shows that there is none (runaway).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Package, Topology
from hydra_dse.hardware.fabric import part_components, part_slots, parts_of
from hydra_dse.hardware.technology import Cooling, Technology
from hydra_dse.physical.cost import technology_of
from hydra_dse.physical.power import memory_static_w
from hydra_dse.physical.thermal_grid import DIES, Rectangle, ThermalGrid

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Beyond this nothing is computed: no fixed point is known that hot.
RUNAWAY_C = 400.0
TOLERANCE_K = 1e-3
STEPS = 200
BISECTIONS = 24


@dataclass(frozen=True, eq=False)
class Influence:
    """Temperature rises per watt of each slot.

    Attributes:
        cells: of every cell of every slot, slots in turn, K/W, shape (cells, slots).
        starts: first cell of each slot.
        mean: mean over the cells of each slot, shape (slots, slots).
    """

    cells: FloatArray
    starts: IntArray
    mean: FloatArray

    def peaks(self, power_w: FloatArray) -> FloatArray:
        """Highest rise in each slot, for powers of shape (n, slots)."""
        return np.maximum.reduceat(power_w @ self.cells.T, self.starts, axis=1)


@dataclass(frozen=True, eq=False)
class SlotPower:
    """Power of `n` packages of one topology by slot, each of shape (n, slots).

    Attributes:
        dynamic_w: of what is done.
        steady_w: that neither work nor heat changes (clock, background of DRAM without refresh).
        leakage_w: at the nominal temperature.
        refresh_w: of DRAM that is not hot.
        is_memory: where a stack stands; what leads from its hottest layer to its top is in `stack_k_per_w`.
    """

    dynamic_w: FloatArray
    steady_w: FloatArray
    leakage_w: FloatArray
    refresh_w: FloatArray
    is_memory: BoolArray
    stack_k_per_w: FloatArray

    def rows(self, chosen: IntArray | BoolArray) -> SlotPower:
        """Some of the packages."""
        return SlotPower(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True, eq=False)
class Heat:
    """Temperatures and power of `n` packages, each of shape (n,) unless said otherwise; NaN where leakage runs away.

    Attributes:
        die_c, dram_c: hottest die and hottest stack; NaN where there is none.
        power_w: all of it, at these temperatures.
        leakage_w: of dies, at these temperatures.
        hot_refresh: whether DRAM refreshes twice as often.
        slots_c: hottest place of each slot, shape (n, slots); None where it was not kept.
    """

    die_c: FloatArray
    dram_c: FloatArray
    power_w: FloatArray
    leakage_w: FloatArray
    hot_refresh: BoolArray
    slots_c: FloatArray | None = None

    @property
    def peak_c(self) -> FloatArray:
        """The hottest place of each package."""
        return np.fmax(self.die_c, self.dram_c)


def modelled(package: Package) -> bool:
    """Whether a package is cooled by its technology; a product comes with a cooler of its own."""
    return any(not group.chiplet.memory_bytes for group in package.dies)


_KNOWN: dict[tuple[int, int], tuple[Topology, Cooling, Influence]] = {}
_KEPT = 64


def influence_of(topology: Topology, cooling: Cooling) -> Influence:
    """Return the influence of each slot of a topology, all of them filled with silicon."""
    key = (id(topology), id(cooling))
    known = _KNOWN.get(key)
    if known is not None and known[0] is topology and known[1] is cooling:
        return known[2]
    if topology.islands:
        found = _side_by_side(topology, [influence_of(island, cooling) for island in topology.islands])
    else:
        found = influence_on(ThermalGrid(topology, cooling))
    if len(_KNOWN) >= _KEPT:
        _KNOWN.clear()
    _KNOWN[key] = (topology, cooling, found)
    return found


def influence_on(grid: ThermalGrid, sources: Sequence[Rectangle] | None = None) -> Influence:
    """Return the influence of each slot on a grid, its power spread evenly over its source (default: all of it)."""
    rectangles = [Rectangle.of(slot) for slot in grid.topology.slots] if sources is None else sources
    covers = np.stack([grid.cover(source) for source in rectangles], axis=-1)
    rise = grid.rise(covers / covers.sum(axis=(0, 1)))[DIES].reshape(-1, covers.shape[2])
    shares = covers.reshape(-1, covers.shape[2])
    chosen = [np.flatnonzero(share >= min(0.5, share.max())) for share in shares.T]
    means = [shares[:, slot] / shares[:, slot].sum() for slot in range(shares.shape[1])]
    known = np.nan_to_num(rise)
    return Influence(
        cells=rise[np.concatenate(chosen)],
        starts=np.cumsum([0, *(len(cells) for cells in chosen[:-1])]),
        mean=np.stack([weights @ known for weights in means]),
    )


def _side_by_side(topology: Topology, islands: Sequence[Influence]) -> Influence:
    """The influence in packages with a sink each: nothing reaches from one to another, nor the ports of a fabric."""
    size, rows = len(topology.slots), sum(len(island.cells) for island in islands)
    inside = sum(len(island.mean) for island in islands)
    cells, mean = np.zeros((rows + size - inside, size)), np.zeros((size, size))
    starts: list[int] = []
    row = slot = 0
    for island in islands:
        mine = slice(slot, slot + len(island.mean))
        cells[row : row + len(island.cells), mine], mean[mine, mine] = island.cells, island.mean
        starts += (island.starts + row).tolist()
        row, slot = row + len(island.cells), mine.stop
    starts += range(row, len(cells))
    return Influence(cells, np.array(starts, dtype=np.int64), mean)


def settle(power: SlotPower, influence: Influence, technology: Technology) -> Heat:
    """Return the lowest fixed point of temperature and power."""
    cooling, leakage = technology.cooling, technology.leakage
    count = len(power.dynamic_w)
    mean_c = np.full(power.dynamic_w.shape, cooling.ambient_c)
    doubled = np.zeros(power.dynamic_w.shape, dtype=bool)
    going = np.ones(count, dtype=bool)
    total = leaking = np.zeros_like(mean_c)
    for _ in range(STEPS):
        leaking = power.leakage_w * np.exp(leakage.per_k * (np.minimum(mean_c, RUNAWAY_C) - leakage.nominal_c))
        total = power.dynamic_w + power.steady_w + leaking + power.refresh_w * (1.0 + doubled)
        after = cooling.ambient_c + total @ influence.mean.T
        doubled |= power.is_memory & (after + total * power.stack_k_per_w > cooling.refresh_c)
        changed = np.abs(after - mean_c).max(axis=1, initial=0.0)
        mean_c = after
        going = (changed > TOLERANCE_K) & (mean_c.max(axis=1, initial=0.0) < RUNAWAY_C)
        if not going.any():
            break
    lost = going | (mean_c.max(axis=1, initial=0.0) >= RUNAWAY_C)
    places = cooling.ambient_c + influence.peaks(total) + np.where(power.is_memory, total * power.stack_k_per_w, 0.0)

    def known(values: FloatArray) -> FloatArray:
        return np.where(lost, np.nan, values)

    return Heat(
        die_c=known(_hottest(places, ~power.is_memory & (power.leakage_w + power.steady_w + power.dynamic_w > 0))),
        dram_c=known(_hottest(places, power.is_memory)),
        power_w=known(total.sum(axis=1)),
        leakage_w=known(leaking.sum(axis=1)),
        hot_refresh=np.asarray(doubled.any(axis=1)),
        slots_c=np.where(lost[:, None], np.nan, places),
    )


def _hottest(places: FloatArray, where: BoolArray) -> FloatArray:
    found = np.where(where, places, -np.inf).max(axis=1, initial=-np.inf)
    return np.where(np.isfinite(found), found, np.nan)


def within(heat: Heat, technology: Technology, power_limit_w: FloatArray) -> BoolArray:
    """Whether each package is inside its temperatures and its power; infinite = no limit."""
    cooling = technology.cooling
    settled = np.isfinite(heat.power_w)
    die = ~(heat.die_c > cooling.die_limit_c)
    dram = ~(heat.dram_c > cooling.dram_limit_c)
    return np.asarray(settled & die & dram & ~(heat.power_w > power_limit_w))


def sustained_share(
    power: SlotPower, influence: Influence, technology: Technology, power_limit_w: FloatArray
) -> FloatArray:
    """Return the share of the dynamic power, at most 1, that stays within all limits, shape (n,).

    0 where a package exceeds a limit even when it does nothing.
    """
    share = np.ones(len(power.dynamic_w))
    low = np.zeros_like(share)
    left = np.flatnonzero(~within(settle(power, influence, technology), technology, power_limit_w))
    if not len(left):
        return share
    mine, limit = power.rows(left), power_limit_w[left]
    bottom, top = low[left], share[left]
    for _ in range(BISECTIONS):
        middle = (bottom + top) / 2.0
        slowed = replace(mine, dynamic_w=mine.dynamic_w * middle[:, None])
        holds = within(settle(slowed, influence, technology), technology, limit)
        bottom, top = np.where(holds, middle, bottom), np.where(holds, top, middle)
    share[left] = bottom
    return share


def slot_power(package: Package, slots: tuple[int, ...], dynamic_w: FloatArray) -> SlotPower:
    """Return the power of one placed package by slot, shape (1, slots).

    Args:
        package: for its static power.
        slots: of its components.
        dynamic_w: of each component.
    """
    technology, size = technology_of(package), len(package.topology.slots)
    static, leaking, refresh = np.zeros(size), np.zeros(size), np.zeros(size)
    moved, inner, memory = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool)
    at = np.array(slots, dtype=np.int64)
    np.add.at(moved, at, dynamic_w)
    number = 0
    for group in package.dies:
        for slot in slots[number : number + group.count]:
            leaking[slot] = group.chiplet.static_power_w * technology.leakage.share
            static[slot] = group.chiplet.static_power_w - leaking[slot]
        number += group.count
    for stacks in package.memories:
        for slot in slots[number : number + stacks.count]:
            refresh[slot] = stacks.stack.static_power_w * technology.cooling.refresh_share
            static[slot] = memory_static_w(package, stacks) - refresh[slot]
            memory[slot] = True
            inner[slot] = technology.cooling.stack_mm2_k_per_w / stacks.stack.footprint_mm2
        number += stacks.count
    return SlotPower(
        dynamic_w=moved[None],
        steady_w=static[None],
        leakage_w=leaking[None],
        refresh_w=refresh[None],
        is_memory=memory[None],
        stack_k_per_w=inner[None],
    )


def solve_package(package: Package, slots: tuple[int, ...], dynamic_w: FloatArray) -> Heat:
    """Return the temperatures of one package by the full solution: silicon only where its components are."""
    technology = technology_of(package)
    found = []
    for part, own, mine in zip(parts_of(package), part_slots(package), part_components(package), strict=True):
        dies = _dies(part, tuple(slots[component] - own.start for component in mine))
        sources = [dies.get(number, Rectangle.of(slot)) for number, slot in enumerate(part.topology.slots)]
        found.append(influence_on(ThermalGrid(part.topology, technology.cooling, list(dies.values())), sources))
    influence = _side_by_side(package.topology, found) if package.parts else found[0]
    return settle(slot_power(package, slots, dynamic_w), influence, technology)


def _dies(package: Package, slots: tuple[int, ...]) -> dict[int, Rectangle]:
    """Silicon by slot."""
    areas = zip(slots, package.footprints_mm2, strict=True)
    return {slot: Rectangle.of(package.topology.slots[slot], area) for slot, area in areas}
