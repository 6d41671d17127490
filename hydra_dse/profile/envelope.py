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

TIE = 1e-9
"""Weight of the load over all extremes that decides between resources which are equal at one."""


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
    if rows == 1:
        return loads[:, :, _undominated(seen[0])]
    strong = _strong(seen)
    row, resource = np.nonzero(~_below_first(seen, strong[0]))
    left = _Entries(row, resource, _at(seen, row, resource))
    best = [_at(seen, np.arange(rows), candidate) for candidate in strong]
    for candidate, theirs in zip(strong, best, strict=True):
        low = (left.load <= theirs[:, left.row]).all(axis=0)
        left = left.without(low & (left.resource != candidate[left.row]))
    weak = np.flatnonzero(~np.any([left.resource == candidate[left.row] for candidate in strong], axis=0))
    stay = np.ones(len(left.row), dtype=bool)
    if len(weak) and np.isfinite(left.load).all():
        stay[weak] = False
        for first, second in combinations(best[1:] if len(best) > 3 else best, 2):
            rest = left.row[weak]
            weak = weak[~_below_mean(left.load[:, weak], first[:, rest], second[:, rest])]
        stay[weak[~_below_other(left.load[:, weak], left.row[weak])]] = True
    return left.without(~stay).of(loads)


def _undominated(seen: FloatArray) -> IntArray:
    """Resources of a single row, loads (extremes, resources), that no other dominates; of equal ones the first.

    Means of two others are not looked for: with one row a bound more costs less than the search.
    """
    whole = (seen / np.maximum(seen.max(axis=1, keepdims=True), 1e-300)).sum(axis=0)
    strong = int(whole.argmax())
    low: BoolArray = np.all(seen <= seen[:, strong, None], axis=0)
    low[strong] = False
    left = np.flatnonzero(~low)
    rest = seen[:, left]
    below = (rest[:, :, None] <= rest[:, None]).all(axis=0)
    # Of two that are equal the one behind goes.
    gone = below & ~(below.T & np.tri(len(left), dtype=bool).T)
    return left[~gone.any(axis=1)]


def _strong(seen: FloatArray) -> list[IntArray]:
    """The most loaded resources of each row, over all extremes and at each: few, which remove most others.

    Of those that are equal at an extreme it is the one that is most loaded over all, of equal ones the first: of equal
    resources at most one is strong, so that a chain of removals ends at one that stays.
    """
    most = np.maximum(seen.max(axis=2), 1e-300)
    whole = (1.0 / most)[:, None] @ seen
    return [whole[:, 0].argmax(axis=1), *(seen + (TIE * most)[:, :, None] * whole).argmax(axis=2).T]


def _below_first(seen: FloatArray, strong: IntArray) -> BoolArray:
    """Shape (rows, resources): nowhere above one resource of each row, which itself is not below."""
    which = np.arange(len(seen))
    theirs = seen[which, :, strong]
    low = seen[:, 0] <= theirs[:, :1]
    for extreme in range(1, seen.shape[1]):
        low &= seen[:, extreme] <= theirs[:, extreme, None]
    low[which, strong] = False
    return low


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


def _below_mean(mine: FloatArray, first: FloatArray, second: FloatArray) -> BoolArray:
    """Nowhere above a weighted mean of two strong resources: `x·first + (1 − x)·second ≥ mine` leaves some weight x."""
    rise, need = first - second, mine - second
    low = np.divide(need, rise, out=np.zeros_like(rise), where=rise > 0.0).max(axis=0)
    high = np.divide(need, rise, out=np.ones_like(rise), where=rise < 0.0).min(axis=0)
    # Where both are equal every weight will do, or none.
    none = ((rise == 0.0) & (need > 0.0)).any(axis=0)
    return np.asarray((np.maximum(low, 0.0) <= np.minimum(high, 1.0)) & ~none)


def _below_other(load: FloatArray, row: IntArray) -> BoolArray:
    """Whether another entry of the same row dominates one; of equal ones the first stays."""
    entry, below = np.arange(len(row)), np.zeros(len(row), dtype=bool)
    start, stop = np.searchsorted(row, row), np.searchsorted(row, row, side="right")
    for place in range(int((stop - start).max(initial=1)) if len(row) else 0):
        other = np.minimum(start + place, stop - 1)
        theirs = load[:, other]
        less = (load < theirs).any(axis=0) | (other < entry)
        below |= (load <= theirs).all(axis=0) & less
    return below
