"""Estimate against simulation: errors by metric, parity, and every pair of values."""

from __future__ import annotations

import numpy as np

from hydra_dse.report.charts import (
    BLUE,
    GREY,
    LINE,
    ORANGE,
    POINTS,
    XY,
    Axis,
    Plot,
    Rule,
    Series,
    axis_of,
    errors_of,
)
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.texts import capital, interval, shown_metrics, unit_of
from hydra_dse.results import metric
from hydra_dse.results.text import number, percent
from hydra_dse.studies.validation_table import BANDS, ValidationRow, band_of
from hydra_dse.studies.validation_table import summary as median_errors

HEADING = "Validation"
PARITY_METRICS = ("saturation_requests_per_s", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token")
ERROR_METRICS = (
    "saturation_requests_per_s", "ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "tpot_mean_s", "tpot_p90_s",
    "tpot_p99_s", "tbt_p99_s", "e2e_mean_s", "e2e_p99_s", "batch_mean", "energy_j_per_token", "power_w",
)  # fmt: skip


def validation_section(run: Run) -> Section:
    """Errors by metric, parity charts and the tables."""
    if not run.validation:
        how = (
            "robustness --simulate simulates scenarios" if run.experiment.scenarios.items else "run hydra-dse validate"
        )
        return Section(HEADING, absent=f"not simulated yet: {how}")
    some = next(iter(run.validation.values()))
    words = (
        f"Each design simulated by discrete events, {some.replications} or more replications of {some.requests:,} "
        "requests; 95 % confidence intervals below the values.",
    )
    plots = [*_errors(run), *(_parity(run, name) for name in PARITY_METRICS if _pairs(run, name))]
    return Section(HEADING, words, tuple(plots), (_medians(run), _all_pairs(run)))


def _errors(run: Run) -> list[Plot]:
    """Signed errors of the estimate, a point for each design, by metric."""
    names = [*ERROR_METRICS, *(name for name in run.experiment.objectives if name not in ERROR_METRICS)]
    found = {
        name: [
            run.validation[identity, name]
            for identity in run.simulated
            if (identity, name) in run.validation and np.isfinite(run.validation[identity, name].relative_error)
        ]
        for name in names
    }
    shown = [name for name in names if found[name]]
    if not shown:
        return []
    labels = ("load up to 0.8", "load above 0.8", "several loads")
    series = [
        _error_series(label, colour, [[row for row in found[name] if band_of(row.load) == band] for name in shown])
        for label, colour, band in zip(labels, (BLUE, ORANGE, GREY), BANDS, strict=True)
    ]
    series = [one for one in series if len(one.x)] or series[:1]
    names_shown = tuple(_with_unit(name) for name in shown)
    chart = XY(Axis("error of the estimate [%]"), Axis("", names=names_shown), tuple(series), (Rule("", "x", 0.0),))
    rows = [(row.design, row.load, name, row.relative_error) for name in shown for row in found[name]]
    caption = "(estimate − simulated)/simulated, a point for each simulated design."
    return [Plot("errors", "Errors by metric", caption, chart, ("design", "load", "metric", "relative_error"), rows)]


def _error_series(label: str, colour: int, cases: list[list[ValidationRow]]) -> Series:
    x = [100 * row.relative_error for rows in cases for row in rows]
    y = [float(place) for place, rows in enumerate(cases) for _ in rows]
    return Series(label, POINTS, colour, np.array(x), np.array(y), square=colour == ORANGE)


def _pairs(run: Run, name: str) -> list[ValidationRow]:
    rows = [run.validation[identity, name] for identity in run.simulated if (identity, name) in run.validation]
    return [row for row in rows if np.isfinite(row.estimate) and np.isfinite(row.simulated)]


def _parity(run: Run, name: str) -> Plot:
    rows = _pairs(run, name)
    x, y = np.array([row.estimate for row in rows]), np.array([row.simulated for row in rows])
    error = errors_of(y, np.array([row.ci_low for row in rows]), np.array([row.ci_high for row in rows]))
    ends = np.array([min(x.min(), (y - error[0]).min()), max(x.max(), (y + error[1]).max())])
    axis = axis_of(name)
    series = (
        Series("equal", LINE, GREY, ends, ends),
        Series("±10 %", LINE, GREY, ends, 1.1 * ends, dashed=True),
        Series("", LINE, GREY, ends, 0.9 * ends, dashed=True),
        Series("simulated, 95 % CI", POINTS, BLUE, x, y, None, error, tuple(row.design for row in rows)),
    )
    columns = ("design", f"{name}:estimate", f"{name}:simulated", f"{name}:ci_low", f"{name}:ci_high")
    data = [(row.design, row.estimate, row.simulated, row.ci_low, row.ci_high) for row in rows]
    title = f"{capital(metric(name).label)}: simulation against estimate"
    chart = XY(Axis(f"estimated {axis.label}"), Axis(f"simulated {axis.label}"), series)
    return Plot(f"parity_{name}", title, f"{title}; a design on the line is estimated exactly.", chart, columns, data)


def _medians(run: Run) -> Table:
    wanted = {*shown_metrics(run), "saturation_requests_per_s"}
    rows = [
        (metric(error.metric).label, unit_of(error.metric), error.band.replace("<=", "≤"), f"{error.designs}",
         f"{100 * error.median:.1f} %")
        for error in median_errors(list(run.validation.values()))
        if error.metric in wanted
    ]  # fmt: skip
    columns = ("metric", "unit", "loads", "designs", "median error")
    return Table("Median absolute error of the estimate", columns, rows, 3)


def _all_pairs(run: Run) -> Table:
    names = shown_metrics(run)
    rows = []
    for identity in run.simulated:
        for row in (run.validation[identity, name] for name in names if (identity, name) in run.validation):
            simulated = f"{number(row.simulated)}\n{interval(row.ci_low, row.ci_high)}"
            cells = (number(row.estimate), simulated, percent(row.relative_error))
            rows.append([f"{identity}\nload {number(row.load)}", metric(row.metric).label, unit_of(row.metric), *cells])
    columns = ("design", "metric", "unit", "estimated", "simulated", "error of the estimate")
    return Table("Estimate against simulation", columns, rows, 3)


def _with_unit(name: str) -> str:
    unit = unit_of(name)
    return f"{metric(name).label} [{unit}]" if unit else metric(name).label
