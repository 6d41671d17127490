"""Placed packages of one recipe, and what their rows depend on besides the mapping: stacks, links, rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import MemoryStack, Package
from hydra_dse.operator_cost import DieRates
from hydra_dse.profile.cut import Cut, cut_of
from hydra_dse.profile.recipe import Recipe
from hydra_dse.profile.rows import KINDS
from hydra_dse.profile.spread import Paths

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_STACK_FIELDS = ("bandwidth_bytes_per_s", "peak", "joules_per_byte", "ports", "capacity_bytes")


@dataclass(frozen=True, eq=False)
class Packages:
    """Placed packages of one recipe.

    Attributes:
        cut: their components.
        paths, table: route tables, and that of each package.
        rates: of each die group of the recipe, by package.
        capacity: bytes per second of a link; link_j: joules per byte and hop; hop_s: latency of a hop; each (n, 1).
        stacks: fields of the memory groups, shape (n, memory groups) each.
        sram_bytes: of each die group, shape (n, A).
    """

    recipe: Recipe
    cut: Cut
    paths: Paths
    table: IntArray
    rates: tuple[Sequence[DieRates], ...]
    capacity: FloatArray
    link_j: FloatArray
    hop_s: FloatArray
    stacks: dict[str, FloatArray]
    sram_bytes: FloatArray

    @cached_property
    def reachable(self) -> BoolArray:
        """Whether each package has a route between every two of its components, shape (n,)."""
        slots = np.concatenate([self.cut.dies.slot, self.cut.stacks.slot], axis=1)
        there = np.concatenate([self.cut.dies.exists, self.cut.stacks.exists], axis=1)
        joined_ = self.paths.reachable[self.table[:, None, None], slots[:, :, None], slots[:, None, :]]
        return np.asarray((joined_ | ~there[:, :, None] | ~there[:, None, :]).all(axis=(1, 2)))

    @cached_property
    def cache_bytes(self) -> FloatArray:
        """Memory left for caches until the first stack is full, shape (n,)."""
        share = self.cut.bandwidth
        free = self.cut.stacks.of(self.stacks["capacity_bytes"]) - self.recipe.operands.weight_bytes * share
        left = np.where(share > 0, free / np.where(share > 0, share, 1.0), np.inf).min(axis=1)
        return np.asarray(np.maximum(np.where(np.isfinite(left), left, 0.0), 0.0))

    @cached_property
    def reached(self) -> FloatArray:
        """Bandwidth of each stack for accesses of each die group and kind, shape (n, Z, A, kinds)."""
        stacks = self.cut.stacks
        ports = stacks.of(self.stacks["ports"])
        links = np.minimum(self.paths.degree[self.table[:, None], stacks.slot], ports) * self.capacity
        most = np.minimum(stacks.of(self.stacks["bandwidth_bytes_per_s"]), np.where(ports > 0, links, np.inf))
        peak = stacks.of(self.stacks["peak"])[:, :, None, None] * _efficiencies(self.rates)[:, None]
        found = np.minimum(most[:, :, None, None], peak)
        return np.where(stacks.exists[:, :, None, None], found, 1.0)


def packages_of(
    recipe: Recipe,
    packages: Sequence[Package],
    slots: Sequence[tuple[int, ...]],
    paths: Paths,
    table: IntArray,
    rates: tuple[Sequence[DieRates], ...],
) -> Packages:
    """Collect what the rows of placed packages depend on."""
    cut = cut_of(packages, slots)
    sram = [[group.chiplet.sram_bytes for group in package.dies if group.count > 0] for package in packages]
    links = np.array(
        [(p.link_bandwidth_bytes_per_s * p.link.efficiency, p.link.joules_per_byte, p.link.latency_s) for p in packages]
    )
    stacks = np.zeros((len(packages), cut.stacks.count.shape[1], len(_STACK_FIELDS)))
    known: dict[int, tuple[float, ...]] = {}
    for row, package in enumerate(packages):
        for number, memory in enumerate(package.memories):
            if id(memory.stack) not in known:
                known[id(memory.stack)] = _stack_fields(memory.stack)
            stacks[row, number] = known[id(memory.stack)]
    return Packages(
        recipe=recipe,
        cut=cut,
        paths=paths,
        table=table,
        rates=rates,
        capacity=links[:, :1],
        link_j=links[:, 1:2],
        hop_s=links[:, 2:],
        stacks={name: stacks[:, :, number] for number, name in enumerate(_STACK_FIELDS)},
        sram_bytes=np.array(sram),
    )


def _stack_fields(stack: MemoryStack) -> tuple[float, ...]:
    peak = stack.peak_bandwidth_bytes_per_s or stack.bandwidth_bytes_per_s
    return stack.bandwidth_bytes_per_s, peak, stack.joules_per_byte, float(stack.ports), stack.capacity_bytes


def _efficiencies(rates: tuple[Sequence[DieRates], ...]) -> FloatArray:
    """Share of a stack's peak that each die group reaches with each kind of access, shape (n, A, kinds)."""
    known: dict[int, tuple[float, ...]] = {}
    for one in (rate for mine in rates for rate in mine):
        if id(one) not in known:
            known[id(one)] = tuple(float(one.memory[kind]) for kind in KINDS)
    return np.array([[known[id(rate)] for rate in mine] for mine in rates]).swapaxes(0, 1)
