"""Which resources can ever be the most loaded one.

The load of resource `r` is `Σ_p c_p·a[p, r]` with coefficients `c_p ≥ 0` that only a batch knows.  A resource whose
`a[:, r]` is nowhere above that of another can never bind alone, so it is dropped before any batch is seen.  This
turns the maximum over some 80 links into one over a handful, and is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def envelope(loads: FloatArray) -> FloatArray:
    """Keep the resources that may bind.

    Args:
        loads: shape (rows, patterns, resources), not negative.

    Returns:
        Shape (rows, patterns, kept), padded with zeros; `kept` is the largest number that any row needs (≥ 1).
    """
    rows, patterns, resources = loads.shape
    if patterns == 0 or rows == 0 or resources == 0:
        return np.zeros((rows, patterns, 1))
    if patterns == 1:
        return np.asarray(loads.max(axis=2, keepdims=True))
    # Two passes: a few strong candidates remove most resources, then the rest are compared pairwise.
    strong = [loads[:, pattern].argmax(axis=1) for pattern in range(patterns)] + [loads.sum(axis=1).argmax(axis=1)]
    below = np.zeros((rows, resources), dtype=bool)
    for candidate in strong:
        low, less = _compare(loads, loads[np.arange(rows), :, candidate])
        below |= low & less
    kept = _keep(loads, ~below)
    return _keep(kept, ~_below_other(kept))


def _below_other(loads: FloatArray) -> BoolArray:
    """Shape (rows, resources): whether another resource of the same row dominates; of equal ones the first stays."""
    size = loads.shape[2]
    below = np.zeros((loads.shape[0], size), dtype=bool)
    for other in range(size):
        low, less = _compare(loads, loads[:, :, other])
        less[:, other + 1 :] = True
        below |= low & less
    return below


def _compare(loads: FloatArray, other: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Shape (rows, resources): nowhere above one other of shape (rows, patterns), somewhere below it."""
    low = loads[:, 0] <= other[:, :1]
    less = loads[:, 0] < other[:, :1]
    for pattern in range(1, loads.shape[1]):
        mine, theirs = loads[:, pattern], other[:, pattern, None]
        low &= mine <= theirs
        less |= mine < theirs
    return low, less


def _keep(loads: FloatArray, mask: BoolArray) -> FloatArray:
    """Move the kept resources to the front, in order, and cut the rest."""
    place = mask.cumsum(axis=1)
    kept = np.zeros((*loads.shape[:2], max(1, int(place[:, -1].max()))))
    row, resource = np.nonzero(mask)
    kept[row, :, place[row, resource] - 1] = loads[row, :, resource]
    return kept
