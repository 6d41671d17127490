"""Two jobs that share a set of resources: prefill and decode iterations on the same stacks and links.

With `a_r`, `b_r` the busy share of resource `r` when a job runs alone, and speeds `x`, `y`, every resource is shared
max-min: a job gets what the other leaves, and half where both want more.  A job is as fast as its scarcest resource
lets it be, and what it then leaves elsewhere goes to the other:

    x = min(1, min_r max(1/2, 1 - y·b_r) / a_r),    y = min(1, min_r max(1/2, 1 - x·a_r) / b_r).

Both right sides fall in their argument, so alternating them from `y = 1` climbs to the fixed point in `x`.  It lies
on a half, on a one, or where two lines `x·a_r + y·b_r = 1` cross: each round therefore jumps to the crossing of the
lines that bind at present.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

_ROUNDS = 4


def pair_speeds(usage_a: ArrayLike, usage_b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the speeds in (0, 1] of two jobs while both run: the max-min point of the module's equations.

    Args:
        usage_a: shape (..., resources), busy share of each resource when job A runs alone, in [0, 1].
        usage_b: the same of job B.

    Returns:
        Speeds of shape (...).
    """
    a, b = np.broadcast_arrays(np.asarray(usage_a, dtype=np.float64), np.asarray(usage_b, dtype=np.float64))
    if not a.shape[-1]:
        return np.ones(a.shape[:-1]), np.ones(a.shape[:-1])
    y = np.ones(a.shape[:-1])
    for _ in range(_ROUNDS):
        x, at_a = _best(a, b, y)
        y, at_b = _best(b, a, x)
        y = _crossing(a, b, at_a, at_b, x, y)
    x, _ = _best(a, b, y)
    y, _ = _best(b, a, x)
    return x, y


def _best(own: FloatArray, other: FloatArray, other_speed: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Speed of a job beside another, and the resource that binds it (shape (..., 1))."""
    share = np.maximum(0.5, 1.0 - other_speed[..., None] * other)
    # Dividing by the larger of own and share gives 1 where the share suffices, and never divides by zero.
    speeds = share / np.maximum(own, share)
    at = speeds.argmin(axis=-1)[..., None]
    return np.take_along_axis(speeds, at, axis=-1)[..., 0], at


def _crossing(
    a: FloatArray, b: FloatArray, at_a: NDArray[np.int64], at_b: NDArray[np.int64], x: FloatArray, y: FloatArray
) -> FloatArray:
    """Return B's speed where the lines that bind A and B cross; `y` itself where either is not on a line."""
    a_r, b_r = (np.take_along_axis(usage, at_a, axis=-1)[..., 0] for usage in (a, b))
    a_q, b_q = (np.take_along_axis(usage, at_b, axis=-1)[..., 0] for usage in (a, b))
    determinant = a_r * b_q - a_q * b_r
    on_lines = (x < 1) & (y < 1) & (x * a_r > 0.5) & (y * b_q > 0.5) & (determinant > 1e-9)
    crossing = (a_r - a_q) / np.where(on_lines, determinant, 1.0)
    return np.where(on_lines, np.clip(crossing, 0.5, 1.0), y)
