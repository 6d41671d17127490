"""A mapped design: which dies run each operator, from which stacks each die is fed, what moves between dies.

Decisions only, no times.  Both the analytical profile and the simulators start from here.

Layout of operands ("aligned" homes).  Every operand of a group of dies lies on the unit interval.  Die `i` of the
group owns an interval as long as its share of the work, stack `j` holds an interval as long as its share of the
bandwidth; a byte flows from stack `j` to die `i` where the two overlap.  Prefill and decode pools read the same
copy, so a hand-off between them is a pointer.  "interleaved" homes spread every die's shard over all stacks.

The residual stream is sharded over all dies of a pool.  A column-parallel operator gathers it, a row-parallel
one reduces into it; the ledger of both is in `Transfer`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Operator

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Transfer:
    """Activations between dies.

    Attributes:
        sources, targets: component indices of dies.
        share: shape (sources, targets): bytes moved per byte of the operand; entries of a die to itself are 0.
        elements_per_token: width of the operand, in elements per row of the operator.
    """

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    share: FloatArray
    elements_per_token: float


@dataclass(frozen=True)
class ExecutionGroup:
    """Dies that execute an operator together.

    Attributes:
        die_groups: names of the design's die groups in it.
        dies: component indices.
        work_share: share of the work per die, sums to 1.
        weight_fetch: shape (stacks, dies): bytes that flow per byte of (non-resident) weights; sums to the
            number of copies streamed (1 for a tensor split, the number of dies for replicas).
        cache_fetch: shape (stacks, dies): the same for KV and state; sums to 1.
    """

    die_groups: tuple[str, ...]
    dies: tuple[int, ...]
    work_share: FloatArray
    weight_fetch: FloatArray
    cache_fetch: FloatArray


@dataclass(frozen=True)
class MappedOperator:
    """An operator on its execution group.

    Attributes:
        group: index into `MappedPool.groups`.
        imbalance: work of the most loaded die over its fair share (≥ 1): heads that a split does not divide.
        resident_share: share of its weights that stay in SRAM and are not streamed.
    """

    operator: Operator
    group: int
    imbalance: float
    resident_share: float
    transfers: tuple[Transfer, ...]


@dataclass(frozen=True)
class MappedPool:
    """Dies that execute the iterations of one pool: `"serve"` (colocated), `"prefill"` or `"decode"`."""

    name: str
    groups: tuple[ExecutionGroup, ...]
    operators: tuple[MappedOperator, ...]


@dataclass(frozen=True)
class MemoryPlan:
    """Static memory of the package: who holds what.

    Attributes:
        capacity_bytes, weight_bytes: per stack, shape (stacks,).
        cache_bytes: memory left for KV and state over all stacks that can be used in proportion (a stack that
            fills first bounds it).
        kv_bytes_per_token, state_bytes_per_sequence: of the served model at its precision.
    """

    capacity_bytes: FloatArray
    weight_bytes: FloatArray
    cache_bytes: float
    kv_bytes_per_token: float
    state_bytes_per_sequence: float


@dataclass(frozen=True)
class MappedDesign:
    """A design lowered for one model."""

    pools: tuple[MappedPool, ...]
    memory: MemoryPlan
    handoff_bytes_per_token: float = 0.0
    handoff_bytes_per_sequence: float = 0.0

    def pool(self, name: str) -> MappedPool:
        """Return the pool called `name`."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)
