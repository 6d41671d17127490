"""Which resources can ever be the most loaded one.

The load of resource `r` is `Σ_p c_p·a[p, r]` with coefficients `c_p ≥ 0` that only a batch knows.  A resource whose
`a[:, r]` is nowhere above that of another, or above a mean of two others, can never bind alone, so it is dropped before
any batch is seen.  This turns the maximum over some 80 links into one over a few, and is exact.

Where coefficients depend on each other, all that occur are sums of some extreme ones: what counts is then the load
at these, which drops more (`seen`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def envelope(loads: FloatArray, seen: FloatArray | None = None) -> FloatArray:
    """Keep the resources that may bind.

    Args:
        loads: shape (rows, patterns, resources), not negative.
        seen: loads at the extreme coefficients, shape (rows, extremes, resources); None = each pattern by itself.

    Returns:
        Shape (rows, patterns, kept), padded with zeros; `kept` is the largest number that any row needs (≥ 1).
    """
    rows, patterns, resources = loads.shape
    if patterns == 0 or rows == 0 or resources == 0:
        return np.zeros((rows, patterns, 1))
    if patterns == 1:
        return np.asarray(loads.max(axis=2, keepdims=True))
    seen = loads if seen is None else seen
    row, resource = np.nonzero(seen.any(axis=1))
    left = _Entries(row, resource, _at(seen, row, resource))
    best = [(candidate, _at(seen, np.arange(rows), candidate)) for candidate in _strong(seen)]
    for _, theirs in best:
        left = left.without(_dominated(left.load, theirs[:, left.row]))
    if np.isfinite(left.load).all():
        for (one, first), (two, second) in combinations(best, 2):
            itself = (left.resource == one[left.row]) | (left.resource == two[left.row])
            left = left.without(_below_mean(left.load, first[:, left.row], second[:, left.row]) & ~itself)
    return left.of(loads)


def _strong(seen: FloatArray) -> list[IntArray]:
    """The most loaded resources of each row, at each extreme and over all: few, which remove most others.

    Of those that are equal at an extreme the one that is most loaded over all, of equal ones the first.
    """
    most, whole = seen.max(axis=2, keepdims=True), seen.sum(axis=1)
    of_each = np.where(seen == most, whole[:, None], -1.0).argmax(axis=2)
    return [*of_each.T, whole.argmax(axis=1)]


@dataclass(frozen=True)
class _Entries:
    """Resources that are left: row and resource of each, shape (entries,), and its loads (extremes, entries)."""

    row: IntArray
    resource: IntArray
    load: FloatArray

    def without(self, gone: BoolArray) -> _Entries:
        """Those that stay."""
        stay = np.flatnonzero(~gone)
        return self if len(stay) == len(gone) else _Entries(self.row[stay], self.resource[stay], self.load[:, stay])

    def of(self, loads: FloatArray) -> FloatArray:
        """Loads of these resources, at the front of each row."""
        count = np.bincount(self.row, minlength=len(loads))
        place = np.arange(len(self.row)) - np.repeat(np.cumsum(count) - count, count)
        kept = np.zeros((*loads.shape[:2], max(1, int(count.max()))))
        kept[self.row, :, place] = loads[self.row, :, self.resource]
        return kept


def _at(seen: FloatArray, row: IntArray, resource: IntArray) -> FloatArray:
    """Loads of some resources, shape (extremes, entries)."""
    return np.ascontiguousarray(seen[row, :, resource].T)


def _dominated(mine: FloatArray, theirs: FloatArray) -> BoolArray:
    """Nowhere above and somewhere below."""
    return np.asarray((mine <= theirs).all(axis=0) & (mine < theirs).any(axis=0))


def _below_mean(mine: FloatArray, first: FloatArray, second: FloatArray) -> BoolArray:
    """Nowhere above a weighted mean of two strong resources: `x·first + (1 − x)·second ≥ mine` leaves some weight x.

    Of equal resources only the first is strong, so that a chain of removals ends at one that stays.
    """
    rise, need = first - second, mine - second
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = need / rise
    # Where both are equal every weight will do, or none.
    low = np.where(rise > 0.0, weight, np.where((rise == 0.0) & (need > 0.0), np.inf, 0.0)).max(axis=0)
    high = np.where(rise < 0.0, weight, 1.0).min(axis=0)
    return np.asarray(np.maximum(low, 0.0) <= np.minimum(high, 1.0))

