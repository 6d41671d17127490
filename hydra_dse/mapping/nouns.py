"""A mapped design: which dies run each operator, from which stacks each die is fed, what moves between dies.

Decisions only, no times.  Both the analytical profile and the simulators start from here.

Layout of operands ("aligned" homes).  Every operand of a group of dies lies on the unit interval.  Die `i` of the
group owns an interval as long as its share of the work, stack `j` holds an interval as long as its share of the
bandwidth; a byte flows from stack `j` to die `i` where the two overlap.  Prefill and decode pools read the same
copy, so a hand-off between them is a pointer, unless each pool has memories of its own (see `mapping.apart`).
"interleaved" homes spread every die's shard over all stacks.

The residual stream is sharded over all dies of a pool.  A column-parallel operator gathers it, a row-parallel
one reduces into it; the ledger of both is in `Transfer`.

A "stack" in every array below is a memory site: the package's stacks in component order, then the memory fixed to
dies that have some (a GPU), in the order of those dies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping.experts import ExpertPlacement
from hydra_dse.model.operators import Operator

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class MemorySite:
    """A place where operands lie: a stack of the package, or the memory of the die `component` itself.

    Attributes:
        bandwidth_bytes_per_s: the most it delivers.
        peak_bandwidth_bytes_per_s: interface peak that efficiencies are a share of.
        ports: NoI links it can feed; 0 for the memory of a die.
    """

    component: int
    name: str
    capacity_bytes: float
    bandwidth_bytes_per_s: float
    joules_per_byte: float
    peak_bandwidth_bytes_per_s: float
    ports: int = 0

    def achievable_bytes_per_s(self, efficiency: float) -> float:
        """Bandwidth of accesses that reach this share of the interface peak, never above what it delivers."""
        return min(self.bandwidth_bytes_per_s, self.peak_bandwidth_bytes_per_s * efficiency)


@dataclass(frozen=True)
class Transfer:
    """Activations between dies.

    Attributes:
        sources, targets: component indices of dies.
        share: shape (sources, targets): bytes moved per byte of the operand; entries of a die to itself are 0.
        elements_per_token: width of the operand, in elements per row of the operator.
        kind: `"gather"` (residual stream to the group), `"reduce"` (partial sums to the residual stream),
            `"dispatch"` (tokens to the dies of their experts), `"combine"` (back from them) `"forward"` (from the
            group of the preceding operator) or `"stage"` (residual stream to the next stage of a pipeline).
    """

    sources: tuple[int, ...]
    targets: tuple[int, ...]
    share: FloatArray
    elements_per_token: float
    kind: str = "gather"

    @property
    def moves(self) -> tuple[tuple[int, int, float], ...]:
        """Source, target and bytes per byte of the operand, of all pairs of dies between which something moves."""
        rows = zip(self.sources, self.share.tolist(), strict=True)
        return tuple(
            (source, target, share)
            for source, row in rows
            for target, share in zip(self.targets, row, strict=True)
            if share > 0.0
        )


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
        parallelism: `"tensor"` (each die holds a slice of every weight), `"replica"` (each a share of the rows) or
            `"expert"` (each some experts whole).
        scans: whether it runs convolutions and scans alone, cut by the dies' speed at them.
        experts: where experts lie under expert parallelism.  `work_share` is then the expected share of the expert
            rows, and `weight_fetch` is that of a batch that touches every expert.
    """

    die_groups: tuple[str, ...]
    dies: tuple[int, ...]
    work_share: FloatArray
    weight_fetch: FloatArray
    cache_fetch: FloatArray
    parallelism: str = "tensor"
    experts: ExpertPlacement | None = None
    scans: bool = False

    def weights_from(self, rows: float) -> FloatArray:
        """`weight_fetch` of an operator with `rows` rows: which experts are read depends on them."""
        return self.weight_fetch if self.experts is None else self.experts.weight_fetch(rows)


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
        capacity_bytes, weight_bytes: per stack, shape (stacks,); pools share one copy of the weights.
        cache_bytes: memory left for KV and state over all stacks that can be used in proportion (a stack that
            fills first bounds it).
        kv_bytes_per_token, state_bytes_per_sequence: of the served model at its precision.
        cache_share: share of the caches that lies in each stack, shape (stacks,); sums to 1.
        source_cache_bytes: memory for the caches of prompts where the prefill pool has memories of its own (all of the
            above is then the decode pool's); 0 where pools share their memory.
    """

    capacity_bytes: FloatArray
    weight_bytes: FloatArray
    cache_bytes: float
    kv_bytes_per_token: float
    state_bytes_per_sequence: float
    cache_share: FloatArray = field(default_factory=lambda: np.zeros(0))
    source_cache_bytes: float = 0.0


@dataclass(frozen=True)
class MappedDesign:
    """A design lowered for one model.

    Attributes:
        handoff_bytes_per_token, handoff_bytes_per_sequence: bytes that move when a request goes from prefill to
            decode; 0 where both pools read the same memory (the request is handed over by pointer).
        handoff: shape (components, components): bytes from stack to stack per byte handed over; sums to 1, empty for a
            pointer.
        sites: the memory sites that the stack axes of all arrays stand for.
        component_count: dies and stacks of the package: the size of traffic matrices.
    """

    pools: tuple[MappedPool, ...]
    memory: MemoryPlan
    handoff_bytes_per_token: float = 0.0
    handoff_bytes_per_sequence: float = 0.0
    handoff: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    sites: tuple[MemorySite, ...] = ()
    component_count: int = 0

    def pool(self, name: str) -> MappedPool:
        """Return the pool called `name`."""
        for pool in self.pools:
            if pool.name == name:
                return pool
        raise KeyError(name)
