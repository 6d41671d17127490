"""The byte ledger of what was executed: operand × memory site and operand × link, with busy time and energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Demand, Number
from hydra_dse.operator_cost import DieShare, die_energies_j
from simulators.package.coefficients import OperandPaths, PlacedExperts, PlacedHardware, PlacedOperator, PlacedPool
from simulators.package.cost import PackageCost
from simulators.package.experts import expert_bytes
from simulators.package.lines import affine, affine_demand, depends_on_rows_only, probe_batches, unwindowed
from simulators.package.tally import Counts

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OperandBytes:
    """Bytes of one operand over all that was executed, on each memory site and each directed link."""

    site_bytes: FloatArray
    link_bytes: FloatArray


@dataclass(frozen=True, eq=False)
class Ledger:
    """What iterations moved, kept busy and consumed.

    Attributes:
        operands: `"weights"`, `"kv read"`, `"kv write"`, `"state read"`, `"state write"` and
            `"activations (gather|reduce|forward)"`.
        site_s, link_s: busy seconds of memory sites and links.
        die_s: busy seconds by die group (of each of its dies).
        die_j, memory_j, link_j: dynamic energy.
        compute_j, sram_j: that of all dies of a die group, by what it is spent on; site_j, each_link_j: of every memory
            site and link; site_components: the component that each site is or lies on.
    """

    operands: dict[str, OperandBytes]
    site_s: FloatArray
    link_s: FloatArray
    die_s: dict[str, float]
    die_j: float
    memory_j: float
    link_j: float
    compute_j: dict[str, float]
    sram_j: dict[str, float]
    site_j: FloatArray
    each_link_j: FloatArray
    site_components: tuple[int, ...]

    @property
    def energy_j(self) -> float:
        """All dynamic energy."""
        return self.die_j + self.memory_j + self.link_j


def ledger_of(cost: PackageCost, counts: Counts) -> Ledger:
    """Return the ledger of what a pool has executed."""
    book = _Book(cost.hardware, cost.placed, cost.windows, counts)
    for placed in cost.placed.operators:
        book.add(placed)
    return book.close(_group_seconds(cost, counts))


def moved_ledger(hardware: PlacedHardware, name: str, site_bytes: FloatArray, link_bytes: FloatArray) -> Ledger:
    """The ledger of bytes that move between memories, beside what dies do: shape (sites,) and (links,)."""
    joules = np.array([site.joules_per_byte for site in hardware.mapped.sites])
    bandwidth = np.array([site.bandwidth_bytes_per_s for site in hardware.mapped.sites])
    return Ledger(
        operands={name: OperandBytes(site_bytes, link_bytes)},
        site_s=site_bytes / bandwidth,
        link_s=link_bytes / hardware.links.capacity_bytes_per_s,
        die_s={},
        die_j=0.0,
        memory_j=float(site_bytes @ joules),
        link_j=hardware.links.joules(link_bytes),
        compute_j={},
        sram_j={},
        site_j=site_bytes * joules,
        each_link_j=hardware.links.each_joules(link_bytes),
        site_components=tuple(site.component for site in hardware.mapped.sites),
    )


def _group_seconds(cost: PackageCost, counts: Counts) -> FloatArray:
    seconds = counts.parts_s.copy()
    for (rows, emitted), count in counts.iterations.items():
        seconds += count * (cost.tokens.group_s[rows] + cost.emitted.group_s[emitted])
    return seconds


class _Book:
    """Adds up operators."""

    def __init__(self, hardware: PlacedHardware, pool: PlacedPool, windows: tuple[int, ...], counts: Counts) -> None:
        self.hardware, self.pool, self.windows, self.counts = hardware, pool, windows, counts
        self.operands: dict[str, OperandBytes] = {}
        self.site_s = np.zeros(hardware.site_count)
        self.die_j = 0.0
        self.compute_j: dict[str, float] = {}
        self.sram_j: dict[str, float] = {}
        keys = np.array(list(counts.iterations), dtype=np.float64).reshape(-1, 2)
        self._rows, self._emitted = keys[:, 0], keys[:, 1]
        self._times = np.array(list(counts.iterations.values()), dtype=np.float64)

    def add(self, placed: PlacedOperator) -> None:
        """Add all instances of an operator."""
        if depends_on_rows_only(placed.operator):
            self._add_by_rows(placed)
        else:
            self._add_by_features(placed)

    def _add_by_rows(self, placed: PlacedOperator) -> None:
        batch = Batch(prefill_tokens=self._rows, emitted_tokens=self._emitted)
        demand = placed.operator.demand(batch, self.hardware.precision)
        weights = float(self._times @ np.asarray(demand.weight_bytes))
        rows = float(self._times @ np.asarray(demand.rows))
        self._activations(placed, rows)
        if placed.experts is not None:
            self._add_experts(placed, placed.experts, demand, batch)
            return
        self._operand(placed, "weights", placed.paths.weights, weights * placed.streamed)
        for part in placed.dies:
            joules = die_energies_j(placed.operator, demand, batch, part.rates, part.share)
            self._spend(part.name, placed.operator.count * part.count, joules, self._times)

    def _add_experts(self, placed: PlacedOperator, experts: PlacedExperts, demand: Demand, batch: Batch) -> None:
        """Experts placed whole: each die reads its own."""
        read = expert_bytes(placed, experts, self.hardware.precision, np.asarray(demand.rows))
        whole = np.maximum(np.asarray(demand.weight_bytes), 1e-300)
        load = experts.placement.load_share.tolist()
        names = {id(rates): name for name, rates in self.hardware.rates.items()}
        for die, (path, rates) in enumerate(zip(experts.paths, experts.rates, strict=True)):
            self._operand(placed, "weights", path, float(self._times @ read[:, die]) * placed.streamed)
            share = DieShare(load[die], parallelism="expert", weights=read[:, die] / whole)
            joules = die_energies_j(placed.operator, demand, batch, rates, share)
            self._spend(names[id(rates)], placed.operator.count, joules, self._times)

    def _add_by_features(self, placed: PlacedOperator) -> None:
        window = placed.operator.window
        attended = self.counts.attended[0 if window is None else 1 + self.windows.index(window)]
        sums = np.concatenate(([self.counts.total], self.counts.features, attended))
        bytes_of, paths = affine_demand(placed.operator, self.hardware.precision, self.hardware.positions), placed.paths
        self._operand(placed, "weights", paths.weights, float(bytes_of.weights @ sums) * placed.streamed)
        self._operand(placed, "kv read", paths.kv_reads, float(bytes_of.kv_reads @ sums))
        self._operand(placed, "kv write", paths.kv_writes, float(bytes_of.kv_writes @ sums))
        # The start of an access keeps its sites busy and moves nothing.
        started = float(bytes_of.kv_accesses @ sums) * paths.kv_access_bytes
        self.site_s += started * placed.operator.count * paths.kv_reads.site_s
        self._operand(placed, "state read", paths.state_reads, float(bytes_of.state_reads @ sums))
        self._operand(placed, "state write", paths.state_writes, float(bytes_of.state_writes @ sums))
        self._activations(placed, float(bytes_of.rows @ sums))
        operator, batch = unwindowed(placed.operator), probe_batches(self.hardware.positions)
        demand = operator.demand(batch, self.hardware.precision)
        for part in placed.dies:
            compute, sram = die_energies_j(operator, demand, batch, part.rates, part.share)
            both = affine(compute), affine(sram)
            self.die_j += operator.count * part.count * float(affine(compute + sram) @ sums)
            self._book_energy(part.name, operator.count * part.count, float(both[0] @ sums), float(both[1] @ sums))

    def _spend(self, name: str, times: int, joules: tuple[Number, Number], iterations: FloatArray) -> None:
        """Add the energy of dies of a group: joules of an instance by kind of iteration, and how many there were."""
        compute, sram = joules
        self.die_j += times * float(iterations @ np.asarray(compute + sram))
        each = [float(iterations @ np.broadcast_to(np.asarray(part), iterations.shape)) for part in joules]
        self._book_energy(name, times, each[0], each[1])

    def _book_energy(self, name: str, times: int, compute_j: float, sram_j: float) -> None:
        self.compute_j[name] = self.compute_j.get(name, 0.0) + times * compute_j
        self.sram_j[name] = self.sram_j.get(name, 0.0) + times * sram_j

    def _operand(self, placed: PlacedOperator, name: str, paths: OperandPaths, amount: float) -> None:
        """Add bytes of one instance (summed over iterations) of an operand in memory."""
        amount *= placed.operator.count
        self.site_s += amount * paths.site_s
        self._book(name, amount * paths.site_bytes, amount * paths.link_bytes)

    def _activations(self, placed: PlacedOperator, rows: float) -> None:
        none = np.zeros(len(self.site_s))
        for transfer in placed.activations:
            amount = placed.operator.count * rows * transfer.bytes_per_row
            self._book(f"activations ({transfer.kind})", none, amount * transfer.link_bytes)

    def _book(self, name: str, site_bytes: FloatArray, link_bytes: FloatArray) -> None:
        before = self.operands.get(name)
        if before is not None:
            site_bytes, link_bytes = site_bytes + before.site_bytes, link_bytes + before.link_bytes
        self.operands[name] = OperandBytes(site_bytes, link_bytes)

    def close(self, group_s: FloatArray) -> Ledger:
        """Return the ledger."""
        hardware = self.hardware
        site_bytes = sum((part.site_bytes for part in self.operands.values()), np.zeros(len(self.site_s)))
        link_bytes = sum((part.link_bytes for part in self.operands.values()), np.zeros(hardware.links.count))
        joules = np.array([site.joules_per_byte for site in hardware.mapped.sites])
        die_s: dict[str, float] = {}
        for names, seconds in zip(self.pool.die_groups, group_s.tolist(), strict=True):
            for name in names:
                die_s[name] = die_s.get(name, 0.0) + seconds
        return Ledger(
            operands=self.operands,
            site_s=self.site_s,
            link_s=link_bytes / hardware.links.capacity_bytes_per_s,
            die_s=die_s,
            die_j=self.die_j,
            memory_j=float(site_bytes @ joules),
            link_j=hardware.links.joules(link_bytes),
            compute_j=self.compute_j,
            sram_j=self.sram_j,
            site_j=site_bytes * joules,
            each_link_j=hardware.links.each_joules(link_bytes),
            site_components=tuple(site.component for site in hardware.mapped.sites),
        )
