"""Chakra execution traces (`.et`) of our bundles: operators, transfers and memory accesses of each rank as a graph."""

from __future__ import annotations

from hydra_dse.bundle.chakra.export import GROUPS, Exported, export
from hydra_dse.bundle.chakra.nodes import Node, NodeKind

__all__ = ["GROUPS", "Exported", "Node", "NodeKind", "export"]
