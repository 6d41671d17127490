"""Lengths of unions and intersections of intervals, by sorting: n log n, no loops over events."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.bundle.reading.nouns import FloatArray


@dataclass(frozen=True)
class Union:
    """Disjoint intervals in order: `start[i] < end[i] <= start[i + 1]`."""

    start: FloatArray
    end: FloatArray

    @property
    def length(self) -> float:
        """Measure of the set."""
        return float(np.sum(self.end - self.start))

    def below(self, points: FloatArray) -> FloatArray:
        """Measure of the part of the set below each point."""
        if not len(self.start):
            return np.zeros(len(points))
        whole = np.concatenate([[0.0], np.cumsum(self.end - self.start)])
        index = np.searchsorted(self.start, points, side="right")
        inside = np.clip(points - self.start[index - 1], 0.0, self.end[index - 1] - self.start[index - 1])
        return np.where(index > 0, whole[index - 1] + inside, 0.0)

    def within(self, start: FloatArray, end: FloatArray) -> FloatArray:
        """Measure of the part of the set in each window."""
        measured: FloatArray = self.below(end) - self.below(start)
        return measured

    def intersect(self, other: Union) -> Union:
        """The set of points in both."""
        edges = np.concatenate([self.start, self.end, other.start, other.end])
        if not len(self.start) or not len(other.start):
            return Union(np.empty(0), np.empty(0))
        edges = np.unique(edges)
        middle = (edges[:-1] + edges[1:]) / 2
        both = self._holds(middle) & other._holds(middle)
        return union(edges[:-1][both], edges[1:][both])

    def _holds(self, points: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        index = np.searchsorted(self.start, points, side="right") - 1
        held: np.ndarray[tuple[int], np.dtype[np.bool_]] = (index >= 0) & (points < self.end[index])
        return held


def union(start: FloatArray, end: FloatArray) -> Union:
    """The union of intervals; those of no length are left out."""
    chosen = end > start
    order = np.argsort(start[chosen], kind="stable")
    first, last = start[chosen][order], end[chosen][order]
    if not len(first):
        return Union(first, last)
    reach = np.maximum.accumulate(last)
    opens = np.concatenate([[True], first[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Union(first[opens], reach[closes])


def touching(start: FloatArray, end: FloatArray, weight: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """For each window the summed weight of the intervals that have a part in it: end > low and start < high."""
    begun, ended = np.argsort(start), np.argsort(end)
    until_begun = np.concatenate([[0.0], np.cumsum(weight[begun])])
    until_ended = np.concatenate([[0.0], np.cumsum(weight[ended])])
    before = until_begun[np.searchsorted(start[begun], high, side="left")]
    gone: FloatArray = until_ended[np.searchsorted(end[ended], low, side="right")]
    return before - gone
