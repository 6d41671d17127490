"""A fit carried to another chip: from its specification alone, and after one factor per operator class."""

from __future__ import annotations

import numpy as np

from hydra_dse.calibration.nouns import Errors, Fit, Observations


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
