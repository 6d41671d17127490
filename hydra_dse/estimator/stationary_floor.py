"""A load that changes in time never waits less than a steady one of the same mean rate.

For Poisson arrivals whose rate varies, the mean wait is at least that of Poisson arrivals at the mean rate (S. M. Ross,
"Average delay in queues with non-stationary Poisson arrivals", J. Appl. Prob. 15, 1978; proved by T. Rolski, Adv. Appl.
Prob. 13, 1981), and where the rate changes faster than requests pass through, it is that wait.  The solution by pieces
looks at each with the state that the one before left behind; where pieces are shorter than a visit, that state is all
there is, and the floor takes over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.pieces import joined_lengths
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.workload.nouns import ArrivalStatistics
from hydra_dse.workload.pieces import Piece

FloatArray = NDArray[np.float64]

VISITS = 3.0
"""Mean visits of a request within a quarter of the course: with fewer, the rate changes faster than the queue can."""
LATENCIES = ("ttft_", "e2e_")
ATTAINED = ("slo_attainment", "goodput_requests_per_s")
NOTE = "the rate changes faster than requests pass through: latencies are those of steady arrivals at the mean rate"


def steady(course: Sequence[Piece]) -> Piece:
    """One stationary piece with the mean rate and the lengths of all."""
    seconds = np.array([piece.duration_s for piece in course])
    rate = float(np.dot([piece.arrivals.rate_per_s for piece in course], seconds) / seconds.sum())
    cv = float(np.dot([piece.arrivals.cv for piece in course], seconds) / seconds.sum())
    share = np.array([piece.share for piece in course])
    share = share / share.sum()
    lengths = joined_lengths([piece.lengths for piece in course], share.tolist())
    classes = tuple(np.einsum("p,pc->c", share, np.array([piece.class_shares for piece in course])).tolist())
    return Piece(1.0, float("inf"), ArrivalStatistics(rate, cv), lengths, classes)


def applies(course: Sequence[Piece]) -> bool:
    """Whether the pieces are those of a varying rate: finite, and no record whose gaps are known."""
    return all(np.isfinite(piece.duration_s) and piece.path is None for piece in course)


def with_floor(by_pieces: EstimateTable, stationary: EstimateTable, course: Sequence[Piece]) -> EstimateTable:
    """The estimate by pieces, no better than the stationary one of the same mean rate."""
    quarter = sum(piece.duration_s for piece in course) / 4.0
    with np.errstate(invalid="ignore"):
        fast = stationary.metrics["e2e_mean_s"] * VISITS > quarter
    tables = [dict(by_pieces.metrics), dict(by_pieces.low), dict(by_pieces.high)]
    for table, other in zip(tables, (stationary.metrics, stationary.low, stationary.high), strict=True):
        for name, values in table.items():
            if name in other:
                table[name] = np.where(fast, other[name], _floor(name, values, other[name]))
    notes = (*by_pieces.notes, NOTE) if fast.any() else by_pieces.notes
    return replace(by_pieces, metrics=tables[0], low=tables[1], high=tables[2], notes=notes)


def _floor(name: str, values: FloatArray, stationary: FloatArray) -> FloatArray:
    if name.startswith(LATENCIES):
        return np.fmax(values, stationary) if np.isfinite(values).any() else values
    return np.fmin(values, stationary) if name in ATTAINED else values
