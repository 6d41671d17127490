"""Which designs that were not simulated belong on the front once the estimates are corrected by simulation."""

from __future__ import annotations

import numpy as np

from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray, nondominated
from hydra_dse.studies.designs_table import ScoredDesigns
from hydra_dse.studies.residual import fit_residual
from hydra_dse.studies.selection import spread_order
from hydra_dse.studies.simulated_front import SimulatedFront

FEWEST = 3
"""Simulated designs below which nothing can be learnt about the others."""


def promoted(objectives: Objectives, designs: ScoredDesigns, front: SimulatedFront, most: int) -> list[int]:
    """Rows of feasible designs on the corrected front that were not simulated, at most `most`, spread along it."""
    if len(front.designs) < FEWEST:
        return []
    scores = designs.scores
    row_of = {identity: row for row, identity in enumerate(scores.identities)}
    simulated = np.array([row_of[identity] for identity in front.designs])
    features = _features(designs, objectives)
    values = {}
    for name in objectives.names:
        estimates = np.asarray(scores.metrics[name], dtype=np.float64)
        usable = (estimates[simulated] > 0.0) & (front.simulated[name] > 0.0)
        if usable.sum() >= FEWEST:
            known = simulated[usable]
            residual = fit_residual(estimates[known], front.simulated[name][usable], features[known])
            estimates = residual.corrected(estimates, features)
        values[name] = estimates.copy()
        values[name][simulated] = front.simulated[name]
    losses = objectives.scaled(objectives.losses(values))
    feasible = np.flatnonzero((scores.violation <= 0) & np.isfinite(losses).all(axis=1))
    best = feasible[nondominated(losses[feasible])]
    new = np.setdiff1d(best, simulated)
    return spread_order(losses, new, scores.identities)[:most] if len(new) else []


def _features(designs: ScoredDesigns, objectives: Objectives) -> FloatArray:
    """Log estimates of the objectives, the load, numeric parameters, and one column per further word."""
    scores = designs.scores
    columns = [np.log(np.maximum(scores.metrics[name], np.finfo(float).tiny)) for name in objectives.names]
    if "load" in scores.metrics:
        columns.append(scores.metrics["load"])
    for name in designs.points[0]:
        values = [point[name] for point in designs.points]
        if all(isinstance(value, int | float) for value in values):
            columns.append(np.array(values, dtype=np.float64))
        else:
            words = sorted({str(value) for value in values})
            columns += [np.array([float(str(value) == word) for value in values]) for word in words[1:]]
    table = np.stack(columns, axis=1)
    return np.where(np.isfinite(table), table, 0.0)
