"""What the solver of several models takes and returns: the models, how their pools meet, and their solutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.estimate import ClassSlo
from hydra_dse.estimator.solution import Solution
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints

FloatArray = NDArray[np.float64]


class Interplay(Protocol):
    """How pools of two models meet, the same way for all designs."""

    def same_dies(self, model: int, pool: str, other: int, other_pool: str) -> bool:
        """Whether two pools have dies in common."""

    def speeds(self, model: int, pool: str, mine: Batch, other: int, other_pool: str, theirs: Batch) -> FloatArray:
        """Speed of the first pool while both run, shape (n, k) of `mine`; `theirs` has shape (n, 1)."""


@dataclass(frozen=True)
class Member:
    """One model: its profile, and the requests that are for it.

    Attributes:
        cache_bytes: memory for all models if it is shared, else for this one; shape (n,).
        share: of all requests; promises: SLOs of its classes.
    """

    label: str
    profile: ServiceProfile
    share: float
    arrivals: ArrivalStatistics
    lengths: LengthPoints
    promises: tuple[ClassSlo, ...] = ()


@dataclass(frozen=True)
class MixSolution:
    """Solutions of all models under one load; `saturation_per_s` is that of the mix, shape (n,)."""

    solutions: tuple[Solution, ...]
    saturation_per_s: FloatArray
