"""Which resources can ever be the most loaded one.

The load of resource `r` is `Σ_p c_p·a[p, r]` with coefficients `c_p ≥ 0` that only a batch knows.  A resource whose
`a[:, r]` is nowhere above that of another can never bind alone, so it is dropped before any batch is seen.  This
turns the maximum over some 80 links into one over a handful, and is exact.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_CHUNK_ELEMENTS = 4_000_000


def envelope(loads: FloatArray) -> FloatArray:
    """Keep the resources that may bind.

    Args:
        loads: shape (rows, patterns, resources), not negative.

    Returns:
        Shape (rows, patterns, kept), padded with zeros; `kept` is the largest number that any row needs (≥ 1).
    """
    rows, patterns, _ = loads.shape
    if patterns == 0 or rows == 0 or loads.shape[2] == 0:
        return np.zeros((rows, patterns, 1))
    # Two passes: a few strong candidates remove most resources, then the rest are compared pairwise.
    strong = np.concatenate([loads.argmax(axis=2), loads.sum(axis=1).argmax(axis=1)[:, None]], axis=1)
    candidates = np.take_along_axis(loads, strong[:, None, :], axis=2)
    kept = _keep(loads, ~_below(loads, candidates))
    return _keep(kept, ~_below_other(kept))


def _below(loads: FloatArray, others: FloatArray) -> NDArray[np.bool_]:
    """Shape (rows, resources): whether some other is as high everywhere and higher somewhere."""
    low, less = _compare(loads, others)
    return np.asarray((low & less).any(axis=2))


def _below_other(loads: FloatArray) -> NDArray[np.bool_]:
    """Shape (rows, resources): whether another resource of the same row dominates; of equal ones the first stays."""
    size = loads.shape[2]
    below = np.zeros((loads.shape[0], size), dtype=bool)
    later = np.arange(size)[:, None] > np.arange(size)[None, :]
    step = max(1, _CHUNK_ELEMENTS // (size * size))
    for start in range(0, loads.shape[0], step):
        part = loads[start : start + step]
        low, less = _compare(part, part)
        below[start : start + step] = (low & (less | later)).any(axis=2)
    return below


def _compare(loads: FloatArray, others: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Shape (rows, resources, others): nowhere above the other, somewhere below it."""
    low = np.ones((loads.shape[0], loads.shape[2], others.shape[2]), dtype=bool)
    less = np.zeros_like(low)
    for pattern in range(loads.shape[1]):
        mine, theirs = loads[:, pattern, :, None], others[:, pattern, None, :]
        low &= mine <= theirs
        less |= mine < theirs
    return low, less


def _keep(loads: FloatArray, mask: NDArray[np.bool_]) -> FloatArray:
    """Move the kept resources to the front and cut the rest."""
    width = max(1, int(mask.sum(axis=1).max()))
    order = np.argsort(~mask, axis=1, kind="stable")[:, :width]
    kept = np.take_along_axis(loads, order[:, None, :], axis=2)
    valid = np.take_along_axis(mask, order, axis=1)
    return np.where(valid[:, None, :], kept, 0.0)
