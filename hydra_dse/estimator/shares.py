"""Estimates at shares of each design's own saturation rate: designs of unlike speed at equal load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.estimator.feasibility import given
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.outputs import metrics_of
from hydra_dse.estimator.phases import phases_of, scv_beside
from hydra_dse.estimator.solvers import solver_of
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import residents_of
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile, kind_of
from hydra_dse.workload import pieces, served
from hydra_dse.workload.nouns import Workload

FloatArray = NDArray[np.float64]

SATURATION = "saturation_tokens_per_s"
TTFT = "ttft_mean_s"


def at_shares(
    designs: Sequence[Design], workload: Workload, calibration: CalibrationSet, shares: Sequence[float], seed: int = 0
) -> tuple[FloatArray, Mapping[float, FloatArray]]:
    """Saturation in tokens/s, and mean TTFT in s at each share of it; shape (designs,), NaN where infeasible.

    Args:
        designs: placed or not.
        workload: of one model, with a load that does not change in time; its rate is not used.
        calibration: of the dies.
        shares: of saturation, above 0 and below 1.
        seed: of the placement of designs that have none.

    Raises:
        InputError: several models, or a load that changes in time.
    """
    course, kinds = pieces(workload), served(workload)
    if len(kinds) > 1 or len(course) > 1:
        raise InputError(Fault("estimates at shares of saturation take one model and a load that does not change"))
    tokens = np.full(len(designs), np.nan)
    ttft = {share: np.full(len(designs), np.nan) for share in shares}
    groups: dict[object, list[tuple[int, Design]]] = {}
    for row, design in enumerate(designs):
        ready, violations = place_design(design, kinds[0].model, seed)
        if not violations:
            alone = residents_of(ready, [kinds[0].model])[0].design
            groups.setdefault(kind_of(alone.policy), []).append((row, alone))
    moments = moments_of(course[0].lengths)
    phases = phases_of(course[0].arrivals)
    scv = scv_beside(phases, course[0].arrivals)
    for members in groups.values():
        rows = np.array([row for row, _ in members])
        profile = build_profile([design for _, design in members], kinds[0].model, calibration)
        solver = solver_of(profile, moments)
        good = np.array([not broken for broken in given(profile, moments)])
        with np.errstate(all="ignore"):
            saturation = solver.saturation_per_s
            tokens[rows] = np.where(good, saturation * moments.output, np.nan)
            for share in shares:
                rate = share * saturation
                found = metrics_of(profile, solver.at(rate, scv, False, phases=phases), rate, moments, False)
                ttft[share][rows] = np.where(good, found[TTFT], np.nan)
    return tokens, ttft
