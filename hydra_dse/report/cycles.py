"""A metric over the length of the cycle of shifts, a line for each task map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hydra_dse.report.charts import COLOURS, LINE_POINTS, XY, Axis, Series, axis_of, errors_of

Measured = tuple[float, float, float, float]
"""Length of a cycle in seconds, a metric's value at it, and the ends of its interval (NaN where there is none)."""


def over_cycles(name: str, found: Mapping[str, Sequence[Measured]]) -> XY:
    """The chart of a metric over the length of the cycle.

    Args:
        name: of the metric.
        found: what was measured of each task map, in the order in which they are drawn.
    """
    axis = axis_of(name)
    most = 1.0 if axis.share else np.inf
    series = []
    for place, (task_map, measured) in enumerate(found.items()):
        cycle, value, low, high = np.array(sorted(measured), dtype=np.float64).reshape(-1, 4).T
        error = errors_of(value, np.maximum(low, 0.0), np.minimum(high, most))
        square = place % 2 == 1
        series.append(Series(task_map, LINE_POINTS, place % COLOURS, cycle, value, y_error=error, square=square))
    return XY(Axis("length of the cycle of shifts [s]", log=True), axis, tuple(series))
