"""95 % confidence intervals from replications and batch means (Student's t).

A run is cut into batches of consecutive requests; batch means are used as if independent while their lag-1
correlation is small, else the batches are made longer, down to one a replication (Law, Simulation Modeling and
Analysis, 5th ed., section 9.5.3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Interval = tuple[float, float]

CONFIDENCE = 0.95
BATCHES = (20, 10, 5, 2, 1)
SHORTEST_BATCH = 30
"""Values in a batch, at least."""
CORRELATED = 0.25
"""Correlation of neighbouring batches below which they count as independent."""


def interval_of(values: Sequence[float] | FloatArray, centre: float | None = None) -> Interval | None:
    """Interval of the mean of independent values; None for fewer than two (or undefined ones).

    Args:
        values: one per replication or batch.
        centre: the point estimate where it is not their mean.
    """
    values = np.asarray(values, dtype=np.float64)
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    from scipy.special import stdtrit  # imported late: 20 MB and 0.3 s, which a run needs at its end alone

    half = stdtrit(len(values) - 1, 0.5 + CONFIDENCE / 2) * values.std(ddof=1) / np.sqrt(len(values))
    middle = float(values.mean()) if centre is None else centre
    return middle - float(half), middle + float(half)


def batched_interval(
    samples: Sequence[FloatArray],
    statistic: Callable[[FloatArray], float],
    shortest: int = SHORTEST_BATCH,
    centre: float | None = None,
) -> Interval | None:
    """Interval of a statistic of correlated samples, one array per replication in order of arrival."""
    return interval_of(batch_values(samples, statistic, shortest), centre)


def batch_values(
    samples: Sequence[FloatArray], statistic: Callable[[FloatArray], float], shortest: int = SHORTEST_BATCH
) -> FloatArray:
    """Value of the statistic in each batch, with the most batches that may be taken as independent."""
    length = min((len(sample) for sample in samples), default=0)
    for batches in BATCHES:
        if batches > 1 and length // batches < shortest:
            continue
        values = [[statistic(part) for part in np.array_split(sample, batches)] for sample in samples if len(sample)]
        if batches < 5 or _lag_one(values) < CORRELATED:
            return np.array(values, dtype=np.float64).ravel()
    return np.zeros(0)


def _lag_one(runs: list[list[float]]) -> float:
    """Lag-1 correlation of batch values within runs, about the mean of all."""
    values = np.array(runs, dtype=np.float64)
    deviation = values - values.mean()
    variance = float((deviation**2).mean())
    if variance <= 0.0:
        return 0.0
    return float((deviation[:, 1:] * deviation[:, :-1]).mean()) / variance
