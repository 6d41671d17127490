"""What keeps designs from being estimated, and what is left of their metrics then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.outputs import overload, starved
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.results.nouns import Violation

FloatArray = NDArray[np.float64]


def given(profile: ServiceProfile, lengths: LengthMoments) -> tuple[tuple[Violation, ...], ...]:
    """Violations that leave nothing to compute: the profile's own, else of memory."""
    own = profile.violations or tuple(() for _ in range(profile.size))
    return tuple(mine or more for mine, more in zip(own, starved(profile, lengths), strict=True))


def with_load(
    known: tuple[tuple[Violation, ...], ...], rate: FloatArray, saturation: FloatArray
) -> tuple[tuple[Violation, ...], ...]:
    """A design that is feasible but offered too much gets a violation of load."""
    return tuple(mine or more for mine, more in zip(known, overload(rate, saturation), strict=True))


def blank(name: str, values: FloatArray, infeasible: NDArray[np.bool_]) -> FloatArray:
    """Values without those of designs of which nothing can be computed; areas and offers stay."""
    keep = name in ("area_mm2", "interposer_mm2", "offered_requests_per_s")
    return values if keep or not infeasible.any() else np.where(infeasible, np.nan, values)
