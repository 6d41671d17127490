"""Which simulated designs dominate which, given that every simulated value has a confidence interval.

A difference counts when it is larger than the noise of both values together.  Intervals of the two designs are taken
as independent although they share random numbers, which makes the statements cautious; with several objectives each
comparison is made at a higher confidence so that a statement about a pair holds at 95 % (Bonferroni).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

ON_FRONT, UNDECIDED, DOMINATED = "on_front", "undecided", "dominated"

# Standard normal quantiles of 1 − 0.05 / (2 m) for m = 1, 2, 3, … comparisons at a joint 95 %.
_QUANTILES = (1.960, 2.241, 2.394, 2.498, 2.576, 2.638)


@dataclass(frozen=True, eq=False)
class SimulatedLosses:
    """Losses (smaller is better) and half-widths of their 95 % intervals, shape (designs, objectives).

    A half-width is 0 where a value is exact and NaN where its noise is unknown.
    """

    values: FloatArray
    half_widths: FloatArray

    def better(self) -> BoolArray:
        """`[a, b, j]`: design a is better than b in objective j beyond doubt."""
        difference = self.values[:, None, :] - self.values[None, :, :]
        return np.asarray(-difference > self._noise())

    def _noise(self) -> FloatArray:
        objectives = self.values.shape[1]
        widen = _QUANTILES[min(objectives, len(_QUANTILES)) - 1] / _QUANTILES[0]
        known = np.where(np.isnan(self.half_widths), np.inf, self.half_widths) * widen
        return np.hypot(known[:, None, :], known[None, :, :])

    def certainly_dominates(self) -> BoolArray:
        """`[a, b]`: a is better than b in every objective, or better in some and equal without noise in the rest."""
        better = self.better()
        same = (self.values[:, None, :] == self.values[None, :, :]) & (self._noise() == 0.0)
        return np.asarray((better | same).all(axis=2) & better.any(axis=2))

    def possibly_dominates(self) -> BoolArray:
        """`[a, b]`: nothing says that b is better than a in any objective."""
        ties = (self.values[:, None, :] == self.values[None, :, :]) & (self._noise() == 0.0)
        possible = np.asarray(~self.better().any(axis=2).T & ~ties.all(axis=2))
        np.fill_diagonal(possible, False)
        return possible


def statuses(losses: SimulatedLosses) -> tuple[str, ...]:
    """For each design: certainly dominated, certainly on the front of those given, or undecided."""
    dominated = np.asarray(losses.certainly_dominates().any(axis=0))
    doubtful = np.asarray(losses.possibly_dominates()[~dominated].any(axis=0))
    return tuple(
        DOMINATED if dominated[index] else UNDECIDED if doubtful[index] else ON_FRONT for index in range(len(dominated))
    )


def to_be_refined(losses: SimulatedLosses) -> list[int]:
    """Designs whose simulation should go on: undecided ones, and those that may dominate them."""
    found = statuses(losses)
    undecided = [index for index, status in enumerate(found) if status == UNDECIDED]
    rivals = losses.possibly_dominates()
    alive = [index for index, status in enumerate(found) if status != DOMINATED]
    return [index for index in alive if index in undecided or rivals[index, undecided].any()]
