"""Two jobs that share a set of resources: prefill and decode iterations on the same stacks and links."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def pair_speeds(usage_a: ArrayLike, usage_b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the speeds in (0, 1] of two jobs while both run.

    Each resource is shared max-min on its own: with demands `a` and `b` (busy shares when a job runs alone), job A
    gets `min(a, max(1/2, 1 - b))`.  A job is as fast as its scarcest resource lets it be.  What a job leaves unused
    on one resource because another holds it back is not given away, so the speeds are a lower bound of the fair
    point and always feasible.

    Args:
        usage_a: shape (..., resources), busy share of each resource when job A runs alone, in [0, 1].
        usage_b: the same of job B.

    Returns:
        Speeds of shape (...).
    """
    a, b = np.asarray(usage_a, dtype=np.float64), np.asarray(usage_b, dtype=np.float64)
    return _speed(a, b), _speed(b, a)


def _speed(own: FloatArray, other: FloatArray) -> FloatArray:
    share = np.maximum(0.5, 1.0 - other)
    # Dividing by the larger of own and share gives 1 where the share suffices, and never divides by zero.
    speed: FloatArray = (share / np.maximum(own, share)).min(axis=-1, initial=1.0)
    return speed
