"""Operators one by one over a chunk of designs: those whose time is no maximum of sums (`linear`), above all experts.

`t_o = max(compute on the slowest die, most loaded memory site, most loaded link) + overhead + hops` for one instance of
operator `o`.  Arrays of rows have shape (…, rows), those of a chunk of designs (designs,) against batches of shape
(k, designs): what differs by design alone then meets whole rows of a batch, which NumPy works off without a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import flows_of
from hydra_dse.model.operators import Batch, Demand, Number, Operator
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import (
    DieRates,
    DieShare,
    activity,
    compute_time_s,
    launch_s,
    rows_of,
    sram_bytes,
    stack_rates,
    work_of,
)
from hydra_dse.profile.experts import between_nodes
from hydra_dse.profile.operator_terms import OperatorTerms
from hydra_dse.profile.row_table import ExpertTable
from hydra_dse.profile.rows import READS, WEIGHTS, WRITES

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class RateRows:
    """Rates of one die group over the rows of a block: each distinct die once."""

    def __init__(self, rates: Sequence[DieRates]) -> None:
        known: dict[int, int] = {}
        distinct: list[DieRates] = []
        for rate in rates:
            if id(rate) not in known:
                known[id(rate)] = len(distinct)
                distinct.append(rate)
        self.table = stack_rates(distinct)
        self.index = np.array([known[id(rate)] for rate in rates], dtype=np.int64)
        self._taken: tuple[tuple[int, int], DieRates] | None = None

    def take(self, rows: IntArray | slice) -> DieRates:
        """Rates of the given rows, shape (rows,); those of a slice are remembered, as batch after batch asks for it."""
        if not isinstance(rows, slice):
            return rows_of(self.table, self.index[rows])
        key = (rows.start, rows.stop)
        if self._taken is None or self._taken[0] != key:
            self._taken = key, rows_of(self.table, self.index[rows])
        return self._taken[1]


class Operators(Protocol):
    """What a `PoolBlock` knows of its operators."""

    precision: Precision
    group_dies: tuple[tuple[int, ...], ...]
    parallelism: tuple[str, ...]
    link_s: FloatArray
    site_s: FloatArray
    hop_j: FloatArray
    site_j: FloatArray
    latency_s: FloatArray
    resident: FloatArray
    imbalance: FloatArray
    share: FloatArray
    count: FloatArray
    terms: list[OperatorTerms]
    rates: list[RateRows]


class Evaluation:
    """One pass over some operators of a block for a chunk of designs; `totals` adds bytes and energy up as well."""

    def __init__(
        self, block: Operators, batch: Batch, rows: IntArray | slice, numbers: Sequence[int], totals: bool = True
    ) -> None:
        self.block, self.batch, self.rows, self.totals = block, batch, rows, totals
        count = len(block.count[0, rows])
        self.shape = np.broadcast_shapes((1, count), np.shape(batch.tokens), np.shape(batch.decode_context_tokens))
        self.rates = [rates.take(rows) for rates in block.rates]
        self.serial_s: Number = 0.0
        self.energy_j: Number = 0.0  # of memory
        self.work: dict[tuple[int, str], list[Number]] = {}
        self.group_s: list[Number] = [0.0] * len(block.group_dies)
        self.pattern_bytes: list[Number] = [0.0] * block.link_s.shape[1]
        self.kind_bytes: list[Number] = [0.0] * block.site_s.shape[1]
        self.expert_site_s: Number = 0.0
        self.expert_link_s: Number = 0.0
        for number in numbers:
            self._add(number, block.terms[number])

    def _add(self, index: int, terms: OperatorTerms) -> None:
        operator = terms.mapped.operator
        demand = operator.demand(self.batch, self.block.precision)
        if terms.experts is not None:
            self._add_experts(index, terms, terms.experts, demand)
            return
        patterns, kinds = self._bytes(index, terms, demand)
        moved, kinds = kinds, self._with_accesses(terms, kinds, demand)
        compute, overhead = self._compute_s(index, terms, demand)
        busiest = largest([compute, worst(terms.site_s[..., self.rows], kinds)])
        busiest = largest([busiest, worst(terms.link_s[..., self.rows], patterns)])
        latency = self.block.latency_s[index, self.rows]
        time = operator.count * (busiest + activity(demand) * (overhead + latency))
        self.serial_s = self.serial_s + time
        if self.totals:
            group = terms.mapped.group
            self.group_s[group] = self.group_s[group] + time
            self._account(terms, patterns, kinds, moved)
            self._add_energy(terms, demand)

    def _add_experts(self, index: int, terms: OperatorTerms, table: ExpertTable, demand: Demand) -> None:
        """Experts placed whole: everything by number of rows, from tables."""
        count, group = terms.mapped.operator.count, terms.mapped.group
        designs = np.arange(len(self.block.count[0]))[self.rows]
        row, tokens = np.broadcast_arrays(designs, np.broadcast_to(demand.rows, self.shape))
        overhead = self._launch_s(terms.mapped.operator, group)
        latency = self.block.latency_s[index, self.rows]
        time = count * (between_nodes(table.busiest_s, row, tokens) + activity(demand) * (overhead + latency))
        self.serial_s = self.serial_s + time
        self.group_s[group] = self.group_s[group] + time
        if self.totals:
            self.energy_j = self.energy_j + count * between_nodes(table.energy_j, row, tokens)
            # Resources come on a last axis behind (designs, k).
            self.expert_site_s = self.expert_site_s + count * between_nodes(table.site_s, row.T, tokens.T)
            self.expert_link_s = self.expert_link_s + count * between_nodes(table.link_s, row.T, tokens.T)

    def _bytes(self, index: int, terms: OperatorTerms, demand: Demand) -> tuple[list[Number], list[Number]]:
        """Bytes by pattern and by access kind of one instance."""
        group, resident = terms.mapped.group, self.block.resident[index, self.rows]
        flows = flows_of(terms.mapped, demand, self.block.precision, resident)
        held = {
            WEIGHTS: flows.weights,
            READS: flows.kv_reads + flows.state_reads,
            WRITES: flows.kv_writes + flows.state_writes,
        }
        kinds = {
            0: flows.weights,
            1: flows.kv_reads + flows.kv_writes,
            2: flows.state_reads + flows.state_writes,
        }
        moved = iter(flows.transfers)
        size = 3 * len(self.block.group_dies)
        patterns = [held[p - 3 * group] if p < size else next(moved) for p in terms.patterns]
        return patterns, [kinds[kind - 3 * group] for kind in terms.kinds]

    def _with_accesses(self, terms: OperatorTerms, kinds: list[Number], demand: Demand) -> list[Number]:
        """Bytes by access kind for the time they take: the starts of accesses to KV count as the bytes they cost."""
        start = max(self.rates[die].kv_access_bytes for die in self.block.group_dies[terms.mapped.group])
        if start <= 0.0:
            return kinds
        return [
            amount + start * demand.kv_accesses if kind % 3 == 1 else amount
            for kind, amount in zip(terms.kinds, kinds, strict=True)
        ]

    def _compute_s(self, index: int, terms: OperatorTerms, demand: Demand) -> tuple[Number, Number]:
        """Compute time of the slowest die and largest overhead over the die groups of an operator."""
        group, operator = terms.mapped.group, terms.mapped.operator
        uneven = self.block.imbalance[index, self.rows]
        dies = self.block.group_dies[group]
        times = [
            compute_time_s(operator, demand, self.batch, self.rates[die], self._part(group, die, uneven))
            for die in dies
        ]
        return largest(times), self._launch_s(operator, group)

    def _launch_s(self, operator: Operator, group: int) -> Number:
        """Largest fixed cost of an instance over the dies of its group."""
        dies = self.block.group_dies[group]
        if all(self.rates[die].collective_overhead_s == 0 for die in dies):
            return largest([self.rates[die].operator_overhead_s for die in dies])
        number = self.block.count[list(dies)][:, self.rows].sum(axis=0)
        return largest([launch_s(operator, self.rates[die], number) for die in dies])

    def _add_energy(self, terms: OperatorTerms, demand: Demand) -> None:
        """Add what the dies of a group have in common: energy is linear in it, so that dies come in at the end."""
        operator, group = terms.mapped.operator, terms.mapped.group
        copied = demand.weight_bytes if self.block.parallelism[group] == "replica" else 0.0
        passed = sram_bytes(demand, DieShare(1.0)) - copied
        for style in dict.fromkeys(self.rates[die].style for die in self.block.group_dies[group]):
            work = work_of(operator, demand, self.batch, style)
            amounts = (work.matmul_flops, work.vector_flops, passed, copied)
            total = self.work.setdefault((group, style), [0.0] * len(amounts))
            for number, amount in enumerate(amounts):
                if np.ndim(amount) or amount:
                    total[number] = total[number] + operator.count * amount

    def die_energy_j(self) -> Number:
        """Energy of all dies, as the sum of `operator_cost.die_energy_j` over operators and dies."""
        energy: Number = 0.0
        for joules in self.each_die_j():
            energy = energy + joules
        return energy

    def each_die_j(self) -> list[Number]:
        """Energy in the dies of each die group, experts placed whole excepted."""
        found: list[Number] = [0.0] * len(self.block.count)
        for (group, style), (matmul, vector, passed, copied) in self.work.items():
            for die in self.block.group_dies[group]:
                rates = self.rates[die]
                if rates.style != style:
                    continue
                count, share = self.block.count[die, self.rows], self.block.share[group, die, self.rows]
                factors = (rates.joules_per_flop, rates.joules_per_vector_flop, rates.joules_per_sram_byte)
                for amount, joules in zip((matmul, vector, passed), factors, strict=True):
                    found[die] = found[die] + amount * (count * share * joules)
                found[die] = found[die] + copied * (count * rates.joules_per_sram_byte)
        return found

    def _part(self, group: int, die: int, uneven: Number) -> DieShare:
        return DieShare(self.block.share[group, die, self.rows], uneven, self.block.parallelism[group])

    def _account(
        self, terms: OperatorTerms, patterns: Sequence[Number], kinds: Sequence[Number], moved: Sequence[Number]
    ) -> None:
        """Add the bytes of all instances (`kinds` for time, `moved` in truth), and the energy of memory."""
        count, group = terms.mapped.operator.count, terms.mapped.group
        for pattern, amount in zip(terms.patterns, patterns, strict=True):
            self.pattern_bytes[pattern] = self.pattern_bytes[pattern] + count * amount
        for kind, amount in zip(terms.kinds, kinds, strict=True):
            self.kind_bytes[kind] = self.kind_bytes[kind] + count * amount
        for kind, amount in zip(terms.kinds, moved, strict=True):
            joules = self.block.site_j[2 * group + (kind % 3 > 0), self.rows]
            self.energy_j = self.energy_j + count * amount * joules


def worst(loads: FloatArray, amounts: Sequence[Number]) -> Number:
    """Largest `Σ_p amounts[p]·loads[p, r]` over resources `r`; loads have shape (patterns, resources, designs)."""
    used = [(amount, load) for amount, load in zip(amounts, loads, strict=True) if np.ndim(amount) or amount]
    shape = np.broadcast_shapes(loads.shape[2:], *(np.shape(amount) for amount, _ in used))
    most, total, part = np.zeros(shape), np.empty(shape), np.empty(shape)
    for resource in range(loads.shape[1]):
        total.fill(0.0)
        for place, (amount, load) in enumerate(used):
            np.multiply(amount, load[resource], out=part if place else total)
            if place:
                total += part
        np.maximum(most, total, out=most)
    return most


def largest(values: Sequence[Number]) -> Number:
    """Element-wise maximum."""
    most = values[0]
    for value in values[1:]:
        most = np.maximum(most, value)
    return most
