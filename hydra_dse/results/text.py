"""Values of metrics as text: the same in tables on a terminal and in a report."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits without an exponent where that is readable; `n/a` where there is no value."""
    if value is None or math.isnan(value):
        return "n/a"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if exponent >= 7 or exponent < -4:
        return f"{value:.{digits - 1}e}"
    if exponent >= digits:
        return f"{round(value, digits - 1 - exponent):,.0f}"
    places = 0 if value == round(value) else digits - 1 - exponent
    return f"{value:,.{max(places, 0)}f}"


def span(low: float, high: float) -> str:
    """An interval as `low–high` with three significant digits; `n/a` where it is unknown."""
    return "n/a" if math.isnan(low) or math.isnan(high) else f"{number(low, 3)}–{number(high, 3)}"


def percent(share: float) -> str:
    """A relative error as `+4.1 %`; `n/a` where there is none."""
    return "n/a" if math.isnan(share) else f"{100 * share:+.1f} %"
