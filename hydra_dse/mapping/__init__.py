"""Operators to dies, operands to memory."""

from __future__ import annotations

from hydra_dse.mapping.apart import pools_on_packages_of_their_own
from hydra_dse.mapping.experts import ExpertPlacement
from hydra_dse.mapping.flows import (
    Flows,
    LedgerRow,
    flows_of,
    ledger,
    operator_traffic,
    reference_parts,
    reference_traffic,
    traffic,
)
from hydra_dse.mapping.formats import speed_of
from hydra_dse.mapping.groups import groups_of_class, groups_of_pool, pool_names
from hydra_dse.mapping.identity import components_key, mapping_key, package_key, token
from hydra_dse.mapping.layout import imbalance, memory_sites, nominal_peaks, overlaps
from hydra_dse.mapping.lower import keeps_weights, map_design, map_operands
from hydra_dse.mapping.nouns import (
    ExecutionGroup,
    MappedDesign,
    MappedOperator,
    MappedPool,
    MemoryPlan,
    MemorySite,
    Transfer,
)
from hydra_dse.mapping.operands import Operands, operands_of, precision_of
from hydra_dse.mapping.residents import Resident, residents_of, residents_violations, seen_by
from hydra_dse.mapping.roles import RolePlan, role_plan, swapped, switch_traffic
from hydra_dse.mapping.scans import LANES, ScanWork, scan_speeds, scan_work, vector_ratio
from hydra_dse.mapping.stages import block_names
from hydra_dse.mapping.transfers import forward_shares
from hydra_dse.mapping.violations import die_violations, mapping_violations, memory_violations

__all__ = [
    "LANES",
    "ExecutionGroup",
    "ExpertPlacement",
    "Flows",
    "LedgerRow",
    "MappedDesign",
    "MappedOperator",
    "MappedPool",
    "MemoryPlan",
    "MemorySite",
    "Operands",
    "Resident",
    "RolePlan",
    "ScanWork",
    "Transfer",
    "block_names",
    "components_key",
    "die_violations",
    "flows_of",
    "forward_shares",
    "groups_of_class",
    "groups_of_pool",
    "imbalance",
    "keeps_weights",
    "ledger",
    "map_design",
    "map_operands",
    "mapping_key",
    "mapping_violations",
    "memory_sites",
    "memory_violations",
    "nominal_peaks",
    "operands_of",
    "operator_traffic",
    "overlaps",
    "package_key",
    "pool_names",
    "pools_on_packages_of_their_own",
    "precision_of",
    "reference_parts",
    "reference_traffic",
    "residents_of",
    "residents_violations",
    "role_plan",
    "scan_speeds",
    "scan_work",
    "seen_by",
    "speed_of",
    "swapped",
    "switch_traffic",
    "token",
    "traffic",
    "vector_ratio",
]
