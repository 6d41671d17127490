"""A queue whose arrivals come in two phases and that completes at one rate: matrices of two rows, in closed form.

With `π_l` the probabilities of `l` waiting in either phase, `π_{l+1} = π_l·R`, the least solution of

    Λ + R·(Q − Λ − μ) + μR² = 0,

Λ the arrivals of the phases, `Q` their changes, `μ` the completions (Neuts 1981).  The eigenvalues of R are the roots
in (0, 1) of

    (1 − z)(λ₁ − μz)(λ₂ − μz) = z·(q₂₁(λ₁ − μz) + q₁₂(λ₂ − μz)),

its left eigenvectors `(z·q₂₁, −p₁)` with `p₁ = (1 − z)(λ₁ − μz) − q₁₂z`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
LEAST_RATE = 1e-6
"""A phase without arrivals has this share of the mean rate, so that no matrix is singular."""


@dataclass(frozen=True)
class Flows:
    """Rates of chains, each of shape (n,).

    Attributes:
        first, second: arrivals of the phases.
        leave_first, leave_second: changes of phase.
        served: completions of a pool with a queue.
    """

    first: FloatArray
    second: FloatArray
    leave_first: FloatArray
    leave_second: FloatArray
    served: FloatArray

    @property
    def share(self) -> FloatArray:
        """Of time in the first phase, (n, 1)."""
        return np.asarray(self.leave_second / (self.leave_first + self.leave_second))[:, None]

    @property
    def mean(self) -> FloatArray:
        """Mean arrivals, (n, 1)."""
        return np.asarray(self.share * self.first[:, None] + (1.0 - self.share) * self.second[:, None])


Matrix = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""A matrix of two rows for each chain: its elements row by row, each of shape (n,)."""


def tail_of(flows: Flows) -> tuple[Matrix, FloatArray]:
    """R beyond the limit and its larger eigenvalue."""
    mu = flows.served
    one, two, leave, back = (x / mu for x in (flows.first, flows.second, flows.leave_first, flows.leave_second))
    # The cubic z³ − c₂z² + c₁z − c₀ with three real roots, of which the largest exceeds 1.
    c2 = 1.0 + one + two + leave + back
    c1 = one + two + one * two + back * one + leave * two
    mean, width = c2 / 3.0, np.sqrt(np.maximum(c2**2 / 9.0 - c1 / 3.0, 1e-300))
    turn = (mean**3 - c1 * mean / 2.0 + one * two / 2.0) / width**3
    angle = np.arccos(np.clip(turn, -1.0, 1.0)) / 3.0
    small = mean + 2.0 * width * np.cos(angle + 2.0 * np.pi / 3.0)
    large = mean + 2.0 * width * np.cos(angle - 2.0 * np.pi / 3.0)
    small, large = np.clip(small, 1e-12, 1.0 - 1e-9), np.clip(large, 2e-12, 1.0 - 1e-9)
    rows = [(z * back, leave * z - (1.0 - z) * (one - z)) for z in (small, large)]
    (a, b), (c, d) = rows
    det = a * d - b * c
    # R = X⁻¹·diag(z)·X with the eigenvectors as rows of X.
    found = (
        (small * a * d - large * b * c) / det,
        (small - large) * b * d / det,
        (large - small) * a * c / det,
        (large * a * d - small * b * c) / det,
    )
    return found, large


def summed(matrix: Matrix) -> Matrix:
    """(1 − R)⁻¹."""
    a, b, c, d = matrix
    det = (1.0 - a) * (1.0 - d) - b * c
    return (1.0 - d) / det, b / det, c / det, (1.0 - a) / det


def times(row: FloatArray, matrix: Matrix) -> FloatArray:
    """Rows of shape (n, 2) times matrices."""
    a, b, c, d = matrix
    return np.stack((row[:, 0] * a + row[:, 1] * c, row[:, 0] * b + row[:, 1] * d), axis=1)


def waiting(flows: Flows) -> FloatArray:
    """Mean number in a queue of one server, given the phase, shape (n, 2)."""
    tail, _ = tail_of(flows)
    away, back = flows.leave_first + tail[1] * flows.served, flows.leave_second + tail[2] * flows.served
    empty = np.stack((back, away), axis=1)
    all_levels = times(empty, summed(tail))
    some = times(times(all_levels, tail), summed(tail))
    return np.asarray(some / all_levels)


def flows_of(
    rate: FloatArray, load: FloatArray, relative: FloatArray, share: FloatArray, changes: FloatArray | float
) -> Flows:
    """Rates of phases.

    Args:
        rate: mean arrivals per second, shape (n,).
        load: arrivals over completions, shape (n,).
        relative: rate of each phase over the mean, shape (n, 2).
        share: of time in each phase, shape (2,).
        changes: phase rate per arrival.
    """
    per_s = rate * changes
    first, second = (rate * np.maximum(relative[:, phase], LEAST_RATE) for phase in (0, 1))
    return Flows(first, second, per_s * share[1], per_s * share[0], rate / load)
