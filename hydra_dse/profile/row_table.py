"""Pool rows of one signature, stacked: what a `PoolBlock` evaluates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import MappedOperator
from hydra_dse.operator_cost import DieRates
from hydra_dse.profile.rows import ExpertNodes, PoolRow

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExpertTable:
    """`ExpertNodes` of all rows: shapes (n, nodes), (n, nodes), (n, nodes, sites), (n, nodes, links)."""

    busiest_s: FloatArray
    energy_j: FloatArray
    site_s: FloatArray
    link_s: FloatArray


@dataclass(frozen=True, eq=False)
class RowTable:
    """Rows of `n` pools.  `P` patterns, `G` execution groups, `D` die groups, `O` operators; as in `PoolRow`.

    Attributes:
        operators: of the pool; what differs by row is in the arrays.
        transfer_patterns, group_dies, parallelism, names: the same for all rows.
        link_s: busy seconds per byte, shape (n, P, links).
        site_s: busy seconds per byte, shape (n, 3G, sites).
        hop_j: joules per byte over all links, shape (P, n).
        site_j: joules per byte of weights and of caches, shape (2G, n).
        latency_s, resident, imbalance: per operator, shape (O, n).
        share: of the work per die, shape (G, D, n).
        count: dies of each die group, shape (D, n).
        rates: by die group, of each row.
        experts: costs of each row at the nodes, by number of the operator, of experts placed whole.
    """

    operators: tuple[MappedOperator, ...]
    transfer_patterns: tuple[tuple[int, ...], ...]
    group_dies: tuple[tuple[int, ...], ...]
    parallelism: tuple[str, ...]
    names: tuple[str, ...]
    link_s: FloatArray
    site_s: FloatArray
    hop_j: FloatArray
    site_j: FloatArray
    latency_s: FloatArray
    resident: FloatArray
    imbalance: FloatArray
    share: FloatArray
    count: FloatArray
    rates: tuple[Sequence[DieRates], ...]
    experts: Mapping[int, ExpertTable] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.link_s)


def stacked(rows: Sequence[PoolRow]) -> RowTable:
    """Stack rows of one signature; links and sites are padded with zeros to the most that a row has."""
    first = rows[0]
    return RowTable(
        operators=first.operators,
        transfer_patterns=first.transfer_patterns,
        group_dies=first.group_dies,
        parallelism=first.parallelism,
        names=first.names,
        link_s=_padded([row.link_s for row in rows]),
        site_s=_padded([row.site_s for row in rows]),
        hop_j=np.array([row.hop_j for row in rows]).T,
        site_j=np.array([row.site_j for row in rows]).T,
        latency_s=np.array([row.latency_s for row in rows]).T,
        resident=np.array([row.resident for row in rows]).T,
        imbalance=np.array([row.imbalance for row in rows]).T,
        share=np.moveaxis(np.array([row.share for row in rows]), 0, -1),
        count=np.array([row.count for row in rows]).T,
        rates=tuple([row.rates[die] for row in rows] for die in range(len(first.names))),
        experts={number: _expert_table([row.experts[number] for row in rows]) for number in first.experts},
    )


def _expert_table(costs: Sequence[ExpertNodes]) -> ExpertTable:
    return ExpertTable(
        np.array([cost.busiest_s for cost in costs]),
        np.array([cost.energy_j for cost in costs]),
        _padded([cost.site_s for cost in costs]),
        _padded([cost.link_s for cost in costs]),
    )


def _padded(tables: Sequence[FloatArray]) -> FloatArray:
    """Tables of shape (a, resources) as one of shape (rows, a, most resources)."""
    width = max(table.shape[1] for table in tables)
    whole = np.zeros((len(tables), tables[0].shape[0], width))
    for number, table in enumerate(tables):
        whole[number, :, : table.shape[1]] = table
    return whole


def widened(table: FloatArray, width: int) -> FloatArray:
    """Pad the last axis with zeros to `width`."""
    if table.shape[-1] == width:
        return table
    return np.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, width - table.shape[-1])])
