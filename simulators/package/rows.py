"""Operators whose time is fixed by their number of rows: tables over rows, one vectorised pass per operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Demand
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import activity, compute_time_s
from simulators.package.coefficients import PlacedOperator
from simulators.package.experts import expert_seconds
from simulators.package.lines import undominated_lines

FloatArray = NDArray[np.float64]


def row_batch(rows: FloatArray) -> Batch:
    """A batch whose every operator has `rows` rows, the LM head included."""
    return Batch(prefill_tokens=rows, emitted_tokens=rows)


def row_seconds(
    placed: PlacedOperator, precision: Precision, link_bytes_per_s: FloatArray, rows: FloatArray
) -> FloatArray:
    """Return the time of all instances of an operator for each number of rows."""
    if placed.experts is not None:
        return expert_seconds(placed, placed.experts, precision, link_bytes_per_s, rows)
    batch = row_batch(rows)
    demand = placed.operator.demand(batch, precision)
    longest = np.zeros(len(rows))
    for part in placed.dies:
        longest = np.maximum(longest, compute_time_s(placed.operator, demand, batch, part.rates, part.share))
    weights = np.asarray(demand.weight_bytes) * placed.streamed
    for per_weight_byte, per_row in _resource_lines(placed, link_bytes_per_s).tolist():
        longest = np.maximum(longest, weights * per_weight_byte + rows * per_row)
    return placed.operator.count * (longest + np.asarray(activity(demand)) * placed.fixed_s)


def _resource_lines(placed: PlacedOperator, link_bytes_per_s: FloatArray) -> FloatArray:
    """Seconds per weight byte and per row on each site and link that may bind, shape (lines, 2)."""
    weights = placed.paths.weights
    moved = np.zeros(len(weights.link_bytes))
    for transfer in placed.activations:
        moved = moved + transfer.link_bytes * transfer.bytes_per_row
    sites = np.stack((weights.site_s, np.zeros(len(weights.site_s))), axis=1)
    links = np.stack((weights.link_bytes, moved), axis=1) / link_bytes_per_s[:, None]
    return undominated_lines(np.concatenate((sites, links, np.zeros((1, 2)))))


class RowTable:
    """Seconds by number of rows of a set of operators, by execution group; grows as larger batches come."""

    def __init__(
        self, operators: Sequence[PlacedOperator], groups: int, precision: Precision, link_bytes_per_s: FloatArray
    ) -> None:
        self._operators = tuple(operators)
        self._precision = precision
        self._link_bytes_per_s = link_bytes_per_s
        self._groups = groups
        self.total_s: list[float] = []
        self.group_s = np.zeros((0, groups))

    def reach(self, rows: int) -> None:
        """Make the table cover `rows`."""
        if rows < len(self.total_s):
            return
        size = max(rows + 1, 2 * len(self.total_s))
        fresh = np.arange(len(self.total_s), size, dtype=np.float64)
        seconds = np.zeros((len(fresh), self._groups))
        for placed in self._operators:
            seconds[:, placed.group] += row_seconds(placed, self._precision, self._link_bytes_per_s, fresh)
        self.group_s = np.concatenate((self.group_s, seconds))
        self.total_s.extend(seconds.sum(axis=1).tolist())


def demand_at(placed: PlacedOperator, precision: Precision, rows: FloatArray) -> Demand:
    """Demand of one instance for each number of rows."""
    return placed.operator.demand(row_batch(rows), precision)
