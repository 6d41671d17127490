"""Temperatures of estimated designs, and the rates that their temperature and power limits sustain.

The dynamic energy of the solved iterations is split into dies, memory and links, put on the slots, and settled with
leakage and refresh by superposition (`hydra_dse.physical.thermal`).  Memory power falls on stacks by their bandwidth,
link power on slots by their links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.solution import Solution
from hydra_dse.hardware.components import Topology
from hydra_dse.hardware.technology import Technology
from hydra_dse.physical import technology_of
from hydra_dse.physical.thermal import (
    Heat,
    Influence,
    SlotPower,
    influence_of,
    modelled,
    settle,
    slot_power,
    sustained_share,
    within,
)
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.profile.slowed import SplitsEnergy
from hydra_dse.results.nouns import Violation

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

MEMORY, LINKS = "memory", "links"


@dataclass(frozen=True, eq=False)
class _Alike:
    """Designs of one topology and technology; `spread` maps powers by name (K) to slots, shape (n, K, slots)."""

    rows: IntArray
    technology: Technology
    influence: Influence
    idle: SlotPower
    names: tuple[str, ...]
    spread: FloatArray
    limit_w: FloatArray

    def heat(self, powers: Mapping[str, FloatArray]) -> Heat:
        """Settled temperatures, from the dynamic powers of all designs."""
        return settle(replace(self.idle, dynamic_w=self.dynamic_w(powers)), self.influence, self.technology)

    def dynamic_w(self, powers: Mapping[str, FloatArray]) -> FloatArray:
        """Dynamic power by slot, shape (rows, slots)."""
        none = np.zeros(len(self.rows))
        mine = np.stack([powers[name][self.rows] if name in powers else none for name in self.names], axis=1)
        return np.asarray(np.einsum("nk,nks->ns", np.nan_to_num(mine), self.spread))


class HeatModel:
    """Temperatures of placed designs, in their order; products that come with their memory have none."""

    def __init__(self, designs: Sequence[Design]) -> None:
        self.size = len(designs)
        groups: dict[tuple[int, int], list[int]] = {}
        for row, design in enumerate(designs):
            if design.placement is not None and modelled(design.package):
                package = design.package
                groups.setdefault((id(package.topology), id(technology_of(package))), []).append(row)
        self._alike = [_alike([designs[row] for row in rows], rows) for rows in groups.values()]

    def state(self, powers: Mapping[str, FloatArray]) -> tuple[Heat, BoolArray]:
        """Temperatures at dynamic powers by name, shape (n,) each, and whether they are within the limits."""
        nan = np.full(self.size, np.nan)
        found = Heat(nan, nan.copy(), nan.copy(), nan.copy(), np.zeros(self.size, dtype=bool))
        holds = np.ones(self.size, dtype=bool)
        for alike in self._alike:
            heat = alike.heat(powers)
            for name in ("die_c", "dram_c", "power_w", "leakage_w", "hot_refresh"):
                getattr(found, name)[alike.rows] = getattr(heat, name)
            holds[alike.rows] = within(heat, alike.technology, alike.limit_w)
        return found, holds

    def metrics(self, powers: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Metrics of the settled temperatures; NaN of products and of what runs away, none if all are products."""
        if not self._alike:
            return {}
        heat, _ = self.state(powers)
        return {"peak_temperature_c": heat.peak_c, "hot_power_w": heat.power_w, "leakage_w": heat.leakage_w}

    def sustained(self, profile: ServiceProfile, saturation: FloatArray, near: Solution) -> FloatArray:
        """Return the share of its speed at which each design may run when it is saturated, shape (n,).

        Args:
            profile: of the designs.
            saturation: their highest rates at full speed.
            near: solved just below them.
        """
        share = np.ones(self.size)
        powers = spent_w(profile, near)
        for alike in self._alike:
            power = replace(alike.idle, dynamic_w=alike.dynamic_w(powers))
            share[alike.rows] = sustained_share(power, alike.influence, alike.technology, alike.limit_w)
        return np.where(np.isfinite(saturation), share, 1.0)


