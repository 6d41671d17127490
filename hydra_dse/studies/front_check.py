"""What validation says about the choice itself: does the estimator's order hold, and what did it overlook?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.search.hypervolume import hypervolume
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import BoolArray, FloatArray
from hydra_dse.studies.dominance import SimulatedLosses

TOP, OUTSIDE, PROMOTED = "top", "outside", "promoted"
"""Why a design was simulated: chosen by its estimates, drawn at random from the rest, or promoted by the residual."""


@dataclass(frozen=True)
class OrderCheck:
    """How the estimates of one objective order the simulated designs.

    Attributes:
        kendall_tau, spearman: rank correlation of estimate and simulation, NaN for fewer than three designs.
        error_top, error_outside: mean signed relative error of the estimate among the chosen and the random designs:
            where the chosen ones look better than they are and the random ones do not, the choice favoured errors
            (the winner's curse).
    """

    objective: str
    designs: int
    kendall_tau: float
    spearman: float
    error_top: float
    error_outside: float


@dataclass(frozen=True)
class FrontCheck:
    """Whether the chosen designs are the best ones.

    Attributes:
        orders: one per objective.
        outside: random designs outside the choice that were simulated.
        outside_better: of those, how many certainly dominate a chosen design.
        regret: share of the hypervolume of all simulated designs that the chosen ones miss, NaN without outsiders.
        stable: whether the front stopped changing; None where that was not asked for.
        rounds: rounds of promotion made.
    """

    orders: tuple[OrderCheck, ...]
    outside: int
    outside_better: int
    regret: float
    stable: bool | None = None
    rounds: int = 0


def check_front(
    objectives: Objectives,
    roles: Sequence[str],
    estimates: Mapping[str, FloatArray],
    simulated: Mapping[str, FloatArray],
    losses: SimulatedLosses,
) -> FrontCheck:
    """Compare the chosen designs with each other and with those drawn from outside.

    Args:
        objectives: of the experiment.
        roles: `TOP`, `OUTSIDE` or `PROMOTED`, one per design.
        estimates: values by objective, shape (designs,).
        simulated: the same from simulation.
        losses: the simulated values as losses.
    """
    outside = np.array([role == OUTSIDE for role in roles], dtype=bool)
    orders = tuple(_order(name, estimates[name], simulated[name], outside) for name in objectives.names)
    beats = losses.certainly_dominates()[np.ix_(outside, ~outside)] if len(roles) else np.zeros((0, 0), dtype=bool)
    return FrontCheck(
        orders, int(outside.sum()), int(beats.any(axis=1).sum()), _regret(objectives.scaled(losses.values), outside)
    )


def _order(name: str, estimate: FloatArray, simulated: FloatArray, outside: BoolArray) -> OrderCheck:
    error = (estimate - simulated) / np.abs(simulated)
    top, rest = (float(error[mask].mean()) if mask.any() else math.nan for mask in (~outside, outside))
    return OrderCheck(name, len(estimate), kendall_tau(estimate, simulated), spearman(estimate, simulated), top, rest)


def kendall_tau(one: FloatArray, other: FloatArray) -> float:
    """Kendall's τ-b; NaN for fewer than three values or where all are equal."""
    if len(one) < 3:
        return math.nan
    rows, columns = np.triu_indices(len(one), 1)
    first, second = np.sign(one[rows] - one[columns]), np.sign(other[rows] - other[columns])
    scale = math.sqrt(float((first != 0).sum()) * float((second != 0).sum()))
    return float((first * second).sum()) / scale if scale else math.nan


def spearman(one: FloatArray, other: FloatArray) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN for fewer than three values or where all are equal."""
    if len(one) < 3:
        return math.nan
    first, second = ranks(one), ranks(other)
    scale = first.std() * second.std()
    return float(np.mean((first - first.mean()) * (second - second.mean())) / scale) if scale else math.nan


def ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, ties at their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2.0)[inverse], dtype=np.float64)


def _regret(scaled: FloatArray, outside: BoolArray) -> float:
    """Lost share of hypervolume, to a reference just beyond the worst simulated value of each objective."""
    if not outside.any() or outside.all():
        return math.nan
    extent = np.ptp(scaled, axis=0)
    reference = scaled.max(axis=0) + 0.1 * np.where(extent > 0.0, extent, 1.0)
    whole = hypervolume(scaled, reference)
    return 1.0 - hypervolume(scaled[~outside], reference) / whole if whole > 0.0 else math.nan
