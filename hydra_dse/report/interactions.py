"""Which pairs of parameters decide together: what the cells of a pair explain beyond the sum of its two effects.

The ranks of an objective are fitted by one value a cell (a pair of values), and by the sum of one value each (least
squares over the cells, so that parameters that depend on each other share nothing twice).  The share of the variance
is (SS_cells − SS_sum − d·MSW)/SST, with d the cells less the rank of the sum and MSW the mean square within cells: what
chance alone gives is taken off, as for the effects of single parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from hydra_dse.report.charts import FloatArray

DRAWS = 40
MOST_PARAMETERS = 8
"""The most important ones, whose pairs are looked at."""
SIGNIFICANT = 0.05
"""Chance of one pair or more that is told and decides nothing, for an objective (Bonferroni)."""
NOTHING = 1e-9
"""Share that rounding leaves where groups say all."""
LEAST_A_CELL = 3.0
"""Designs that a cell has in the mean: with fewer a pair says nothing."""
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Interaction:
    """Share of an objective's variance that a pair explains beyond both alone, with its 90 % interval."""

    parameters: tuple[str, str]
    objective: str
    share: float
    low: float
    high: float


def interactions_of(
    codes: dict[str, tuple[Codes, int]], objective: str, ranks: FloatArray, rng: np.random.Generator
) -> list[Interaction]:
    """Pairs that explain something beyond chance, the strongest first.

    Args:
        codes: by parameter, the choices of n designs as numbers, and how many choices there are.
        objective: its name.
        ranks: of the objective, shape (n,).
        rng: for the bootstrap over designs.
    """
    draws = rng.integers(0, len(ranks), (DRAWS, len(ranks)))
    pairs = list(combinations(list(codes)[:MOST_PARAMETERS], 2))
    found = []
    for one, other in pairs:
        (first, _), (second, levels) = codes[one], codes[other]
        if len(ranks) < LEAST_A_CELL * len(np.unique(first * levels + second)):
            continue
        share, chance = interaction(first, second, ranks)
        if share > 0.0 and chance < SIGNIFICANT / len(pairs):
            drawn = [interaction(first[draw], second[draw], ranks[draw])[0] for draw in draws]
            low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
            found.append(Interaction((one, other), objective, share, min(low, share), max(high, share)))
    return sorted(found, key=lambda item: -item.share)


def interaction(first: Codes, second: Codes, values: FloatArray) -> tuple[float, float]:
    """Share of the variance of values, shape (n,), that two groupings explain only together, 0 … 1.

    And the chance of one as large where they do not (F test).
    """
    pairs, cells = np.unique(np.stack([first, second]), axis=1, return_inverse=True)
    cells = np.asarray(cells).ravel()
    count = np.bincount(cells).astype(np.float64)
    total = float(((values - values.mean()) ** 2).sum())
    if total == 0.0 or len(values) <= len(count):
        return 0.0, 1.0
    means = np.bincount(cells, values) / count
    weight = np.sqrt(count)
    columns = np.concatenate([_dummies(row) for row in pairs], axis=1) * weight[:, None]
    fit, _, rank, _ = np.linalg.lstsq(columns, weight * (means - values.mean()), rcond=None)
    beyond = float(((weight * (means - values.mean()) - columns @ fit) ** 2).sum())
    freedom, rest = len(count) - int(rank), len(values) - len(count)
    within = float(((values - means[cells]) ** 2).sum()) / rest
    share = float(np.clip((beyond - freedom * within) / total, 0.0, 1.0))
    if freedom < 1 or within == 0.0:
        return share, 0.0 if share > NOTHING else 1.0
    return share, float(fdtrc(freedom, rest, beyond / freedom / within))


def _dummies(codes: Codes) -> FloatArray:
    """One column for each value."""
    return np.asarray(codes[:, None] == np.unique(codes)[None, :], dtype=np.float64)


def rows_of(found: Sequence[Interaction], labels: dict[str, str], most: int) -> list[tuple[str, str, str]]:
    """The strongest pairs as texts: pair, objective, share with interval."""
    strongest = sorted(found, key=lambda item: -item.share)[:most]
    return [
        (" × ".join(item.parameters), labels[item.objective], f"{item.share:.2f}\n{item.low:.2f} to {item.high:.2f}")
        for item in strongest
    ]
