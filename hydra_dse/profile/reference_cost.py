"""One instance of an operator in the readable reference: its parts and its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import OperatorClass

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Speed:
    """How many times as fast as designed each kind of resource is: for counterfactuals."""

    compute: float = 1.0
    memory: float = 1.0
    network: float = 1.0
    overhead: float = 1.0
    hops: float = 1.0


@dataclass(frozen=True, eq=False)
class OperatorCost:
    """One instance of an operator: its parts and its time.

    `compute_s` is that of the slowest die; `site_s` and `link_s` are busy seconds of each memory site and link.
    `varying_s`: mean time that experts placed whole take beyond, because the busiest resource varies with the routing.
    """

    name: str
    kind: OperatorClass
    count: int
    compute_s: float
    site_s: FloatArray
    link_s: FloatArray
    overhead_s: float
    hops_s: float
    energy_j: float
    dies: tuple[int, ...]
    varying_s: float = 0.0

    @property
    def memory_s(self) -> float:
        """Busy seconds of the most loaded memory site."""
        return float(self.site_s.max(initial=0.0))

    @property
    def network_s(self) -> float:
        """Busy seconds of the most loaded link."""
        return float(self.link_s.max(initial=0.0))

    @property
    def time_s(self) -> float:
        """The slowest resource, then what nothing hides."""
        return self.busiest_s + self.overhead_s + self.hops_s

    @property
    def busiest_s(self) -> float:
        """The slowest resource."""
        return max(self.compute_s, self.memory_s, self.network_s) + self.varying_s
