"""A fit carried to another chip: from its specification alone, and after one factor per operator class."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hydra_dse.calibration.nouns import Errors, Fit, FloatArray, Observations


def transferred(fit: Fit, rows: Observations) -> Errors:
    """Errors on another chip's rows with the parameters unchanged: only peak, bandwidth and processors differ."""
    return Errors(rows.predicted(fit.values) / rows.response - 1.0)


def scaled(fit: Fit, rows: Observations) -> tuple[float, Errors]:
    """One factor on all times of the class, the median ratio of its rows, and the errors that remain."""
    ratios = rows.response / rows.predicted(fit.values)
    factor = float(np.exp(np.median(np.log(ratios))))
    return factor, Errors(factor / ratios - 1.0)


def scaled_on_one_row(fit: Fit, rows: Observations, row: int) -> tuple[float, Errors]:
    """One factor from a single row, and the errors of the other rows."""
    ratios = rows.response / rows.predicted(fit.values)
    factor = float(ratios[row])
    rest = np.delete(ratios, row)
    return factor, Errors(factor / rest - 1.0)


def part_of(fit: Fit, rows: Observations, column: str) -> FloatArray:
    """What of the prediction is due to one column (`weight_bytes`: the streaming of weights), shape (rows,)."""
    without = replace(rows, columns={**rows.columns, column: np.zeros(len(rows))})
    return rows.predicted(fit.values) - without.predicted(fit.values)


def part_scaled_on_one_row(fit: Fit, rows: Observations, row: int, column: str) -> tuple[float, Errors]:
    """One factor on the part that is due to a column, from a single row, and the errors of the other rows.

    A factor below 0, where a row leaves no time for the part, is taken as 0.
    """
    part = part_of(fit, rows, column)
    rest = rows.predicted(fit.values) - part
    factor = max(float((rows.response[row] - rest[row]) / part[row]), 0.0)
    relative = (rest + factor * part) / rows.response - 1.0
    return factor, Errors(np.delete(relative, row))
