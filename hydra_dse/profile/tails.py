"""Bounds of operator times that few designs need: kept one by one, so that the others need not evaluate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tails:
    """Forms ordered by row, then by operator.

    Attributes:
        place: of the operator, shape (entries,).
        form: factors of the features, shape (entries, features).
        start: first entry of each row and, at the end, the number of entries, shape (rows + 1,).
    """

    place: IntArray
    form: FloatArray
    start: IntArray

    def raise_to(self, times: FloatArray, values: FloatArray, rows: IntArray | slice) -> None:
        """Raise times, in place, to the largest of the bounds kept here.

        Args:
            times: of each operator, shape (designs, operators, k).
            values: of the features, shape (designs, features, k).
            rows: of the designs.
        """
        first, last = self.start[:-1][rows], self.start[1:][rows]
        count = last - first
        design = np.repeat(np.arange(len(count)), count)
        if not len(design):
            return
        entry = np.arange(len(design)) + np.repeat(first - np.cumsum(count) + count, count)
        place = self.place[entry]
        bound = (self.form[entry, None] @ values[design])[:, 0]
        change = (np.diff(design, prepend=-1) != 0) | (np.diff(place, prepend=-1) != 0)
        at = np.flatnonzero(change)
        most = np.maximum.reduceat(bound, at, axis=0)
        where = design[at], place[at]
        times[where] = np.maximum(times[where], most)


def tails_of(size: int, features: int, found: Sequence[tuple[int, IntArray, FloatArray]]) -> Tails:
    """Tails of `size` rows from lists of the place of an operator, rows, and forms of shape (rows, features)."""
    place = np.concatenate([np.full(len(rows), place) for place, rows, _ in found] or [np.zeros(0, dtype=np.int64)])
    row = np.concatenate([rows for _, rows, _ in found] or [np.zeros(0, dtype=np.int64)])
    form = np.concatenate([forms for *_, forms in found] or [np.zeros((0, features))])
    order = np.lexsort((place, row))
    start = np.searchsorted(row[order], np.arange(size + 1))
    return Tails(place[order], form[order], start)