def spent_w(profile: ServiceProfile, solution: Solution) -> dict[str, FloatArray]:
    """Mean dynamic power of a solved state by die group, of memory and of links, shape (n,) each."""
    powers: dict[str, FloatArray] = {}
    for work in solution.work:
        pool = profile.pools[work.pool]
        if not isinstance(pool, SplitsEnergy):
            raise TypeError("temperatures need pools that know what their energy is spent on")
        spent = pool.spent(work.batch)
        for name, joules in {**spent.dies_j, MEMORY: spent.memory_j, LINKS: spent.links_j}.items():
            watts = (joules * work.rate_per_s).sum(axis=1)
            powers[name] = powers.get(name, np.zeros_like(watts)) + watts
    return powers


def too_hot(rate: FloatArray, limit: FloatArray) -> tuple[tuple[Violation, ...], ...]:
    """A violation for each design that is offered more than its limits of temperature and power sustain."""
    levers = ("better cooling (technology)", "lower the arrival rate", "a higher power limit", "fewer or colder dies")
    return tuple(
        (Violation("offered load within temperature and power", float(demand), float(bound), "req/s", levers),)
        if demand >= bound
        else ()
        for demand, bound in zip(rate, limit, strict=True)
    )


def _alike(designs: Sequence[Design], rows: Sequence[int]) -> _Alike:
    package = designs[0].package
    technology = technology_of(package)
    names = dict.fromkeys(group.name for design in designs for group in design.package.dies)
    order = (*names, MEMORY, LINKS)
    idle = [_idle(design) for design in designs]
    limits = [design.package.limits.power_w for design in designs]
    return _Alike(
        rows=np.array(rows, dtype=np.int64),
        technology=technology,
        influence=influence_of(package.topology, technology.cooling),
        idle=SlotPower(
            dynamic_w=np.concatenate([one.dynamic_w for one in idle]),
            steady_w=np.concatenate([one.steady_w for one in idle]),
            leakage_w=np.concatenate([one.leakage_w for one in idle]),
            refresh_w=np.concatenate([one.refresh_w for one in idle]),
            is_memory=np.concatenate([one.is_memory for one in idle]),
            stack_k_per_w=np.concatenate([one.stack_k_per_w for one in idle]),
        ),
        names=order,
        spread=np.stack([_spread(design, order) for design in designs]),
        limit_w=np.array([np.inf if limit is None else limit for limit in limits]),
    )


def _slots(design: Design) -> tuple[int, ...]:
    return design.placement.slots if design.placement is not None else ()


def _idle(design: Design) -> SlotPower:
    package = design.package
    return slot_power(package, _slots(design), np.zeros(package.die_count + package.stack_count))


def _spread(design: Design, names: Sequence[str]) -> FloatArray:
    """Share of each named power on each slot, shape (K, slots)."""
    package, slots = design.package, _slots(design)
    found = np.zeros((len(names), len(package.topology.slots)))
    at = 0
    for group in package.dies:
        found[names.index(group.name), list(slots[at : at + group.count])] = 1.0 / group.count
        for slot in slots[at : at + group.count]:
            found[-2, slot] = group.chiplet.memory_bandwidth_bytes_per_s
        at += group.count
    for memory in package.memories:
        for slot in slots[at : at + memory.count]:
            found[-2, slot] = memory.stack.bandwidth_bytes_per_s
        at += memory.count
    found[-1, list(slots)] = _degrees(package.topology)[list(slots)]
    for row in (-2, -1):
        found[row] /= max(float(found[row].sum()), 1e-300)
    return found


def _degrees(topology: Topology) -> FloatArray:
    degrees = np.zeros(len(topology.slots))
    for edge in topology.edges:
        degrees[list(edge)] += 1.0
    return degrees
