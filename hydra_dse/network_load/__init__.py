"""Link loads of placed packages and contention in closed form."""

from __future__ import annotations

from hydra_dse.network_load.collectives import (
    all_reduce_s,
    mesh_all_reduce_s,
    mesh_all_to_all_s,
    ring_all_reduce_s,
    ring_reduce_scatter_s,
    tree_all_reduce_s,
)
from hydra_dse.network_load.loads import LinkLoad, flow_latency_s, link_capacity, link_wait_s, transit_slots
from hydra_dse.network_load.sharing import pair_speeds

__all__ = [
    "LinkLoad",
    "all_reduce_s",
    "flow_latency_s",
    "link_capacity",
    "link_wait_s",
    "mesh_all_reduce_s",
    "mesh_all_to_all_s",
    "pair_speeds",
    "ring_all_reduce_s",
    "ring_reduce_scatter_s",
    "transit_slots",
    "tree_all_reduce_s",
]
