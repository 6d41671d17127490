"""Two jobs that share a set of resources: prefill and decode iterations on the same stacks and links.

With `a_r`, `b_r` the busy share of resource `r` when a job runs alone, and speeds `x`, `y`, every resource is shared
max-min: a job gets what the other leaves, and half where both want more.  A job is as fast as its scarcest resource
lets it be, and what it then leaves elsewhere goes to the other:

    x = min(1, min_r max(1/2, 1 - y·b_r) / a_r),    y = min(1, min_r max(1/2, 1 - x·a_r) / b_r).

For two jobs this point maximises `x·y` within `x·a_r + y·b_r ≤ 1`, `x, y ≤ 1`: along the border, A's part `x·a_r` of
the binding resource grows with `x`, and `x·y` peaks where it passes 1/2 (the tangent point of a line, or a corner
between a line that B dominates and one that A dominates).  So two lines suffice, found by adding the most overdrawn
resource at the present point until none is (Kelley's cutting planes; four rounds for a hundred resources).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
Line = tuple[FloatArray, FloatArray]

_ROUNDS = 20
_OVERDRAWN = 1.0 + 1e-12


def pair_speeds(usage_a: ArrayLike, usage_b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the speeds in [1/2, 1] of two jobs while both run: the max-min point of the module's equations.

    Args:
        usage_a: shape (..., resources), busy share of each resource when job A runs alone, in [0, 1].
        usage_b: the same of job B.

    Returns:
        Speeds of shape (...).
    """
    a, b = np.broadcast_arrays(np.asarray(usage_a, dtype=np.float64), np.asarray(usage_b, dtype=np.float64))
    zero, one = np.zeros(a.shape[:-1]), np.ones(a.shape[:-1])
    if not a.shape[-1]:
        return one, one.copy()
    lines_a, lines_b = (one, zero), (zero, one)  # at first the bounds x ≤ 1 and y ≤ 1
    x, y = one, one
    for _ in range(_ROUNDS):
        drawn = x[..., None] * a + y[..., None] * b
        at = drawn.argmax(axis=-1)[..., None]
        worst, a_r, b_r = (np.take_along_axis(values, at, axis=-1)[..., 0] for values in (drawn, a, b))
        overdrawn = worst > _OVERDRAWN
        if not overdrawn.any():
            return x, y
        by_a = x * a_r >= y * b_r
        lines_a = _replaced(lines_a, (a_r, b_r), overdrawn & by_a)
        lines_b = _replaced(lines_b, (a_r, b_r), overdrawn & ~by_a)
        x, y = _best_point(lines_a, lines_b)
    scale = np.maximum((x[..., None] * a + y[..., None] * b).max(axis=-1), 1.0)
    return x / scale, y / scale


def _replaced(line: Line, other: Line, where: NDArray[np.bool_]) -> Line:
    return np.where(where, other[0], line[0]), np.where(where, other[1], line[1])


def _best_point(by_a: Line, by_b: Line) -> tuple[FloatArray, FloatArray]:
    """Maximise `x·y` below a line that A dominates and one that B dominates."""
    (a, b), (c, d) = by_a, by_b
    with np.errstate(divide="ignore", invalid="ignore"):
        determinant = a * d - b * c
        x, y = (d - b) / determinant, (a - c) / determinant
        # The tangent point of one line, where the other allows it (0 · ∞ on a bound counts as not allowed).
        on_a = 0.5 * c / a + 0.5 * d / b <= 1.0
        on_b = 0.5 * a / c + 0.5 * b / d <= 1.0
        x = np.where(on_a, 0.5 / a, np.where(on_b, 0.5 / c, x))
        y = np.where(on_a, 0.5 / b, np.where(on_b, 0.5 / d, y))
    return x, y
