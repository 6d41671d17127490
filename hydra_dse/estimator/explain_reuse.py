"""What stands behind the hit share of a prefix cache: its point on the curve of hits over capacity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.estimator.cached import Reused


@dataclass(frozen=True)
class CurvePoint:
    """Hits at one capacity, with the load as it is.

    Attributes:
        capacity_bytes: memory for cached entries.
        hit_share: prompt tokens found over all prompt tokens.
    """

    capacity_bytes: float
    hit_share: float


@dataclass(frozen=True)
class PrefixPoint:
    """The prefix cache of a design.

    Attributes:
        cache_bytes: memory for all caches; what running requests leave of it is the capacity.
        capacity_bytes: mean memory for cached entries, what running requests read together included.
        hit_share: prompt tokens found over all prompt tokens.
        device_share: prompt tokens found on the device over all prompt tokens; the rest comes from the host.
        stay_s: time for which an entry stays after its last use; `null` for recorded requests.
        curve: hits at powers of two of the capacity, an eighth to eight times.
    """

    cache_bytes: float
    capacity_bytes: float
    hit_share: float
    device_share: float
    stay_s: float | None
    curve: tuple[CurvePoint, ...]


FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def prefix_point(reused: Reused) -> PrefixPoint:
    """The point of a solved cache and its surroundings."""
    curve = tuple(
        CurvePoint(factor * reused.capacity_bytes, reused.hit_share_at(factor * reused.capacity_bytes))
        for factor in FACTORS
    )
    stay_s = reused.stay_s if np.isfinite(reused.stay_s) else None
    return PrefixPoint(reused.memory_bytes, reused.capacity_bytes, reused.hit_share, reused.device_share, stay_s, curve)
