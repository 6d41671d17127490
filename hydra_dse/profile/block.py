"""Many pool rows of one signature as arrays, and the time of their iterations.

`t_o = max(compute on the slowest die, most loaded memory site, most loaded link) + overhead + hops` for one instance of
operator `o`.  With `m` batches in flight the pool advances once in
`max(Σ_o n_o·t_o + overhead, m · busy of the most loaded die, site or link)`, evaluated at `1/m` of the batch.
Most operators are evaluated together by matrix products (`linear`), the others one by one (`operators`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number
from hydra_dse.model.precision import Precision
from hydra_dse.profile.batches import width_of
from hydra_dse.profile.linear import LinearCosts, LinearOperators
from hydra_dse.profile.operator_terms import terms_of
from hydra_dse.profile.operators import Evaluation, RateRows
from hydra_dse.profile.row_table import RowTable, widened

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TILED = ("mac-array", "gpu", "dataflow")
"""Styles of dies whose last tile of rows runs padded."""


@dataclass(frozen=True, eq=False)
class Iteration:
    """What an iteration costs, all batches in flight together.

    Attributes:
        time_s, energy_j, die_busy_s: shape (designs, k).
        site_busy_s, link_busy_s: shape (designs, k, resources); `*_most_s` of the busiest, (designs, k).
    """

    time_s: FloatArray
    energy_j: FloatArray
    site_busy_s: FloatArray
    link_busy_s: FloatArray
    site_most_s: FloatArray
    link_most_s: FloatArray
    die_busy_s: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Spent:
    """Dynamic energy of an iteration by what it is spent on; arrays of shape (designs, k).

    Attributes:
        dies_j: in the dies of each die group.
        memory_j: in memory stacks; experts placed whole count here with all they cost.
        links_j: on NoI links.
    """

    dies_j: Mapping[str, FloatArray]
    memory_j: FloatArray
    links_j: FloatArray


class PoolBlock:
    """Rows of one signature.

    `links` and `sites` are the numbers that rows are padded to: the same for all blocks of a profile, so that the
    resources of two pools of a design line up.
    """

    def __init__(self, table: RowTable, precision: Precision, links: int, sites: int, one_by_one: bool = False) -> None:
        self.precision = precision
        self.names, self.group_dies = table.names, table.group_dies
        self.parallelism = table.parallelism
        self.link_s, self.site_s = widened(table.link_s, links), widened(table.site_s, sites)
        self.terms = terms_of(table, links, sites)
        self.hop_j, self.site_j = table.hop_j, table.site_j
        self.latency_s, self.resident, self.imbalance = table.latency_s, table.resident, table.imbalance
        self.share, self.count = table.share, table.count
        self.rates = [RateRows(rates) for rates in table.rates]
        whole = slice(0, table.size)
        loads = [(terms.patterns, terms.kinds, terms.link_s, terms.site_s) for terms in self.terms]
        self.linear = LinearOperators(
            table, precision, loads, [rates.take(whole) for rates in self.rates], none=one_by_one
        )

    def time_s(self, batch: Batch, rows: IntArray, in_flight: Number) -> FloatArray:
        """Return the time of an iteration of designs with the given rows, shape (designs, k).

        Args:
            batch: fields of shape (designs, k) or plain numbers.
            rows: of the designs, shape (designs,).
            in_flight: of the designs, or a plain number.
        """
        alone = np.ndim(in_flight) == 0 and float(in_flight) == 1.0
        if not alone:
            return self.iteration(batch, rows, in_flight).time_s
        where, shape = as_slice(rows), (len(rows), width_of(batch))
        costs = self.linear.costs(batch, where, shape, totals=False)
        serial = costs.serial_s + costs.overhead_s
        if self.linear.left:
            left = Evaluation(self, _turned(batch), where, self.linear.left, totals=False)
            serial = serial + np.broadcast_to(left.serial_s, shape[::-1]).T
        return serial

    def iteration(self, batch: Batch, rows: IntArray, in_flight: Number) -> Iteration:
        """Return the whole cost of an iteration."""
        in_flight = flights(batch, in_flight)
        part = split(batch, in_flight)
        where, shape = as_slice(rows), (len(rows), width_of(part))
        costs = self.linear.costs(part, where, shape, totals=True)
        sites = np.swapaxes(costs.kind_bytes, 1, 2) @ self.site_s[where]
        links = np.swapaxes(costs.pattern_bytes, 1, 2) @ self.link_s[where]
        energy = costs.energy_j + (self.hop_j[:, where].T[:, None] @ costs.pattern_bytes)[:, 0]
        if self.linear.left:
            left = Evaluation(self, _turned(part), where, self.linear.left)
            costs, energy, sites, links = _joined(costs, left, energy, sites, links)
        return self._advanced(costs, energy, sites, links, in_flight)

    def row_tile(self, rows: IntArray) -> FloatArray:
        """Least tile of rows, above one, of the dies that the pool uses, shape (designs,); 1 where none has any."""
        used = {die for dies in self.group_dies for die in dies}
        found = np.full(len(rows), np.inf)
        for die, rates in enumerate(self.rates):
            if die in used and rates.table.style in TILED and not rates.table.shape_efficiency:
                tile = np.broadcast_to(rates.take(rows).array_rows, (len(rows),))
                found = np.where(tile > 1.0, np.minimum(found, tile), found)
        return np.where(np.isfinite(found), found, 1.0)

    def spent(self, batch: Batch, rows: IntArray, in_flight: Number) -> Spent:
        """Return what the dynamic energy of an iteration is spent on."""
        in_flight = flights(batch, in_flight)
        part = split(batch, in_flight)
        where, shape = as_slice(rows), (len(rows), width_of(part))
        costs = self.linear.costs(part, where, shape, totals=True)
        dies, patterns, kinds = self.linear.die_j(part, where, shape), costs.pattern_bytes, costs.kind_bytes
        lumped: Number = 0.0
        own = dies.sum(axis=1)
        if self.linear.left:
            left = Evaluation(self, _turned(part), where, self.linear.left)
            dies = dies + np.stack([np.broadcast_to(one, shape[::-1]).T for one in left.each_die_j()], axis=1)
            patterns = patterns + np.stack([np.broadcast_to(x, shape[::-1]).T for x in left.pattern_bytes], axis=1)
            lumped = np.broadcast_to(left.energy_j, shape[::-1]).T
        times = _by_design(in_flight)
        per_kind = np.repeat(self.site_j[:, where].T, [1, 2] * (len(self.site_j) // 2), axis=1)
        memory = (per_kind[:, :, None] * kinds).sum(axis=1) + lumped
        if any(rates.table.kv_access_bytes > 0 for rates in self.rates):
            memory = costs.energy_j - own + lumped  # `kinds` hold the starts of accesses, which move nothing
        links = (self.hop_j[:, where].T[:, None] @ patterns)[:, 0]
        return Spent({name: dies[:, n] * times for n, name in enumerate(self.names)}, memory * times, links * times)

    def _advanced(
        self, costs: LinearCosts, energy: FloatArray, sites: FloatArray, links: FloatArray, in_flight: Number
    ) -> Iteration:
        """What the pool costs when it advances once, from what one batch costs."""
        die_s = [self._die_busy(costs.group_s, die) for die in range(len(self.names))]
        times: Number = 1.0
        if np.ndim(in_flight) or in_flight != 1.0:
            times = _by_design(in_flight)
            sites, links = sites * times[..., None], links * times[..., None]
        site_most, link_most = sites.max(axis=-1, initial=0.0), links.max(axis=-1, initial=0.0)
        time = costs.serial_s + costs.overhead_s
        for busy in (*(times * one for one in (*die_s, costs.overhead_s)), site_most, link_most):
            time = np.maximum(time, busy)
        return Iteration(
            time_s=time,
            energy_j=np.asarray(times * energy),
            site_busy_s=sites,
            link_busy_s=links,
            site_most_s=site_most,
            link_most_s=link_most,
            die_busy_s={name: np.asarray(times * busy) for name, busy in zip(self.names, die_s, strict=True)},
        )

    def _die_busy(self, group_s: FloatArray, die: int) -> FloatArray:
        groups = [group for group, dies in enumerate(self.group_dies) if die in dies]
        return np.asarray(group_s[:, groups].sum(axis=1))


def _joined(
    costs: LinearCosts, left: Evaluation, energy: FloatArray, sites: FloatArray, links: FloatArray
) -> tuple[LinearCosts, FloatArray, FloatArray, FloatArray]:
    """Costs of the linear operators with those of the others, whose arrays have designs on the last axis."""
    shape = costs.serial_s.shape

    def turned(value: Number) -> FloatArray:
        return np.broadcast_to(value, shape[::-1]).T

    group_s = costs.group_s + np.stack([turned(busy) for busy in left.group_s], axis=1)
    patterns = np.stack([turned(amount) for amount in left.pattern_bytes], axis=1)
    kinds = np.stack([turned(amount) for amount in left.kind_bytes], axis=1)
    block, rows = left.block, left.rows
    energy = energy + turned(left.die_energy_j() + left.energy_j)
    energy = energy + (block.hop_j[:, rows].T[:, None] @ patterns)[:, 0]
    sites = sites + np.swapaxes(kinds, 1, 2) @ block.site_s[rows] + left.expert_site_s
    links = links + np.swapaxes(patterns, 1, 2) @ block.link_s[rows] + left.expert_link_s
    whole = LinearCosts(
        serial_s=costs.serial_s + turned(left.serial_s),
        overhead_s=costs.overhead_s,
        group_s=group_s,
        energy_j=energy,
        pattern_bytes=costs.pattern_bytes + patterns,
        kind_bytes=costs.kind_bytes + kinds,
    )
    return whole, energy, sites, links


def _mapped(batch: Batch, value: Callable[[Number], Number]) -> Batch:
    return Batch(
        prefill_tokens=value(batch.prefill_tokens),
        prefill_sequences=value(batch.prefill_sequences),
        prefill_pairs=value(batch.prefill_pairs),
        prefill_context_tokens=value(batch.prefill_context_tokens),
        decode_sequences=value(batch.decode_sequences),
        decode_context_tokens=value(batch.decode_context_tokens),
        emitted_tokens=value(batch.emitted_tokens),
        tokens_per_sequence=batch.tokens_per_sequence,
    )


def _turned(batch: Batch) -> Batch:
    """The batch with designs on the last axis."""
    return _mapped(batch, lambda value: value if np.ndim(value) == 0 else np.ascontiguousarray(np.asarray(value).T))


def split(batch: Batch, parts: Number) -> Batch:
    """Return one of `parts` equal batches of a batch with fields of shape (designs, k) or plain numbers."""
    if np.ndim(parts) == 0 and float(parts) == 1.0:
        return batch
    each = _by_design(parts)
    return _mapped(batch, lambda value: value / each)


def flights(batch: Batch, most: Number) -> Number:
    """Batches in flight of an iteration: no more than it has sequences, as one runs in one batch only.

    Args:
        batch: fields of shape (designs, k) or plain numbers.
        most: of the designs, shape (designs,), or a plain number.
    """
    if np.ndim(most) == 0 and float(most) == 1.0:
        return most
    sequences = np.maximum(np.add(batch.prefill_sequences, batch.decode_sequences), 1.0)
    return np.minimum(_by_design(most), sequences)


def _by_design(values: Number) -> FloatArray:
    """Values of designs as a column; those of designs and batches as they are."""
    found = np.asarray(values, dtype=float)
    return found.reshape(-1, 1) if found.ndim < 2 else found


def as_slice(rows: IntArray) -> IntArray | slice:
    """The rows as a slice where they are consecutive, so that taking them copies nothing."""
    first, last = (int(rows[0]), int(rows[-1])) if len(rows) else (0, -1)
    if last - first + 1 == len(rows) and (len(rows) < 2 or bool((rows[1:] - rows[:-1] == 1).all())):
        return slice(first, last + 1)
    return rows
