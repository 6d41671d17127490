"""Topologies and routes: which links a flow takes, without any load."""

from __future__ import annotations

from hydra_dse.hardware.topology import build_topology, floorplan
from hydra_dse.routing.deadlock import channel_dependencies_acyclic
from hydra_dse.routing.table import RouteTable, adjacency, hop_distances, route

__all__ = [
    "RouteTable",
    "adjacency",
    "build_topology",
    "channel_dependencies_acyclic",
    "floorplan",
    "hop_distances",
    "route",
]
