"""`intervals.csv`: how far a metric of a design is known, with surrogate, calibration and simulation apart.

A row is a metric of a design.  *Surrogate*: 90 % interval of the estimate with operator times taken as exact.
*Calibration*: what the intervals of the calibration's parameters do to it, from drawn calibrations; its one relative
error where it states no intervals.  *Simulation*: value and 95 % confidence interval, where the design was simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.run_directory import RunDirectory
from hydra_dse.studies.validation_table import ValidationRow

INTERVALS = "intervals.csv"
DRAWS = 20
"""Drawn calibrations; they resolve a 90 % interval coarsely."""


@dataclass(frozen=True)
class Uncertainty:
    """A metric of a design with the parts of what is not known of it; NaN where there is none.

    Attributes:
        calibration: `"draws"` or `"relative error"`.
    """

    design: str
    metric: str
    estimate: float
    surrogate_low: float
    surrogate_high: float
    calibration_low: float
    calibration_high: float
    calibration: str
    simulated: float = math.nan
    simulation_low: float = math.nan
    simulation_high: float = math.nan


COLUMNS = tuple(item.name for item in fields(Uncertainty))


def has_intervals(calibration: CalibrationSet) -> bool:
    """Whether any parameter of a calibration carries an interval."""
    return any(part.intervals for part in (calibration.default, *calibration.by_style.values()))


def uncertainties(
    experiment: Experiment,
    designs: Sequence[tuple[str, Point]],
    rows: Sequence[ValidationRow] = (),
    draws: int = DRAWS,
) -> list[Uncertainty]:
    """Return the parts of every metric that has an interval, design by design.

    Args:
        experiment: with its calibration; draws follow from its seed.
        designs: id and point of each.
        rows: of a validation, for the simulated side.
        draws: of the calibration.
    """
    from hydra_dse.estimator.calibration_draws import interval_parts

    calibration = experiment.calibration
    if not designs:
        return []
    drawn = has_intervals(calibration)
    placed = [experiment.space.build(point) for _, point in designs]
    seed = experiment.search.seed
    parts = interval_parts(placed, experiment.workload, calibration, draws if drawn else 0, seed)
    simulated = {(row.design, row.metric): row for row in rows}
    found = []
    for index, (identity, _) in enumerate(designs):
        for metric in parts.metrics:
            estimate, *bounds = (float(column[metric][index]) for column in parts.columns())
            low, high, under, over = bounds
            if all(map(math.isfinite, (estimate, *bounds))):
                value, below, above = _simulated(simulated, identity, metric)
                basis = "draws" if drawn else "relative error"
                found.append(
                    Uncertainty(identity, metric, estimate, low, high, under, over, basis, value, below, above)
                )
    return found


def _simulated(rows: Mapping[tuple[str, str], ValidationRow], identity: str, metric: str) -> tuple[float, float, float]:
    row = rows.get((identity, metric))
    return (math.nan,) * 3 if row is None else (row.simulated, row.ci_low, row.ci_high)


def write_uncertainties(run: RunDirectory, found: Sequence[Uncertainty]) -> None:
    """Write `intervals.csv`."""
    run.write(INTERVALS, csv_bytes(COLUMNS, [[getattr(row, name) for name in COLUMNS] for row in found]))
