"""Operators of a block as one matrix per design: iteration times by a matrix product and maxima.

A die, a memory site or a link is busy for a sum over features of the batch (`features`), so the time of an operator
is a maximum of such sums, of which those that can never be the largest are dropped (`envelope`).  Everything that is
a plain sum (overheads, energy, bytes by pattern) are further rows of the same matrix.  Operators that are not such
sums (mixtures of experts, unsupported formats) are left to `operators.Evaluation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieRates
from hydra_dse.profile.envelope import envelope
from hydra_dse.profile.features import FeatureList
from hydra_dse.profile.operator_forms import FormMaker, on_features
from hydra_dse.profile.row_table import RowTable
from hydra_dse.profile.tails import tails_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

RARE = 0.1
"""Share of the rows up to which a bound is evaluated for those that need it only."""


@dataclass(frozen=True, eq=False)
class LinearCosts:
    """Sums over the linear operators of a block; shapes (designs, k), bytes and groups (designs, ·, k)."""

    serial_s: FloatArray
    overhead_s: FloatArray
    group_s: FloatArray
    energy_j: FloatArray
    pattern_bytes: FloatArray
    kind_bytes: FloatArray


class LinearOperators:
    """The matrices of all rows of a block, shape (rows, sums, features).

    Sums in order: bounds of each operator, activity of each group, iteration overhead; then, wanted for totals only,
    energy, bytes of each pattern, bytes of each access kind.

    Attributes:
        left: numbers of the operators that are no such sums.
    """

    def __init__(
        self,
        table: RowTable,
        precision: Precision,
        loads: Sequence[tuple[Sequence[int], Sequence[int], FloatArray, FloatArray]],
        rates: Sequence[DieRates],
        none: bool = False,
    ) -> None:
        maker = FormMaker(table, precision, rates, [patterns for patterns, *_ in loads])
        self.groups, self.patterns, self.kinds = len(table.group_dies), table.link_s.shape[1], table.site_s.shape[1]
        found: dict[int, FloatArray] = {}
        for number in range(len(table.operators)):
            bounds = None if none or number in table.experts else maker.bounds(number, *loads[number])
            if bounds is not None:
                found[number] = bounds
        self.left = tuple(number for number in range(len(table.operators)) if number not in found)
        kept = {number: _kept(bounds, maker.features) for number, bounds in found.items()}
        dense = {number: _dense_ranks(bounds) for number, bounds in kept.items()}
        order = sorted(kept, key=lambda number: -dense[number])
        self._group_of = [table.operators[number].group for number in order]
        most = max(dense.values(), default=0)
        # The first bound of every operator, then the second of those that have one, and so on: a maximum over bounds
        # is then one of whole blocks.
        ranks = [[kept[n][:, rank : rank + 1] for n in order if dense[n] > rank] for rank in range(most)]
        self._ranks = [len(rank) for rank in ranks]
        self.bounds = sum(self._ranks)
        sums = [maker.dense(sums) for sums in (maker.times(order), maker.totals(order))]
        self.timed = self.bounds + sums[0].shape[1]
        self.features = maker.features
        self._maker, self._order = maker, order
        self._die_matrix: FloatArray | None = None
        size = len(self.features.index)
        whole = [on_features(one, size) for one in (*(bound for rank in ranks for bound in rank), *sums)]
        self.matrix = np.ascontiguousarray(np.concatenate(whole, axis=1))
        self._tails = tails_of(
            table.size, size, [part for place, n in enumerate(order) for part in _rare(place, kept[n], dense[n], size)]
        )

    def costs(self, batch: Batch, rows: IntArray | slice, shape: tuple[int, int], totals: bool) -> LinearCosts:
        """Evaluate batches with fields of shape (designs, k) or plain numbers."""
        values = self.features.values(batch, shape, rows)
        matrix = self.matrix[rows]
        found = (matrix if totals else matrix[:, : self.timed]) @ values
        activity, overhead = found[:, self.bounds : self.timed - 1], found[:, self.timed - 1]
        times = self._largest(found)
        self._tails.raise_to(times, values, rows)
        if not totals:
            none = np.zeros((shape[0], 0, shape[1]))
            return LinearCosts(times.sum(axis=1) + activity.sum(axis=1), overhead, none, none, none, none)
        group_s = activity.copy()
        for place, group in enumerate(self._group_of):
            group_s[:, group] += times[:, place]
        end = self.timed + 1
        return LinearCosts(
            serial_s=group_s.sum(axis=1),
            overhead_s=overhead,
            group_s=group_s,
            energy_j=found[:, self.timed],
            pattern_bytes=found[:, end : end + self.patterns],
            kind_bytes=found[:, end + self.patterns :],
        )

    def die_j(self, batch: Batch, rows: IntArray | slice, shape: tuple[int, int]) -> FloatArray:
        """Joules in the dies of each die group, shape (designs, die groups, k); its matrix is made when asked for."""
        if self._die_matrix is None:
            made = self._maker.dense(self._maker.die_totals(self._order))
            self._die_matrix = on_features(made, len(self.features.index))
        return np.asarray(self._die_matrix[rows] @ self.features.values(batch, shape, rows))

    def _largest(self, found: FloatArray) -> FloatArray:
        """The largest bound of each operator, shape (designs, operators, k); written over the first ones."""
        times = found[:, : len(self._group_of)]
        start = len(self._group_of)
        for count in self._ranks[1:]:
            np.maximum(times[:, :count], found[:, start : start + count], out=times[:, :count])
            start += count
        return times


def _kept(bounds: FloatArray, features: FeatureList) -> FloatArray:
    """The bounds that may be the largest, of shape (rows, bounds, features)."""
    used = np.flatnonzero(bounds.any(axis=(0, 1)))
    own = np.swapaxes(bounds[:, :, used], 1, 2)
    kept = envelope(own, features.extremes(used.tolist()) @ own)
    found = np.zeros((len(bounds), kept.shape[2], bounds.shape[2]))
    found[:, :, used] = np.swapaxes(kept, 1, 2)
    return found


def _dense_ranks(bounds: FloatArray) -> int:
    """Bounds of an operator, of shape (rows, bounds, features), that many rows need; the others are left to `Tails`."""
    needed = bounds.any(axis=2).sum(axis=0)
    return max(1, int((needed > RARE * len(bounds)).sum()))


def _rare(place: int, bounds: FloatArray, dense: int, features: int) -> list[tuple[int, IntArray, FloatArray]]:
    """Operator, rows and forms of the bounds beyond the dense ones."""
    found = []
    for rank in range(dense, bounds.shape[1]):
        rows = np.flatnonzero(bounds[:, rank].any(axis=1))
        found.append((place, rows, on_features(bounds[rows, rank : rank + 1], features)[:, 0]))
    return found
