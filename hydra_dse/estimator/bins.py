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


def bins_of(size: FloatArray, weight: FloatArray, edges: tuple[float, ...]) -> Bins:
    """Cut a weighted distribution at probabilities `edges`; a point that straddles an edge is divided."""
    order = np.argsort(size, kind="stable")
    cumulative = np.concatenate(([0.0], np.cumsum(weight[order])))
    mass = np.concatenate(([0.0], np.cumsum(weight[order] * size[order])))
    cuts = np.asarray(edges)
    halves = np.insert(cuts, np.arange(1, len(cuts)), (cuts[1:] + cuts[:-1]) / 2.0)
    at = np.interp(halves * cumulative[-1], cumulative, mass)
    means = (np.diff(at) / (np.diff(halves) * cumulative[-1])).reshape(-1, 2)
    mean, gap = means.mean(axis=1), (means[:, 1] - means[:, 0]) / 2.0
    probability = np.diff(cuts)
    # Slices with the same mean (fixed lengths) are one slice.
    keep = np.concatenate(([True], np.diff(mean) > 1e-9 * mean[-1]))
    index = np.cumsum(keep) - 1
    merged = np.bincount(index, weights=probability)

    def joined(values: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(index, weights=probability * values) / merged)

    return Bins(joined(mean), np.asarray(merged, dtype=float), np.maximum(joined(gap), 0.0))
