"""Estimates of designs: place those that are not, group them by policy, profile and estimate each group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.cached import Reused, estimate_cached, session_s
from hydra_dse.estimator.estimate import ClassSlo, estimate
from hydra_dse.estimator.heat import HeatModel
from hydra_dse.estimator.mix_designs import estimate_models, meeting
from hydra_dse.estimator.orders import order_notes
from hydra_dse.estimator.package_metrics import with_cost
from hydra_dse.estimator.pieces import estimate_pieces
from hydra_dse.estimator.stationary_floor import applies, steady, with_floor
from hydra_dse.estimator.table import EstimateTable, scatter
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import residents_of, seen_by
from hydra_dse.model.blocks import Model
from hydra_dse.placement import place_designs
from hydra_dse.profile import build_profile, kind_of
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.results.nouns import Evaluation, Violation
from hydra_dse.workload import Piece, check_reuse, context_notes, pieces, served
from hydra_dse.workload.nouns import Workload

# Designs per profile: bounds the memory of its tables and keeps them in cache.
BLOCK = 512


def estimate_designs(
    designs: Sequence[Design],
    workload: Workload,
    calibration: CalibrationSet,
    *,
    percentiles: bool = True,
    max_rate: bool = False,
    temperature: bool = False,
    seed: int = 0,
) -> EstimateTable:
    """Estimate any mix of designs under one workload; rows are in the order of the designs.

    Args:
        designs: placed or not.
        workload: of one model or, if it does not change in time, of several.
        calibration: of the dies.
        percentiles: also p50, p90 and p99 of the latencies.
        max_rate: also the highest rate that meets the SLOs.
        temperature: also temperatures, and rates only up to what limits of temperature and power sustain; of one
            model under a load that does not change, without a prefix cache.
        seed: of the placement of designs that have none.

    Raises:
        InputError: several models under a workload that changes in time, or a policy that is not estimated.
    """
    kinds = served(workload)
    models = [kind.model for kind in kinds]
    if not designs:
        return EstimateTable({}, {}, {}, ())
    for design in designs:
        check_reuse(design.policy, workload)
    parts: list[tuple[NDArray[np.int64], EstimateTable]] = []
    placed = list(designs)
    without = [row for row, design in enumerate(designs) if design.placement is None]
    for row, (ready, violations) in zip(
        without, place_designs([designs[row] for row in without], models, seed), strict=True
    ):
        placed[row] = ready
        if violations:
            parts.append((np.array([row]), _unplaced(violations)))
    failed = {int(rows[0]) for rows, _ in parts}
    course = pieces(workload)
    cached = {row for row, design in enumerate(placed) if row not in failed and reuses(design, workload)}
    for row in sorted(cached):
        profile = build_profile([seen_by(placed[row], models[0])], models[0], calibration)
        if profile.violations and profile.violations[0]:
            cached.discard(row)
            continue
        options = (calibration, percentiles, max_rate)
        parts.append((np.array([row]), solve_cached(profile, placed[row], workload, *options)[0]))
    for rows in _groups(placed, failed | cached, models):
        for block in np.array_split(rows, -(-len(rows) // BLOCK)):
            mine = [placed[row] for row in block]
            if len(kinds) > 1:
                found = estimate_models(mine, workload, kinds, course, calibration, percentiles, max_rate)
            else:
                alone = [seen_by(design, models[0]) for design in mine]
                profile = build_profile(alone, models[0], calibration)
                heat = HeatModel(alone) if temperature else None
                found = _estimated(profile, workload, course, calibration, percentiles, max_rate, heat)
            parts.append((block, found))
    table = scatter(parts, len(designs))
    notes = (*table.notes, *context_notes(workload), *order_notes([design.policy for design in designs], workload))
    metrics = _with_sessions(table.metrics, workload, [design.policy.prefix_cache for design in designs], cached)
    return with_cost(EstimateTable(metrics, table.low, table.high, table.violations, notes), placed)


def reuses(design: Design, workload: Workload) -> bool:
    """Whether a design has a prefix cache and the workload something to find in it; several models have none."""
    if len({kind.model_index for kind in workload.classes}) > 1:
        return False
    return design.policy.prefix_cache and workload.has_prefixes


def solve_cached(
    profile: ServiceProfile,
    design: Design,
    workload: Workload,
    calibration: CalibrationSet,
    percentiles: bool = True,
    max_rate: bool = False,
) -> tuple[EstimateTable, Reused]:
    """Estimate one design with a prefix cache, by its profile."""
    solve = partial(_solved, profile, workload, calibration, percentiles, max_rate)
    return estimate_cached(profile, workload, design.policy, solve)


def _solved(
    profile: ServiceProfile,
    workload: Workload,
    calibration: CalibrationSet,
    percentiles: bool,
    max_rate: bool,
    course: Sequence[Piece],
    means_only: bool,
) -> EstimateTable:
    return _estimated(
        profile, workload, course, calibration, percentiles and not means_only, max_rate and not means_only
    )


def _with_sessions(
    metrics: dict[str, NDArray[np.float64]], workload: Workload, caches: Sequence[bool], cached: set[int]
) -> dict[str, NDArray[np.float64]]:
    """Metrics with the time of sessions, and a hit share of 0 where a cache has nothing to find."""
    found = dict(metrics)
    if any(caches) or workload.has_prefixes:
        share = found.get("prefix_hit_share", np.zeros(len(caches)))
        found["prefix_hit_share"] = np.where([row in cached for row in range(len(caches))], share, 0.0)
    if "e2e_mean_s" in found:
        seconds = session_s(workload, found["e2e_mean_s"])
        if seconds is not None:
            found["session_e2e_mean_s"] = seconds
    return found


def evaluate(
    designs: Sequence[Design],
    workload: Workload,
    calibration: CalibrationSet,
    *,
    max_rate: bool = False,
    temperature: bool = False,
) -> list[Evaluation]:
    """The same as one `Evaluation` per design."""
    table = estimate_designs(designs, workload, calibration, max_rate=max_rate, temperature=temperature)
    return table.evaluations()


def _estimated(
    profile: ServiceProfile,
    workload: Workload,
    course: Sequence[Piece],
    calibration: CalibrationSet,
    percentiles: bool,
    max_rate: bool,
    heat: HeatModel | None = None,
) -> EstimateTable:
    """One stationary estimate, or one over the pieces of a workload that changes in time."""
    error = calibration.default.relative_error
    if np.isfinite(course[0].duration_s):
        found = estimate_pieces(
            profile,
            course,
            lambda piece: _slos(workload, piece.class_shares),
            percentiles,
            max_rate=max_rate,
            calibration_error=error,
        )
        if not applies(course):
            return found
        mean = _estimated(profile, workload, (steady(course),), calibration, percentiles, False)
        return with_floor(found, mean, course)
    [piece] = course
    return estimate(
        profile,
        piece.arrivals,
        piece.lengths,
        percentiles=percentiles,
        max_rate=max_rate,
        class_slos=_slos(workload, piece.class_shares),
        calibration_error=error,
        heat=heat,
    )


def _slos(workload: Workload, shares: tuple[float, ...]) -> tuple[ClassSlo, ...]:
    return tuple(ClassSlo(share, kind.slo) for share, kind in zip(shares, workload.classes, strict=True))


def _unplaced(violations: tuple[Violation, ...]) -> EstimateTable:
    return EstimateTable({}, {}, {}, (violations,))


def _groups(designs: Sequence[Design], failed: set[int], models: Sequence[Model]) -> list[NDArray[np.int64]]:
    """Rows of designs that share what a profile needs to share, in order of first appearance."""
    groups: dict[object, list[int]] = {}
    for row, design in enumerate(designs):
        if row not in failed:
            met = meeting(residents_of(design, models)) if len(models) > 1 else ()
            groups.setdefault((kind_of(design.policy), met), []).append(row)
    return [np.array(rows, dtype=np.int64) for rows in groups.values()]
