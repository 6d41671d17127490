"""Where weights, experts and caches of a mapped design lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design, MappingChoice
from hydra_dse.mapping.apart import apart, site_shares
from hydra_dse.mapping.experts import ExpertPlacement, place_experts, stored_shares
from hydra_dse.mapping.groups import groups_of_class, groups_of_pool, pool_names
from hydra_dse.mapping.layout import bandwidth_shares, fetch_matrix, work_shares
from hydra_dse.mapping.nouns import MemoryPlan, MemorySite
from hydra_dse.mapping.operands import Operands
from hydra_dse.mapping.staged import staged, staged_cache_shares, staged_weights
from hydra_dse.model.operators import OperatorClass
from hydra_dse.model.routing import Routing

FloatArray = NDArray[np.float64]


def memory_of(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> MemoryPlan:
    """The memory plan of a design; of pools with memories of their own that of the decode pool."""
    weights = stored_weights(design, operands, sites)
    if staged(design):
        share = staged_cache_shares(design, operands, sites)
        plan = memory_plan(sites, operands, weights, share)
        return replace(plan, cache_share=share / max(float(share.sum()), 1e-300))
    if not apart(design):
        return memory_plan(sites, operands, weights)
    source, target = (memory_plan(sites, operands, weights, share) for share in site_shares(design, sites))
    return replace(target, source_cache_bytes=source.cache_bytes)


def stored_weights(design: Design, operands: Operands, sites: Sequence[MemorySite]) -> FloatArray:
    """Weight bytes held in each site: one copy over all sites by bandwidth, experts placed whole where they are.

    Pools with memories of their own hold a copy each; packages that are stages hold their part.
    """
    if staged(design):
        return staged_weights(design, operands, sites)
    if apart(design):
        return np.asarray(operands.weight_bytes * np.sum(site_shares(design, sites), axis=0))
    share = bandwidth_shares(sites)
    weights = operands.weight_bytes * share
    for routing, held in _expert_bytes(design, operands).items():
        homes = expert_homes(design, share, routing)
        if homes is not None:
            weights = weights + held * (stored_shares(homes) - share)
    return weights


def _expert_bytes(design: Design, operands: Operands) -> dict[Routing, float]:
    """Bytes of all experts by their routing, empty without expert parallelism."""
    held: dict[Routing, float] = {}
    if design.mapping.parallelism == "expert":
        for operator in operands.operators:
            if operator.routing is not None and operator.kind is OperatorClass.EXPERTS:
                amount = operator.weight_copies * operator.weight_elements * operands.precision.weight_bytes
                held[operator.routing] = held.get(operator.routing, 0.0) + amount
    return held


def expert_homes(design: Design, site_share: FloatArray, routing: Routing) -> ExpertPlacement | None:
    """Where the experts of a routing lie: at the dies of the last pool (the one that decodes)."""
    members = groups_of_pool(design.package, pool_names(design)[-1], design.mapping.only)
    chosen = groups_of_class(members, design.mapping, OperatorClass.EXPERTS)
    if not chosen or not len(site_share):
        return None
    chiplets = [group.chiplet for group in chosen for _ in range(group.count)]
    return dealt(design.mapping, routing, work_shares(chiplets), site_share)


def dealt(choice: MappingChoice, routing: Routing, work: FloatArray, site_share: FloatArray) -> ExpertPlacement:
    """Deal the experts of a routing to dies with given shares of the work."""
    feed = fetch_matrix(site_share, work, choice.homes)
    return place_experts(routing, work, feed, choice.expert_placement, choice.replicated_experts)


def memory_plan(
    sites: Sequence[MemorySite],
    operands: Operands,
    weights: FloatArray | None = None,
    share: FloatArray | None = None,
) -> MemoryPlan:
    """Weights as stored (by default one copy, by bandwidth); the site that fills first bounds the caches.

    `share`: of the caches in each site, by default its share of the bandwidth.
    """
    capacity = np.array([site.capacity_bytes for site in sites], dtype=np.float64)
    share = bandwidth_shares(sites) if share is None else share
    weights = operands.weight_bytes * share if weights is None else weights
    used = share > 0
    left = float(np.min((capacity[used] - weights[used]) / share[used])) if used.any() else 0.0
    return MemoryPlan(
        capacity_bytes=capacity,
        weight_bytes=weights,
        cache_bytes=max(0.0, left),
        kv_bytes_per_token=operands.kv_bytes_per_token,
        state_bytes_per_sequence=operands.state_bytes_per_sequence,
        cache_share=share,
    )
