"""Slices of the distribution of a size."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Bins:
    """Slices of the distribution of a size.

    Attributes:
        size: conditional mean of each slice.
        weight: its probability.
        half_gap: the means of its lower and its upper half are this far from its mean.
    """

    size: FloatArray
    weight: FloatArray
    half_gap: FloatArray

    def spread_of(self, values: FloatArray) -> FloatArray:
        """How far values at the halves of each slice are from those at its mean, (..., bins) → the same shape."""
        if len(self.size) == 1:
            return np.zeros_like(values)
        return np.asarray(values @ self._spread)

    @cached_property
    def _spread(self) -> FloatArray:
        """`spread_of` as a matrix: the slope at each slice (`np.gradient`) times `half_gap`."""
        return np.asarray(np.gradient(np.eye(len(self.size)), self.size, axis=-1) * self.half_gap)


def means_between(edges: FloatArray, size: FloatArray, weight: FloatArray, value: FloatArray) -> FloatArray:
    """Mean of a quantity between probabilities of a size, shape (edges − 1,).

    Points stand for slices of a distribution: inside each the quantity rises along a line as steep as the flatter of
    the steps to its neighbours (a minmod limiter).  So it runs on from slice to slice, every mean is kept, and what
    is a point beside a gap stays one.
    """
    _, place = np.unique(size, return_inverse=True)
    total = np.bincount(place, weight)
    share, mean = total / weight.sum(), np.bincount(place, weight * value) / np.maximum(total, 1e-300)
    end = np.cumsum(share)
    mass = np.concatenate(([0.0], np.cumsum(share * mean)))
    at = np.minimum(np.searchsorted(end, edges, side="left"), len(share) - 1)
    inside = np.clip(edges - (end[at] - share[at]), 0.0, share[at])
    upto = mass[at] + mean[at] * inside + _slopes(mean, share)[at] / 2.0 * inside * (inside - share[at])
    return np.asarray(np.diff(upto) / np.diff(edges))


def _slopes(mean: FloatArray, share: FloatArray) -> FloatArray:
    """The flatter of the slopes to both neighbours; none at the ends and where they differ in sign."""
    slopes = np.zeros_like(mean)
    if len(mean) > 2:
        step = np.diff(mean) / np.maximum((share[1:] + share[:-1]) / 2.0, 1e-300)
        flatter = np.where(np.abs(step[1:]) < np.abs(step[:-1]), step[1:], step[:-1])
        slopes[1:-1] = np.where(step[1:] * step[:-1] > 0.0, flatter, 0.0)
    return slopes


def bins_of(size: FloatArray, weight: FloatArray, edges: tuple[float, ...]) -> Bins:
    """Cut a weighted distribution at probabilities `edges`; points over an edge are divided (`means_between`)."""
    cuts = np.asarray(edges)
    halves = np.insert(cuts, np.arange(1, len(cuts)), (cuts[1:] + cuts[:-1]) / 2.0)
    means = means_between(halves, size, weight, size).reshape(-1, 2)
    mean, gap = means.mean(axis=1), (means[:, 1] - means[:, 0]) / 2.0
    probability = np.diff(cuts)
    # Slices with the same mean (fixed lengths) are one slice.
    keep = np.concatenate(([True], np.diff(mean) > 1e-9 * mean[-1]))
    index = np.cumsum(keep) - 1
    merged = np.bincount(index, weights=probability)

    def joined(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(index, weights=probability * values) / merged)

    return Bins(joined(mean), np.asarray(merged, dtype=float), np.maximum(joined(gap), 0.0))
