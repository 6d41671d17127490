"""Time of experts placed whole on dies: the mean over routings of the most loaded resource.

Which die is busiest changes from layer to layer and from iteration to iteration, so the mean of the maximum is above
the maximum of the means, most of all where a die reads none or a few experts.  The mean of

    max(slowest die, busiest site, busiest link)

is taken over the quantiles of `hydra_dse.profile.expert_loads`.  Times are kept at some numbers of rows; between them
they follow a power law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping.experts import ExpertPlacement
from hydra_dse.model.operators import Batch, Operator
from hydra_dse.model.precision import Precision
from hydra_dse.operator_cost import DieRates, DieShare, compute_time_s, die_energy_j
from hydra_dse.profile.envelope import envelope
from hydra_dse.profile.expert_loads import loads_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NODES = np.unique(np.concatenate((np.arange(1, 5), np.round(2.0 ** np.arange(2, 14.5, 0.5))))).astype(np.float64)
"""Numbers of rows at which times are kept."""
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class ExpertPaths:
    """What a byte of expert weights read by each die costs, and what a row costs on links.

    Attributes:
        site_s: busy seconds of each site, shape (sites, dies).
        link_s: busy seconds of each link, shape (links, dies).
        row_link_s: busy seconds of each link per row dispatched or combined, shape (links,).
        rates: of each die.
    """

    site_s: FloatArray
    link_s: FloatArray
    row_link_s: FloatArray
    rates: Sequence[DieRates]


@dataclass(frozen=True, eq=False)
class ExpertCost:
    """One instance at some numbers of rows; arrays of shape (tokens, …).

    Attributes:
        compute_s, memory_s, network_s: mean of the slowest die, of the busiest site and of the busiest link.
        busiest_s: mean of the longest of the three.
        site_s, link_s: expected busy seconds of each site and link.
        die_j: expected energy of all dies.
    """

    compute_s: FloatArray
    memory_s: FloatArray
    network_s: FloatArray
    busiest_s: FloatArray
    site_s: FloatArray
    link_s: FloatArray
    die_j: FloatArray


def expert_cost(
    operator: Operator,
    experts: ExpertPlacement,
    paths: ExpertPaths,
    precision: Precision,
    resident: float,
    tokens: FloatArray,
) -> ExpertCost:
    """Return what one instance costs for each number of rows, shape (tokens,)."""
    read, rows = loads_of(experts, tokens)
    batch = Batch(prefill_tokens=tokens[:, None, None], emitted_tokens=tokens[:, None, None])
    demand = operator.demand(batch, precision)
    distinct = np.maximum(experts.routing.distinct(tokens), _TINY)
    expert_bytes = float(operator.weight_elements) / experts.routing.experts * precision.weight_bytes
    streamed = read * (expert_bytes * (1.0 - resident))
    memory = (streamed @ _kept(paths.site_s).T).max(axis=-1, initial=0.0)
    links = _kept(np.concatenate((paths.link_s, paths.row_link_s[:, None]), axis=1))
    network = (streamed @ links[:, :-1].T + tokens[:, None, None] * links[:, -1]).max(axis=-1, initial=0.0)
    compute, die_j = np.zeros(read.shape[:2]), np.zeros(len(tokens))
    expected, load = experts.distinct(tokens), experts.load_share
    for rates, dies in _alike(paths.rates):
        share = DieShare(
            rows[..., dies] / (tokens[:, None, None] * experts.routing.top_k),
            parallelism="expert",
            weights=read[..., dies] / distinct[:, None, None],
        )
        time = np.asarray(compute_time_s(operator, demand, batch, rates, share))
        compute = np.maximum(compute, np.where(read[..., dies] > 0, time, 0.0).max(axis=-1))
        mean = DieShare(load[dies], parallelism="expert", weights=expected[:, None, dies] / distinct[:, None, None])
        die_j = die_j + np.asarray(die_energy_j(operator, demand, batch, rates, mean)).sum(axis=(1, 2))
    mean_bytes = expected * (expert_bytes * (1.0 - resident))
    return ExpertCost(
        compute_s=compute.mean(axis=1),
        memory_s=memory.mean(axis=1),
        network_s=network.mean(axis=1),
        busiest_s=np.maximum(np.maximum(compute, memory), network).mean(axis=1),
        site_s=mean_bytes @ paths.site_s.T,
        link_s=mean_bytes @ paths.link_s.T + tokens[:, None] * paths.row_link_s,
        die_j=die_j,
    )


def _kept(loads: FloatArray) -> FloatArray:
    """The resources that may be the busiest; loads have shape (resources, patterns)."""
    return np.asarray(envelope(loads.T[None])[0].T)


def _alike(rates: Sequence[DieRates]) -> list[tuple[DieRates, list[int]]]:
    groups: dict[int, tuple[DieRates, list[int]]] = {}
    for die, rate in enumerate(rates):
        groups.setdefault(id(rate), (rate, []))[1].append(die)
    return list(groups.values())


def between_nodes(table: FloatArray, row: IntArray, tokens: FloatArray) -> FloatArray:
    """Values at numbers of rows between the nodes.

    Args:
        table: shape (rows, nodes, …), not negative.
        row: row of the table of each value, broadcast with `tokens`.
        tokens: numbers of rows; below 1 values are in proportion, between and beyond nodes a power law.
    """
    tokens = np.asarray(tokens, dtype=np.float64)
    at = np.clip(np.searchsorted(NODES, tokens, side="right") - 1, 0, len(NODES) - 2)
    low, high = NODES[at], NODES[at + 1]
    beyond = np.maximum(tokens, 1.0)
    part = np.log(beyond / low) / np.log(high / low)
    part = part.reshape(part.shape + (1,) * (table.ndim - 2))
    first, second = np.maximum(table[row, at], _TINY), np.maximum(table[row, at + 1], _TINY)
    value = first * (second / first) ** part
    scale = np.minimum(tokens, 1.0)
    return np.asarray(np.where(value > 2.0 * _TINY, value, 0.0) * scale.reshape(part.shape))
