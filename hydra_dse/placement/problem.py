"""What a placement minimises: bytes on the mean link plus bytes on the worst link of every part of the work.

`J = (Σ_ij t_ij · hops_ij) / links + λ · Σ_k max_l load_kl`.  The first term is the weighted hops (energy, latency and
the load of the network as a whole).  The second is the time to move the traffic over links of one capacity: the parts
`k` take turns (operators of unlike die groups run one after the other), so each waits for its own worst link.  Both are
bytes on a link, so λ is a plain number.  λ = 1 weighs them equally (a choice of this project).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.hardware.components import Package
from hydra_dse.placement.patterns import Pattern
from hydra_dse.placement.region import Graph, Layout, graph_of, mask_of

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

WORST_LINK_WEIGHT = 1.0
_FIT_TOLERANCE = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """A package whose components want slots, and the traffic between them.

    Attributes:
        traffic: shape (components, components), bytes; the diagonal is ignored.
        parts: the same apart for what takes turns, shape (parts, components, components); by default all at once.
    """

    package: Package
    traffic: FloatArray
    parts: FloatArray | None = None

    @staticmethod
    def of(package: Package, traffic: FloatArray) -> Problem:
        """The problem of traffic of shape (components, components) or (parts, components, components)."""
        return Problem(package, traffic) if traffic.ndim == 2 else Problem(package, traffic.sum(axis=0), traffic)

    @property
    def count(self) -> int:
        """Number of components."""
        return self.package.die_count + self.package.stack_count

    @cached_property
    def is_core(self) -> BoolArray:
        """Per component: whether it passes traffic on."""
        core = np.ones(self.count, dtype=bool)
        if self.package.memory_is_leaf:
            core[self.package.die_count :] = False
        return core

    @cached_property
    def exchangeable(self) -> BoolArray:
        """Pairs `i < j` of one kind, shape (components, components): swapping a core and a leaf changes the layout."""
        same = self.is_core[:, None] == self.is_core
        pairs: BoolArray = np.triu(same, k=1)
        return pairs

    @property
    def core_count(self) -> int:
        """Number of components that pass traffic on."""
        return self.count - self.leaf_count

    @property
    def leaf_count(self) -> int:
        """Number of components that only end routes."""
        return self.package.stack_count if self.package.memory_is_leaf else 0

    @cached_property
    def fits(self) -> BoolArray | None:
        """Shape (components, slots): whether the slot is large enough; None for grids, whose tiles are all alike."""
        topology = self.package.topology
        if topology.kind != "floorplan":
            return None
        room = np.array([slot.width_mm * slot.height_mm for slot in topology.slots])
        return np.array(self.package.footprints_mm2)[:, None] <= room * _FIT_TOLERANCE

    @cached_property
    def graph(self) -> Graph:
        """Slots of the package with those that take a core and those that take a leaf."""
        if self.fits is None:
            return graph_of(self.package.topology)
        slots = [np.flatnonzero(self.fits[kind].any(axis=0)).tolist() for kind in (self.is_core, ~self.is_core)]
        return graph_of(self.package.topology, mask_of(slots[0]), mask_of(slots[1]))

    @cached_property
    def shares(self) -> NDArray[np.float32]:
        """Traffic as shares of the total, without the diagonal."""
        off_diagonal = self.traffic * (1.0 - np.eye(self.count))
        return (off_diagonal / self.scale).astype(np.float32)

    @cached_property
    def part_shares(self) -> NDArray[np.float32]:
        """Traffic of each part that moves any, as shares of the total, shape (parts, components, components)."""
        if self.parts is None:
            return self.shares[None]
        shares = (self.parts * (1.0 - np.eye(self.count)) / self.scale).astype(np.float32)
        moves: NDArray[np.float32] = shares[shares.any(axis=(1, 2))]
        return moves

    @cached_property
    def scale(self) -> float:
        """Total traffic in bytes (1 where there is none)."""
        return float(self.traffic.sum() - np.trace(self.traffic)) or 1.0

    @cached_property
    def flow(self) -> FloatArray:
        """Shares in both directions together: symmetric."""
        shares = self.shares.astype(np.float64)
        return shares + shares.T

    def layout_of(self, slots: IntArray) -> Layout:
        """Return which slots a placement uses for cores and for leaves."""
        return Layout(mask_of(slots[self.is_core].tolist()), mask_of(slots[~self.is_core].tolist()))

    def fitting(self, slots: IntArray) -> bool:
        """Whether every component fits its slot."""
        return self.fits is None or bool(self.fits[np.arange(self.count), slots].all())

    def legal(self, slots: IntArray) -> bool:
        """Whether the placement routes all traffic and every component fits its slot."""
        return self.fitting(slots) and self.graph.legal(self.layout_of(slots))

    def loads(self, pattern: Pattern, slots: IntArray) -> NDArray[np.float32]:
        """Share of the traffic that each part puts on each link, shape (parts, links)."""
        each = self.part_shares.swapaxes(0, 1) @ pattern.paths(slots)  # by source, too small for BLAS to start threads
        loads: NDArray[np.float32] = each.sum(axis=0)
        return loads

    def cost(self, pattern: Pattern, slots: IntArray) -> float:
        """Objective as a share of the total traffic; 0 without links."""
        return objective_of(self.loads(pattern, slots))

    def objective(self, slots: tuple[int, ...]) -> float:
        """Objective of a legal placement in bytes."""
        chosen = np.array(slots, dtype=np.int64)
        pattern = Pattern(self.package.topology, self.layout_of(chosen))
        return self.cost(pattern, chosen) * self.scale


def objective_of(loads: NDArray[np.float32]) -> float:
    """Objective of link loads of shape (parts, links), in their unit; 0 without links."""
    if not loads.size:
        return 0.0
    return float(loads.sum() / loads.shape[1] + WORST_LINK_WEIGHT * loads.max(axis=1).sum())
