"""Designs under a workload of several models: profiles of each model, and how their pools meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import InputError
from hydra_dse.estimator.estimate import ClassSlo
from hydra_dse.estimator.mix_nouns import Member
from hydra_dse.estimator.mix_outputs import estimate_mix
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import Resident, residents_of, residents_violations
from hydra_dse.model.operators import Batch
from hydra_dse.profile import build_profile
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.profile.pools import ProfiledContention, ProfiledPool
from hydra_dse.results.nouns import Violation
from hydra_dse.workload import Piece, Served
from hydra_dse.workload.by_model import part_of
from hydra_dse.workload.nouns import Workload

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PackageInterplay:
    """How the pools of models meet on packages that all divide their dies alike.

    Attributes:
        residents: of one of the designs.
        profiles: of each model.
    """

    residents: tuple[Resident, ...]
    profiles: tuple[ServiceProfile, ...]

    def same_dies(self, model: int, pool: str, other: int, other_pool: str) -> bool:
        """Whether two pools have dies in common."""
        return self.residents[model].meets(pool, self.residents[other], other_pool)

    def speeds(self, model: int, pool: str, mine: Batch, other: int, other_pool: str, theirs: Batch) -> FloatArray:
        """Max-min speed of the first pool while both run."""
        first, second = self.profiles[model].pools[pool], self.profiles[other].pools[other_pool]
        if not isinstance(first, ProfiledPool) or not isinstance(second, ProfiledPool):
            raise TypeError("pools that are not profiled have no contention")
        return ProfiledContention(first, second).speeds(mine, theirs)[0]


def meeting(residents: Sequence[Resident]) -> tuple[object, ...]:
    """Which pools of which models meet: designs alike in this are estimated together."""
    return (
        residents[0].shared,
        tuple(
            residents[a].meets(pool, residents[b], other)
            for a in range(len(residents))
            for b in range(a)
            for pool in residents[a].dies
            for other in residents[b].dies
        ),
    )


def estimate_models(
    designs: Sequence[Design],
    workload: Workload,
    kinds: Sequence[Served],
    course: Sequence[Piece],
    calibration: CalibrationSet,
    percentiles: bool,
    max_rate: bool,
) -> EstimateTable:
    """Estimate placed designs that share policy and meeting of pools under a workload of several models.

    Raises:
        InputError: a workload that changes in time.
    """
    if np.isfinite(course[0].duration_s):
        names = ", ".join(kind.model.name for kind in kinds)
        raise InputError(
            f"workload {workload.name!r} changes in time and mixes the models {names}: the estimator knows one or the "
            "other; simulate it, or give it stationary arrivals"
        )
    [piece] = course
    models = [kind.model for kind in kinds]
    residents = [residents_of(design, models) for design in designs]
    members = []
    for number, kind in enumerate(kinds):
        part = part_of(workload, piece, kind.classes)
        profile = build_profile([seen[number].design for seen in residents], kind.model, calibration)
        free = np.array([1.0 - design.policy.memory_watermark for design in designs])
        cache = np.array([seen[number].cache_bytes for seen in residents]) * free
        promises = tuple(ClassSlo(share, slo) for share, slo in part.promises)
        profile = replace(profile, cache_bytes=cache)
        members.append(Member(kind.label, profile, part.share, part.arrivals, part.lengths, promises))
    known = [
        residents_violations(design, models)
        or tuple(dict.fromkeys(broken for member in members for broken in _own(member.profile, row)))
        for row, design in enumerate(designs)
    ]
    return estimate_mix(
        members,
        PackageInterplay(residents[0], tuple(member.profile for member in members)),
        piece.arrivals,
        residents[0][0].shared,
        known,
        percentiles,
        max_rate=max_rate,
        calibration_error=calibration.default.relative_error,
    )


def _own(profile: ServiceProfile, row: int) -> tuple[Violation, ...]:
    return profile.violations[row] if profile.violations else ()
