"""The odds of a front: from scores under many calibrations to probabilities and expected losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.estimator.calibration_draws import DECIDED
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import FloatArray, nondominated
from hydra_dse.search.scores import ScoreTable

ON, OFF, UNDECIDED = "on front", "off front", "undecided"


@dataclass(frozen=True)
class FrontOdds:
    """One design under all draws.

    Attributes:
        on_front: on the run's front, that of the calibration itself.
        in_front: share of draws in which it is on the front.
        feasible: share of draws in which it meets all constraints.
        best: share of draws in which it is the best of each objective, shape (objectives,).
        regret: expected share of each objective that is lost to the best of the draw, shape (objectives,).
        dominated_by: expected share of all objectives at once that is lost: where another design of the draw beats
            it in every objective, by at least this (0 on the front).
        values: objectives under the calibration itself, shape (objectives,).
        slow_values: with slower memories; in_slow_front: on the front there.
    """

    design: str
    on_front: bool
    in_front: float
    feasible: float
    best: tuple[float, ...]
    regret: tuple[float, ...]
    dominated_by: float
    values: tuple[float, ...]
    slow_values: tuple[float, ...]
    in_slow_front: bool

    @property
    def status(self) -> str:
        """On or off the front in nine of ten draws, or undecided."""
        if self.in_front >= DECIDED:
            return ON
        return OFF if self.in_front <= 1.0 - DECIDED else UNDECIDED


@dataclass(frozen=True)
class Comparison:
    """The statement that `better` beats `worse` in an objective, as the calibration itself has it.

    Attributes:
        holds: share of draws in which it is so.
        decided: whether that is nine of ten; a statement whose sign flips more often is undecided.
        ratio: of the values, above 1 in favour of the better; low, high: 5 % and 95 % quantile over the draws.
    """

    objective: str
    better: str
    worse: str
    holds: float
    decided: bool
    ratio: float
    low: float
    high: float


def odds_of(
    identities: Sequence[str],
    front: int,
    objectives: Objectives,
    nominal: ScoreTable,
    slow: ScoreTable,
    draws: Sequence[ScoreTable],
) -> list[FrontOdds]:
    """The odds of all designs, the surest first.

    Args:
        identities: of the designs; the first `front` are the run's front.
        front: how many those are.
        objectives: of the run.
        nominal: scores under the calibration itself.
        slow: with slower memories.
        draws: scores under each draw.
    """
    usable = np.array([_usable(table) for table in draws]).reshape(-1, len(identities))
    losses = np.array([_log_losses(objectives, table) for table in draws])
    losses = np.where(usable[..., None], losses.reshape(*usable.shape, -1), np.inf)
    count = len(draws)
    in_front = np.array([_front(losses[row], usable[row]) for row in range(count)]).reshape(usable.shape)
    least = losses.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        lost = 1.0 - np.exp(-(losses - least))
    best = (losses == least) & usable[..., None]
    beaten = np.array([_beaten(losses[row]) for row in range(count)]).reshape(usable.shape)
    values, slow_values = (_values(objectives, table) for table in (nominal, slow))
    slow_front = _front(_log_losses(objectives, slow), _usable(slow))
    rows = [
        FrontOdds(
            identity,
            row < front,
            float(in_front[:, row].mean()) if count else float("nan"),
            float(usable[:, row].mean()) if count else float("nan"),
            tuple(best[:, row].mean(axis=0).tolist()),
            tuple(np.nan_to_num(lost[:, row], nan=1.0).mean(axis=0).tolist()),
            float(beaten[:, row].mean()) if count else float("nan"),
            tuple(values[row].tolist()),
            tuple(slow_values[row].tolist()),
            bool(slow_front[row]),
        )
        for row, identity in enumerate(identities)
    ]
    return sorted(rows, key=lambda one: (-one.in_front, one.dominated_by, one.design))


def comparisons(
    identities: Sequence[str], objectives: Objectives, nominal: ScoreTable, draws: Sequence[ScoreTable]
) -> list[Comparison]:
    """Every pair of the first designs in every objective, as the calibration itself orders it."""
    count = len(identities)
    middle = _log_losses(objectives, nominal)[:count]
    drawn = np.array([_log_losses(objectives, table)[:count] for table in draws])
    found = []
    for at, name in enumerate(objectives.names):
        for first in range(count):
            for second in range(first + 1, count):
                better, worse = (first, second) if middle[first, at] <= middle[second, at] else (second, first)
                apart = drawn[:, worse, at] - drawn[:, better, at] if len(draws) else np.zeros(1)
                apart = apart[np.isfinite(apart)]
                holds = float((apart > 0).mean()) if len(apart) else float("nan")
                low, high = np.exp(np.quantile(apart, [0.05, 0.95])).tolist() if len(apart) else (np.nan, np.nan)
                ratio = float(np.exp(middle[worse, at] - middle[better, at]))
                pair = (identities[better], identities[worse])
                found.append(Comparison(name, *pair, holds, holds >= DECIDED, ratio, low, high))
    return found


def _usable(table: ScoreTable) -> np.ndarray:
    return np.array([not broken for broken in table.violations], dtype=bool)


def _values(objectives: Objectives, table: ScoreTable) -> FloatArray:
    return np.stack([np.asarray(table.metrics[name], dtype=float) for name in objectives.names], axis=-1)


def _log_losses(objectives: Objectives, table: ScoreTable) -> FloatArray:
    """Natural logs of the objectives, smaller is better, shape (designs, objectives)."""
    signs = np.where(objectives.maximised, -1.0, 1.0)
    values = np.maximum(_values(objectives, table), np.finfo(float).tiny)
    return np.asarray(np.log(values) * signs)


def _front(losses: FloatArray, usable: np.ndarray) -> np.ndarray:
    found = np.zeros(len(usable), dtype=bool)
    rows = np.flatnonzero(usable)
    if len(rows):
        found[rows[nondominated(losses[rows])]] = True
    return found


def _beaten(losses: FloatArray) -> FloatArray:
    """Share of all objectives that each design loses to the design which beats it most in the worst one."""
    with np.errstate(invalid="ignore"):
        apart = losses[:, None, :] - losses[None, :, :]  # [design, rival]: how much the rival is better
        least = np.nan_to_num(apart, nan=0.0).min(axis=2).max(axis=1)
    return np.asarray(1.0 - np.exp(-np.maximum(least, 0.0)))
