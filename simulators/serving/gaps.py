"""Gaps between the tokens of a run, in its measured window: every one, or their distribution where there are too many.

Up to `EXACT` different gaps are kept as they are.  Beyond that they are counted in classes of equal relative width
`WIDTH`, each with the sum of its gaps: means stay exact, percentiles are off by less than `WIDTH`.
"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

EXACT = 1 << 20
WIDTH = 1e-4
SHORTEST_S, LONGEST_S = 1e-9, 1e9
"""Gaps outside lie in the first and the last class."""
_STEP = float(np.log1p(WIDTH))
_AT_ONCE = 1 << 16
_CLASSES = int(np.log(LONGEST_S / SHORTEST_S) / _STEP) + 1


class GapLog:
    """Takes gaps between its first and its second mark.

    Args:
        exact: how many entries are kept one by one; at the next they are put into classes.
    """

    def __init__(self, exact: int = EXACT) -> None:
        self._exact = exact
        self._marks = 0
        self._gap_s = array("d")
        self._weight = array("i")
        self._classes: tuple[FloatArray, FloatArray] | None = None

    def mark(self) -> None:
        """Begin, or end."""
        self._marks += 1

    def add(self, gap_s: float, tokens: int) -> None:
        """Book the gap before a token of `tokens` sequences."""
        if tokens and self._marks == 1:
            self._gap_s.append(gap_s)
            self._weight.append(tokens)
            if len(self._gap_s) > self._exact:
                self._fold()

    @property
    def open(self) -> bool:
        """Whether gaps are taken now."""
        return self._marks == 1

    def extend(self, gap_s: FloatArray, tokens: int) -> None:
        """Book consecutive gaps of the same `tokens` sequences."""
        if self._marks == 1:
            self._gap_s.frombytes(gap_s.tobytes())
            self._weight.extend([tokens] * len(gap_s))
            if len(self._gap_s) > self._exact:
                self._fold()

    def values(self) -> tuple[FloatArray, FloatArray]:
        """Return gaps in s, and how many tokens had each."""
        if self._classes is None:
            return np.array(self._gap_s, dtype=np.float64), np.array(self._weight, dtype=np.float64)
        self._fold()
        weights, sums = self._classes
        used = np.flatnonzero(weights)
        return sums[used] / weights[used], weights[used]

    def _fold(self) -> None:
        """Move what is kept one by one into classes."""
        if self._classes is None:
            self._classes = np.zeros(_CLASSES), np.zeros(_CLASSES)
        weight, total = self._classes
        for start in range(0, len(self._gap_s), _AT_ONCE):
            gaps = np.frombuffer(self._gap_s[start : start + _AT_ONCE])
            weights = np.frombuffer(self._weight[start : start + _AT_ONCE], dtype=np.int32)
            place = (np.log(np.clip(gaps, SHORTEST_S, LONGEST_S) / SHORTEST_S) / _STEP).astype(np.int64)
            np.add.at(weight, place, weights)
            np.add.at(total, place, weights * gaps)
        self._gap_s, self._weight = array("d"), array("i")
