"""Designs whose packages run slower than they could: every iteration takes longer, for the same energy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch
from hydra_dse.profile.block import Spent
from hydra_dse.profile.nouns import PoolModel, ServiceProfile

FloatArray = NDArray[np.float64]


@runtime_checkable
class SplitsEnergy(Protocol):
    """A pool that knows what its energy is spent on."""

    def spent(self, batch: Batch) -> Spent:
        """Dynamic energy of an iteration by what it is spent on, shape (n, k) each."""


@dataclass(frozen=True)
class SlowedPool:
    """A pool whose iterations take `stretch` times as long, shape (n,)."""

    pool: PoolModel
    stretch: FloatArray

    def time_s(self, batch: Batch) -> FloatArray:
        """Longer than that of the pool."""
        return np.asarray(self.pool.time_s(batch) * self.stretch[:, None])

    def busy_s(self, batch: Batch) -> Mapping[str, FloatArray]:
        """Longer than those of the pool: its resources are as busy as before."""
        return {name: seconds * self.stretch[:, None] for name, seconds in self.pool.busy_s(batch).items()}

    def energy_j(self, batch: Batch) -> FloatArray:
        """As of the pool."""
        return self.pool.energy_j(batch)

    def spent(self, batch: Batch) -> Spent:
        """As of the pool."""
        if not isinstance(self.pool, SplitsEnergy):
            raise TypeError("the pool does not know what its energy is spent on")
        return self.pool.spent(batch)


def slowed(profile: ServiceProfile, stretch: FloatArray) -> ServiceProfile:
    """Return the profile of the same designs with iterations `stretch` times as long, shape (n,)."""

    def of(pools: Mapping[str, PoolModel]) -> dict[str, PoolModel]:
        return {name: SlowedPool(pool, stretch) for name, pool in pools.items()}

    roles = profile.roles
    if roles is not None:
        roles = replace(roles, pools=tuple(of(pools) for pools in roles.pools))
    return replace(profile, pools=of(profile.pools), roles=roles)
