"""Bytes of many flows on the links of many placed packages at once: the paths of all flows added up by link.

The readable form is `hydra_dse.network_load.LinkLoad.loads`, one package at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.routing import RouteTable

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Paths:
    """Paths of some route tables, padded to the same numbers of slots `S`, links `L` and links of a path `K`.

    Attributes:
        links: shape (tables, S, S, K): the links of each path, in order; `L` where it has ended.
        hops: shape (tables, S, S): links of each path; 0 where there is none.
        reachable: shape (tables, S, S).
        degree: shape (tables, S): links that leave a slot.
        count: L.
    """

    links: NDArray[np.int32]
    hops: IntArray
    reachable: BoolArray
    degree: IntArray
    count: int


def paths_of(tables: Sequence[RouteTable]) -> Paths:
    """Stack the paths of route tables."""
    slots = max(len(table.topology.slots) for table in tables)
    count = max(max(len(table.links) for table in tables), 1)
    longest = max(max(table.paths.shape[-1] for table in tables), 1)
    links = np.full((len(tables), slots, slots, longest), count, dtype=np.int32)
    hops = np.zeros((len(tables), slots, slots), dtype=np.int64)
    reachable = np.zeros((len(tables), slots, slots), dtype=bool)
    degree = np.zeros((len(tables), slots), dtype=np.int64)
    for number, table in enumerate(tables):
        size, taken = len(table.topology.slots), table.paths
        links[number, :size, :size, : taken.shape[-1]] = np.where(taken < 0, count, taken)
        hops[number, :size, :size] = (taken >= 0).sum(axis=-1)
        reachable[number, :size, :size] = table.reachable
        degree[number, :size] = np.bincount([source for source, _ in table.links], minlength=size)
    return Paths(links, hops, reachable, degree, count)


@dataclass(frozen=True, eq=False)
class Flows:
    """Flows between slots: arrays of one entry a flow.

    Attributes:
        row: package.
        pattern: number of the flow's pattern.
        source, target: slots.
        share: bytes per byte of the pattern.
    """

    row: IntArray
    pattern: IntArray
    source: IntArray
    target: IntArray
    share: FloatArray


def joined(parts: Sequence[Flows]) -> Flows:
    """All flows of several parts."""
    return Flows(
        row=np.concatenate([part.row for part in parts]),
        pattern=np.concatenate([part.pattern for part in parts]),
        source=np.concatenate([part.source for part in parts]),
        target=np.concatenate([part.target for part in parts]),
        share=np.concatenate([part.share for part in parts]),
    )


def link_loads(paths: Paths, table: IntArray, flows: Flows, patterns: int) -> FloatArray:
    """Return the bytes on each link per byte of each pattern, shape (rows, patterns, links).

    Args:
        paths: of the route tables.
        table: route table of each row.
        flows: between slots of the rows.
        patterns: number of patterns.
    """
    taken = paths.links[table[flows.row], flows.source, flows.target]
    bins = ((flows.row * patterns + flows.pattern) * (paths.count + 1))[:, None] + taken
    size = len(table) * patterns * (paths.count + 1)
    weight = np.broadcast_to(flows.share[:, None], bins.shape)
    loads = np.bincount(bins.ravel(), weight.ravel(), size).reshape(len(table), patterns, -1)
    return np.asarray(loads[..., :-1])


def longest_path(paths: Paths, table: IntArray, flows: Flows, patterns: int) -> IntArray:
    """Return the links of the longest path of each pattern, shape (rows, patterns); 0 where nothing flows."""
    hops = paths.hops[table[flows.row], flows.source, flows.target]
    longest = paths.links.shape[-1] + 1
    bins = (flows.row * patterns + flows.pattern) * longest + hops
    met = np.bincount(bins, minlength=len(table) * patterns * longest).reshape(len(table), patterns, longest) > 0
    met[..., 0] = True
    return np.asarray(longest - 1 - met[..., ::-1].argmax(axis=-1))
