"""From values to places on a drawing, and the values that an axis names."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hydra_dse.report.charts import BEYOND, NARROW, Axis, FloatArray, shown_ends

_STEPS = (1.0, 2.0, 5.0, 10.0)
_MOST_TICKS = 7


@dataclass(frozen=True)
class Scale:
    """Maps `low` … `high` to `start` … `end` of the drawing, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, values: FloatArray | float) -> FloatArray:
        """Places of values; those outside stay outside."""
        low, high = self._of(self.low), self._of(self.high)
        share = (self._of(values) - low) / (high - low)
        return np.asarray(self.start + share * (self.end - self.start))

    def place(self, value: float) -> float:
        """Place of one value."""
        return float(self.at(value))

    def ticks(self) -> list[float]:
        """Round values inside, at most about seven."""
        return _log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)

    def _of(self, values: FloatArray | float) -> FloatArray:
        if not self.log:
            return np.asarray(values, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.log10(values), dtype=float)


def scale_for(
    axis: Axis,
    values: Iterable[FloatArray],
    start: float,
    end: float,
    ends: Iterable[FloatArray] = (),
    zero: bool = False,
) -> Scale:
    """The scale that shows all finite values with a margin.

    Args:
        axis: logarithmic only where all values are positive.
        values: what is drawn.
        start: place of the low end on the drawing.
        end: place of the high end.
        ends: of intervals; those far below all values end at the frame of a logarithmic axis instead of stretching it.
        zero: a linear axis begins at 0.
    """
    if axis.names:
        return Scale(-0.6, len(axis.names) - 0.4, start, end)
    known = _finite(values)
    log = axis.log and bool(len(known)) and bool((known > 0).all()) and bool(known.max() >= NARROW * known.min())
    if not len(known):
        return Scale(0.0, 1.0, start, end)
    known = np.concatenate((known, shown_ends(_finite(ends), known, log)))
    low, high = float(known.min()), float(known.max())
    if log:
        pad = max(0.05 * math.log10(high / low), 0.03)
        return Scale(low * 10**-pad, high * 10**pad, start, end, log=True)
    low = min(low, 0.0) if zero else low
    pad = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    if axis.share:
        pad = max(pad, 0.01)
        least, most = min(low, 0.0) - BEYOND, max(high, 1.0) + BEYOND
        return Scale(0.0 if zero and low == 0 else max(low - pad, least), min(high + pad, most), start, end)
    return Scale(low if zero and low == 0 else low - pad, high + pad, start, end)


def _finite(parts: Iterable[FloatArray]) -> FloatArray:
    pieces = [np.asarray(part, dtype=np.float64).ravel() for part in parts]
    known = np.concatenate(pieces) if pieces else np.zeros(0)
    return known[np.isfinite(known)]


def linear_ticks(low: float, high: float, most: int = _MOST_TICKS) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two values."""
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    decade = 10.0 ** math.floor(math.log10(span / most))
    step = next(decade * factor for factor in _STEPS if span / (decade * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade; powers of ten where that is too many, round numbers where it is too few."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        found = [factor * 10.0**decade for decade in decades for factor in factors]
        found = [float(f"{value:.6g}") for value in found if low <= value <= high]
        if len(found) <= _MOST_TICKS + 2:
            break
    return found if len(found) >= 3 else linear_ticks(low, high)


def tick_text(value: float) -> str:
    """A tick in plain digits where they are few."""
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 1e-4):
        return f"{value:.3g}"
    return f"{value:,.6g}" if abs(value) >= 1 else f"{value:.4g}"
