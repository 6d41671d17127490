"""Many pool rows of one signature as arrays, and the time of their iterations.

`t_o = max(compute on the slowest die, most loaded memory site, most loaded link) + overhead + hops` for one instance of
operator `o`.  With `m` batches in flight the pool advances once in
`max(Σ_o n_o·t_o + overhead, m · busy of the most loaded die, site or link)`, evaluated at `1/m` of the batch.
Arrays of rows have shape (…, rows), those of a chunk of designs (designs,) against batches of shape (k, designs):
what differs by design alone then meets whole rows of a batch, which NumPy works off without a loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import MappedOperator, flows_of
from hydra_dse.model.operators import Batch, Demand, Number
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import (
    DieRates,
    DieShare,
    activity,
    compute_time_s,
    rows_of,
    sram_bytes,
    stack_rates,
    work_of,
)
from hydra_dse.profile.envelope import envelope
from hydra_dse.profile.experts import between_nodes
from hydra_dse.profile.row_table import ExpertTable, RowTable, widened
from hydra_dse.profile.rows import READS, WEIGHTS, WRITES

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OperatorTerms:
    """Which patterns an operator uses, and their loads on the resources that may bind.

    `link_s` has shape (patterns of the operator, links kept, rows), `site_s` the same over its access kinds.
    """

    mapped: MappedOperator
    patterns: tuple[int, ...]
    kinds: tuple[int, ...]
    link_s: FloatArray
    site_s: FloatArray
    experts: ExpertTable | None = None


@dataclass(frozen=True, eq=False)
class Iteration:
    """What an iteration costs, all batches in flight together.

    Attributes:
        time_s, energy_j, die_busy_s: shape (k, designs) or broadcastable.
        site_busy_s, link_busy_s: shape (designs, k, resources); `*_most_s` of the busiest, (designs, k).
    """

    time_s: Number
    energy_j: Number
    site_busy_s: FloatArray
    link_busy_s: FloatArray
    site_most_s: FloatArray
    link_most_s: FloatArray
    die_busy_s: dict[str, Number]


class PoolBlock:
    """Rows of one signature.

    `links` and `sites` are the numbers that rows are padded to: the same for all blocks of a profile, so that the
    resources of two pools of a design line up.
    """

    def __init__(self, table: RowTable, precision: Precision, links: int, sites: int) -> None:
        self.precision = precision
        self.names, self.group_dies = table.names, table.group_dies
        self.parallelism = table.parallelism
        self.link_s, self.site_s = widened(table.link_s, links), widened(table.site_s, sites)
        self.terms = _terms(table, links, sites)
        self.hop_j, self.site_j = table.hop_j, table.site_j
        self.latency_s, self.resident, self.imbalance = table.latency_s, table.resident, table.imbalance
        self.share, self.count = table.share, table.count
        self.rates = [_RateRows(rates) for rates in table.rates]

    def time_s(self, batch: Batch, rows: IntArray, in_flight: Number) -> Number:
        """Return the time of an iteration of designs with the given rows.

        Args:
            batch: fields of shape (k, designs) or plain numbers.
            rows: of the designs, shape (designs,).
            in_flight: of the designs, or a plain number.
        """
        alone = np.ndim(in_flight) == 0 and float(in_flight) == 1.0
        if not alone:
            return self.iteration(batch, rows, in_flight).time_s
        evaluation = _Evaluation(self, batch, rows, totals=False)
        return evaluation.serial_s + evaluation.overhead_s

    def iteration(self, batch: Batch, rows: IntArray, in_flight: Number) -> Iteration:
        """Return the whole cost of an iteration."""
        return _Evaluation(self, split(batch, in_flight), rows).result(in_flight)


class _Evaluation:
    """One pass over the operators of a block for a chunk of designs; `totals` adds bytes and energy up as well."""

    def __init__(self, block: PoolBlock, batch: Batch, rows: IntArray, totals: bool = True) -> None:
        self.block, self.batch, self.rows, self.totals = block, batch, as_slice(rows), totals
        self.shape = np.broadcast_shapes((1, len(rows)), np.shape(batch.tokens), np.shape(batch.decode_context_tokens))
        self.rates = [rates.take(self.rows) for rates in block.rates]
        self.serial_s: Number = 0.0
        self.energy_j: Number = 0.0  # of memory
        self.work: dict[tuple[int, str], list[Number]] = {}
        self.group_s: list[Number] = [0.0] * len(block.group_dies)
        self.pattern_bytes: list[Number] = [0.0] * block.link_s.shape[1]
        self.kind_bytes: list[Number] = [0.0] * block.site_s.shape[1]
        self.expert_site_s: Number = 0.0
        self.expert_link_s: Number = 0.0
        for index, terms in enumerate(block.terms):
            self._add(index, terms)
        iteration = _largest([rate.iteration_overhead_s for rate in self.rates])
        self.overhead_s = np.minimum(batch.tokens, 1.0) * iteration

    def _loads(self, tables: FloatArray, amounts: Sequence[Number]) -> FloatArray:
        """Load of each resource, shape (designs, k, resources), for the amounts of all patterns."""
        moved = [number for number, amount in enumerate(amounts) if np.ndim(amount) or amount]
        if not moved:
            return np.zeros((self.shape[1], self.shape[0], tables.shape[2]))
        stacked = np.stack([np.broadcast_to(amounts[number], self.shape).T for number in moved], axis=-1)
        return np.asarray(stacked @ tables[self.rows][:, moved])

    def result(self, in_flight: Number) -> Iteration:
        """Return what the pool costs when it advances once."""
        block = self.block
        die_s = [self._die_busy(die) for die in range(len(block.names))]
        sites = self._loads(block.site_s, self.kind_bytes) + self.expert_site_s
        links = self._loads(block.link_s, self.pattern_bytes) + self.expert_link_s
        if np.ndim(in_flight) or in_flight != 1.0:
            sites, links = sites * _beside(in_flight), links * _beside(in_flight)
        site_most, link_most = sites.max(axis=-1, initial=0.0), links.max(axis=-1, initial=0.0)
        busiest = in_flight * _largest([*die_s, self.overhead_s])
        energy = self._die_energy_j() + self.energy_j + weighted_sum(block.hop_j[..., self.rows], self.pattern_bytes)
        return Iteration(
            time_s=_largest([self.serial_s + self.overhead_s, busiest, site_most.T, link_most.T]),
            energy_j=in_flight * energy,
            site_busy_s=sites,
            link_busy_s=links,
            site_most_s=site_most,
            link_most_s=link_most,
            die_busy_s={name: in_flight * busy for name, busy in zip(block.names, die_s, strict=True)},
        )

    def _die_busy(self, die: int) -> Number:
        groups = [self.group_s[g] for g, dies in enumerate(self.block.group_dies) if die in dies]
        total: Number = 0.0
        for busy in groups:
            total = total + busy
        return total

    def _add(self, index: int, terms: OperatorTerms) -> None:
        operator = terms.mapped.operator
        demand = operator.demand(self.batch, self.block.precision)
        if terms.experts is not None:
            self._add_experts(index, terms, terms.experts, demand)
            return
        patterns, kinds = self._bytes(index, terms, demand)
        compute, overhead = self._compute_s(index, terms, demand)
        busiest = _largest([compute, worst(terms.site_s[..., self.rows], kinds)])
        busiest = _largest([busiest, worst(terms.link_s[..., self.rows], patterns)])
        latency = self.block.latency_s[index, self.rows]
        time = operator.count * (busiest + activity(demand) * (overhead + latency))
        self.serial_s = self.serial_s + time
        if self.totals:
            group = terms.mapped.group
            self.group_s[group] = self.group_s[group] + time
            self._account(terms, patterns, kinds)
            self._add_energy(terms, demand)

    def _add_experts(self, index: int, terms: OperatorTerms, table: ExpertTable, demand: Demand) -> None:
        """Experts placed whole: everything by number of rows, from tables."""
        count, group = terms.mapped.operator.count, terms.mapped.group
        designs = np.arange(len(self.block.count[0]))[self.rows]
        row, tokens = np.broadcast_arrays(designs, np.broadcast_to(demand.rows, self.shape))
        overhead = _largest([self.rates[die].operator_overhead_s for die in self.block.group_dies[group]])
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

    def _compute_s(self, index: int, terms: OperatorTerms, demand: Demand) -> tuple[Number, Number]:
        """Compute time of the slowest die and largest overhead over the die groups of an operator."""
        group, operator = terms.mapped.group, terms.mapped.operator
        uneven = self.block.imbalance[index, self.rows]
        dies = self.block.group_dies[group]
        times = [
            compute_time_s(operator, demand, self.batch, self.rates[die], self._part(group, die, uneven))
            for die in dies
        ]
        return _largest(times), _largest([self.rates[die].operator_overhead_s for die in dies])

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

    def _die_energy_j(self) -> Number:
        """Energy of all dies, as the sum of `operator_cost.die_energy_j` over operators and dies."""
        energy: Number = 0.0
        for (group, style), (matmul, vector, passed, copied) in self.work.items():
            for die in self.block.group_dies[group]:
                rates = self.rates[die]
                if rates.style != style:
                    continue
                count, share = self.block.count[die, self.rows], self.block.share[group, die, self.rows]
                factors = (rates.joules_per_flop, rates.joules_per_vector_flop, rates.joules_per_sram_byte)
                for amount, joules in zip((matmul, vector, passed), factors, strict=True):
                    energy = energy + amount * (count * share * joules)
                energy = energy + copied * (count * rates.joules_per_sram_byte)
        return energy

    def _part(self, group: int, die: int, uneven: Number) -> DieShare:
        return DieShare(self.block.share[group, die, self.rows], uneven, self.block.parallelism[group])

    def _account(self, terms: OperatorTerms, patterns: Sequence[Number], kinds: Sequence[Number]) -> None:
        """Add the bytes of all instances, and the energy of memory."""
        count, group = terms.mapped.operator.count, terms.mapped.group
        for pattern, amount in zip(terms.patterns, patterns, strict=True):
            self.pattern_bytes[pattern] = self.pattern_bytes[pattern] + count * amount
        for kind, amount in zip(terms.kinds, kinds, strict=True):
            self.kind_bytes[kind] = self.kind_bytes[kind] + count * amount
            joules = self.block.site_j[2 * group + (kind % 3 > 0), self.rows]
            self.energy_j = self.energy_j + count * amount * joules


class _RateRows:
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


def as_slice(rows: IntArray) -> IntArray | slice:
    """The rows as a slice where they are consecutive, so that taking them copies nothing."""
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (0, -1)
    if last - first + 1 == len(rows) and bool((np.diff(rows) == 1).all()):
        return slice(first, last + 1)
    return rows


def _beside(in_flight: Number) -> Number:
    """Batches in flight against arrays of shape (designs, k, resources)."""
    return in_flight if np.ndim(in_flight) == 0 else np.asarray(in_flight)[:, None, None]


def split(batch: Batch, parts: Number) -> Batch:
    """Return one of `parts` equal batches of a batch."""
    if np.ndim(parts) == 0 and float(parts) == 1.0:
        return batch
    return Batch(
        prefill_tokens=batch.prefill_tokens / parts,
        prefill_sequences=batch.prefill_sequences / parts,
        prefill_pairs=batch.prefill_pairs / parts,
        prefill_context_tokens=batch.prefill_context_tokens / parts,
        decode_sequences=batch.decode_sequences / parts,
        decode_context_tokens=batch.decode_context_tokens / parts,
        emitted_tokens=batch.emitted_tokens / parts,
        tokens_per_sequence=batch.tokens_per_sequence,
    )


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


def weighted_sum(factors: FloatArray, amounts: Sequence[Number]) -> Number:
    """`Σ_p factors[p]·amounts[p]`; factors have shape (patterns, designs), amounts (k, designs)."""
    total: Number = 0.0
    for factor, amount in zip(factors, amounts, strict=True):
        if np.ndim(amount) or amount:
            total = total + amount * factor
    return total


def _largest(values: Sequence[Number]) -> Number:
    most = values[0]
    for value in values[1:]:
        most = np.maximum(most, value)
    return most


def _terms(table: RowTable, link_count: int, site_count: int) -> list[OperatorTerms]:
    links: dict[tuple[int, ...], FloatArray] = {}
    sites: dict[tuple[int, ...], FloatArray] = {}
    terms = []
    for number, (mapped, moves) in enumerate(zip(table.operators, table.transfer_patterns, strict=True)):
        patterns, kinds = _used(mapped)
        patterns += moves
        if patterns not in links:
            links[patterns] = _rows_last(envelope(table.link_s[:, np.array(patterns, dtype=np.int64)]))
        if kinds not in sites:
            sites[kinds] = _rows_last(envelope(table.site_s[:, np.array(kinds, dtype=np.int64)]))
        experts = table.experts.get(number)
        if experts is not None:
            site_s, link_s = widened(experts.site_s, site_count), widened(experts.link_s, link_count)
            experts = replace(experts, site_s=site_s, link_s=link_s)
        terms.append(OperatorTerms(mapped, patterns, kinds, links[patterns], sites[kinds], experts))
    return terms


def _used(mapped: MappedOperator) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Memory patterns and access kinds that an operator uses at all."""
    operator, base = mapped.operator, 3 * mapped.group
    weights = [0] if operator.weight_elements > 0 else []
    kv = operator.kv_elements_per_token > 0
    state = operator.state_elements + operator.conv_state_elements > 0
    patterns = [WEIGHTS] * len(weights) + ([READS, WRITES] if kv or state else [])
    kinds = weights + [1] * kv + [2] * state
    return tuple(base + p for p in patterns), tuple(base + kind for kind in kinds)


def _rows_last(loads: FloatArray) -> FloatArray:
    return np.ascontiguousarray(np.moveaxis(loads, 0, -1))
