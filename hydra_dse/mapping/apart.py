"""Pools with memories of their own: which stacks each pool uses, and what a hand-off between them moves.

`mapping.memories` names the memory groups of the prefill and of the decode pool.  Each holds a copy of the weights and
the caches of the requests that its pool serves.  At the hand-off the caches of a request flow from the stacks of the
first pool to those of the second: each stack holds an interval of them as long as its share of the bandwidth of its
pool, and a byte flows from stack to stack where the intervals overlap (over all pairs under "interleaved" homes).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.mapping.groups import groups_of_pool, pool_names
from hydra_dse.mapping.layout import bandwidth_shares, fetch_matrix
from hydra_dse.mapping.nouns import MemorySite

FloatArray = NDArray[np.float64]


def apart(design: Design) -> bool:
    """Whether the pools of a design have memories of their own."""
    return bool(design.mapping.memories)


def pools_on_packages_of_their_own(design: Design) -> bool:
    """Whether no package has dies of one pool, or memory of it, and dies or memory of the other."""
    if not design.package.parts or not apart(design):
        return False
    used: dict[str, set[int]] = {}
    for name in pool_names(design):
        groups = {group.name for group in groups_of_pool(design.package, name, design.mapping.only)}
        groups.update(design.mapping.memories.get(name, ()))
        used[name] = {
            number
            for number, part in enumerate(design.package.parts)
            if groups & {*(group.name for group in part.dies), *(group.name for group in part.memories)}
        }
    first, second = used.values()
    return not first & second


def site_shares(design: Design, sites: Sequence[MemorySite]) -> tuple[FloatArray, ...]:
    """Share of each site in what a pool keeps in memory, by pool; one and the same where they share the memory.

    Raises:
        InputError: memories of each pool with a policy that needs one memory.
    """
    names = pool_names(design)
    if not apart(design):
        return (bandwidth_shares(sites),) * len(names)
    _check(design)
    group_of = [group.name for group in design.package.memories for _ in range(group.count)]
    group_of += [""] * (len(sites) - len(group_of))  # the memory of a die belongs to no group
    bandwidth = np.array([site.bandwidth_bytes_per_s for site in sites], dtype=np.float64)
    shares = []
    for name in names:
        mine = np.array([group in design.mapping.memories.get(name, ()) for group in group_of], dtype=bool)
        used = np.where(mine, bandwidth, 0.0)
        shares.append(used / used.sum() if used.sum() > 0 else used)
    return tuple(shares)


def _check(design: Design) -> None:
    policy = design.policy
    wanted = {"serving": "disaggregated", "task_map": "static", "prefix_cache": False, "class_preemption": False}
    for name, value in wanted.items():
        if getattr(policy, name) != value:
            stated = str(getattr(policy, name)).lower()
            message = f"mapping.memories: memories of each pool are not modelled with policy.{name}: {stated}"
            raise InputError(Fault(f"{message}; use {name}: {str(value).lower()}, or let pools share their memory"))


def handoff_shares(design: Design, sites: Sequence[MemorySite], components: int) -> FloatArray:
    """Bytes from component to component per byte handed over, shape (components, components); empty for a pointer."""
    if not apart(design):
        return np.zeros((0, 0))
    source, target = site_shares(design, sites)
    at = [site.component for site in sites]
    matrix = np.zeros((components, components))
    matrix[np.ix_(at, at)] = fetch_matrix(source, target, design.mapping.homes)
    return matrix
