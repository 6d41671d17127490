"""The distributions behind the percentiles of an estimate, for one design: what a CDF is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.designs import reuses
from hydra_dse.estimator.lengths import moments_of
from hydra_dse.estimator.outputs import starved
from hydra_dse.estimator.phases import phases_of, scv_beside
from hydra_dse.estimator.solvers import solver_of
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.mapping import residents_of
from hydra_dse.placement import place_design
from hydra_dse.profile import build_profile
from hydra_dse.workload import pieces, served
from hydra_dse.workload.nouns import Workload

FloatArray = NDArray[np.float64]
KINDS = ("ttft", "tpot", "tbt", "e2e")


def latency_quantiles(
    design: Design, workload: Workload, calibration: CalibrationSet, shares: Sequence[float], *, seed: int = 0
) -> dict[str, FloatArray]:
    """Quantiles in s of TTFT, TPOT, TBT and E2E at any shares, the same as the percentiles of `estimate_designs`.

    Args:
        design: placed or not.
        workload: of one model, under a load that does not change in time.
        calibration: of the dies.
        shares: between 0 and 1, shape (k,).
        seed: of the placement of a design that has none.

    Returns:
        By latency, shape (k,); empty where the estimate has no single distribution: several models, a load that
        changes in time, a prefix cache at work, a design that cannot serve or is overloaded.

    Raises:
        InputError: a policy that is not estimated.
    """
    models = [kind.model for kind in served(workload)]
    course = pieces(workload)
    if len(models) > 1 or np.isfinite(course[0].duration_s) or reuses(design, workload):
        return {}
    placed, violations = (design, ()) if design.placement is not None else place_design(design, models, seed)
    if violations:
        return {}
    profile = build_profile([residents_of(placed, models)[0].design], models[0], calibration)
    moments = moments_of(course[0].lengths, profile.emission)
    if (profile.violations and profile.violations[0]) or starved(profile, moments)[0]:
        return {}
    arrivals = course[0].arrivals
    with np.errstate(all="ignore"):
        solver = solver_of(profile, moments)
        if arrivals.rate_per_s >= solver.saturation_per_s[0]:
            return {}
        phases = phases_of(arrivals)
        solution = solver.at(np.full(1, arrivals.rate_per_s), scv_beside(phases, arrivals), True, phases=phases)
        spreads = {kind: getattr(solution, kind).spread for kind in KINDS}
        return {kind: spread.quantiles(tuple(shares))[0] for kind, spread in spreads.items() if spread is not None}
