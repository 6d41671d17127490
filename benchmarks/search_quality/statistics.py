"""Comparison of two sets of runs: means, a bootstrap interval of their ratio, Mann-Whitney's p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.rng import derive

_DRAWS = 10_000


@dataclass(frozen=True)
class Comparison:
    """Ours against another: `gain` is the ratio of means less 1, with its 95 % interval; `p` is two-sided."""

    gain: float
    low: float
    high: float
    p: float


def compared(ours: Sequence[float], other: Sequence[float]) -> Comparison:
    """Compare values of independent runs; a mean of 0 of the other makes the gain infinite."""
    from scipy.stats import mannwhitneyu

    mine, theirs = np.asarray(ours, dtype=float), np.asarray(other, dtype=float)
    rng = derive(0, "bootstrap")
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = float(mine.mean() / theirs.mean() - 1)
        mine_drawn = mine[rng.integers(len(mine), size=(_DRAWS, len(mine)))].mean(axis=1)
        theirs_drawn = theirs[rng.integers(len(theirs), size=(_DRAWS, len(theirs)))].mean(axis=1)
        low, high = np.percentile(mine_drawn / theirs_drawn - 1, [2.5, 97.5])
    return Comparison(gain, float(low), float(high), float(mannwhitneyu(mine, theirs, method="exact").pvalue))
