"""Ratios of contenders to the reference: per case with intervals over replications, over cases by bootstrap.

Replications share their random numbers over contenders, so the ratio of each is a paired observation: the interval is
that of the mean logarithm by Student's t.  Cases of one model and workload are alike: the bootstrap draws those pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.rng import derive

_DRAWS = 2000
_LEVEL = 0.95

FloatArray = NDArray[np.float64]
STATISTICS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "arithmetic mean": lambda values: np.nanmean(values, axis=-1),
    "geometric mean": lambda values: np.exp(np.nanmean(np.log(values), axis=-1)),
    "median": lambda values: np.nanmedian(values, axis=-1),
    "min": lambda values: np.nanmin(values, axis=-1),
    "max": lambda values: np.nanmax(values, axis=-1),
    "share below 1": lambda values: np.nansum(values < 1.0, axis=-1) / np.isfinite(values).sum(axis=-1),
}
"""Over the last axis; NaN pads groups of unlike sizes."""


@dataclass(frozen=True)
class Ratio:
    """A ratio with its 95 % interval; NaN where it does not exist."""

    value: float
    low: float = math.nan
    high: float = math.nan


def paired_ratio(mine: Sequence[float], others: Sequence[float]) -> Ratio:
    """Ratio of two series of positive values by replication."""
    pairs = [(a, b) for a, b in zip(mine, others, strict=False) if a > 0.0 and b > 0.0]
    if not pairs or len(pairs) < max(len(mine), len(others)):
        return Ratio(math.nan)
    logs = np.log([a / b for a, b in pairs])
    value = float(np.exp(logs.mean()))
    half = half_width(logs)
    return Ratio(value, value * math.exp(-half), value * math.exp(half))


def half_width(values: FloatArray) -> float:
    """Half of the 95 % interval of a mean by Student's t; NaN for one value."""
    from scipy.special import stdtrit

    if len(values) < 2:
        return math.nan
    quantile = float(stdtrit(len(values) - 1, 0.5 + _LEVEL / 2.0))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


@dataclass(frozen=True)
class SummaryRow:
    """A statistic of a ratio over cases, with a 95 % bootstrap interval over pairs of model and workload.

    Attributes:
        cases: that have the ratio.
        missing: cases that have none: one side serves nothing, never holds the SLO, or is saturated.
    """

    contender: str
    ratio: str
    statistic: str
    value: float
    low: float
    high: float
    cases: int
    missing: int


def summarise(
    contender: str, ratio: str, values: Sequence[float], groups: Sequence[object], seed: int
) -> list[SummaryRow]:
    """All statistics of one ratio: `values` and `groups`, what cases belong together, have one entry per case.

    A value is NaN where there is none.
    """
    array = np.array(values, dtype=float)
    there = np.isfinite(array) & (array > 0.0)
    if not there.any():
        return []
    kept = array[there]
    mine = [group for group, good in zip(groups, there, strict=True) if good]
    names = list(dict.fromkeys(mine))
    members = np.full((len(names), max(mine.count(name) for name in names)), math.nan)
    for row, name in enumerate(names):
        found = kept[[group == name for group in mine]]
        members[row, : len(found)] = found
    picks = derive(seed, "bootstrap", contender, ratio).integers(len(names), size=(_DRAWS, len(names)))
    drawn = members[picks].reshape(_DRAWS, -1)
    edges = (50 * (1 - _LEVEL), 50 * (1 + _LEVEL))
    counts = (len(kept), len(array) - len(kept))
    rows = []
    for label, statistic in STATISTICS.items():
        low, high = np.percentile(statistic(drawn), edges)
        rows.append(SummaryRow(contender, ratio, label, float(statistic(kept)), float(low), float(high), *counts))
    return rows
