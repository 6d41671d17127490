"""The Pareto front: scored designs, estimated front, simulated designs with intervals, and baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hydra_dse.report.baselines import Baseline, baselines_of
from hydra_dse.report.charts import (
    BLUE,
    CLOUD,
    GREY,
    LINE_POINTS,
    POINTS,
    PURPLE,
    RED,
    XY,
    FloatArray,
    Plot,
    Series,
    axis_of,
    errors_of,
)
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.texts import capital, estimate_text, shown_metrics, simulated_text, unit_of
from hydra_dse.results import metric
from hydra_dse.results.text import number

MOST_ROWS = 200


def front_section(run: Run) -> Section:
    """Charts and table of the front, to explore."""
    if not run.front:
        return Section("Pareto front", absent="no design is feasible")
    objectives = run.experiment.objectives
    others = objectives[1:] or (("load",) if "load" in run.designs.scores.metrics else ())
    baselines = baselines_of(run)
    plots = tuple(_plot(run, other, objectives[0], baselines) for other in others)
    words: tuple[str, ...] = (
        "Estimated by the Markov-chain estimator, 90 % intervals below the values; simulated values with their 95 % "
        "confidence intervals. Choose a design in a chart (arrow keys, Enter) or in the table to see its details.",
    )
    if len(run.front) > MOST_ROWS:
        words += (f"The table has the first {MOST_ROWS} of {len(run.front)} designs; pareto.csv holds all of them.",)
    tables = (_table(run), *([_baseline_table(run, baselines)] if baselines else []))
    return Section("Pareto front", words, plots, tables, explorer=True)


def explored(run: Run) -> list[int]:
    """Rows of the designs that a reader can select: the front, then simulated designs beside it."""
    front = list(run.front[:MOST_ROWS])
    beside = [run.row_of(identity) for identity in run.simulated]
    return front + [row for row in beside if row >= 0 and row not in front]


def _plot(run: Run, x_name: str, y_name: str, baselines: Sequence[Baseline]) -> Plot:
    x, y = run.values(x_name), run.values(y_name)
    feasible = np.flatnonzero(run.designs.scores.violation <= 0)
    order = np.array(run.front)[np.argsort(x[list(run.front)], kind="stable")]
    # Of more than two objectives no line joins the points: what it seems to reach may lie behind it.
    form = LINE_POINTS if len(run.experiment.objectives) <= 2 else POINTS
    front_ids = tuple(run.identity(int(row)) for row in order)
    series = [
        Series(f"scored designs ({len(feasible):,} feasible)", CLOUD, GREY, x[feasible], y[feasible]),
        Series("front (estimated)", form, BLUE, x[order], y[order], designs=front_ids),
    ]
    simulated = simulated_series(run, x_name, y_name)
    series += [simulated] if simulated is not None else []
    naive = _baseline_series(baselines, x_name, y_name)
    series += [naive] if len(naive.known) else []
    text = f"{capital(metric(y_name).label)} against {metric(x_name).label}: scored designs, estimated front, "
    return Plot(
        f"front_{x_name}",
        f"{capital(metric(y_name).label)} against {metric(x_name).label}",
        text + "simulation with 95 % confidence intervals.",
        XY(axis_of(x_name), axis_of(y_name), tuple(series)),
        ("design", x_name, y_name),
        [(run.identity(row), x[row], y[row]) for row in run.front],
    )


def _baseline_series(baselines: Sequence[Baseline], x_name: str, y_name: str) -> Series:
    values = [[found.metrics.get(name, np.nan) for found in baselines] for name in (x_name, y_name)]
    x, y = np.array(values, dtype=np.float64).reshape(2, -1)
    return Series("recommended package, naive choices", POINTS, PURPLE, x, y, square=True)


def _baseline_table(run: Run, baselines: Sequence[Baseline]) -> Table:
    names = shown_metrics(run)
    mine = ["recommended design", *(number(run.estimate(name, run.recommended)) for name in names), ""]
    rows = [mine]
    for found in baselines:
        values = [number(found.metrics.get(name, float("nan"))) for name in names]
        rows.append([found.name, *values, found.broken or "nothing"])
    columns = ["choice", *(f"{metric(name).label}\n{unit_of(name)}" for name in names), "breaks"]
    return Table("The recommended package with naive choices, estimated", columns, rows, 1, wrap_last=True)


def simulated_series(run: Run, x_name: str, y_name: str) -> Series | None:
    """Simulated designs with their intervals; None where there are none."""
    found = [
        (identity, run.validation[identity, x_name], run.validation[identity, y_name])
        for identity in run.simulated
        if (identity, x_name) in run.validation and (identity, y_name) in run.validation
    ]
    if not found:
        return None
    x, x_error = _with_error([row.simulated for _, row, _ in found], [(r.ci_low, r.ci_high) for _, r, _ in found])
    y, y_error = _with_error([row.simulated for _, _, row in found], [(r.ci_low, r.ci_high) for _, _, r in found])
    designs = tuple(identity for identity, _, _ in found)
    return Series("simulated, 95 % CI", POINTS, RED, x, y, x_error, y_error, designs, square=True)


def _with_error(values: Sequence[float], ends: Sequence[tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    middle = np.array(values, dtype=np.float64)
    low, high = np.array(ends, dtype=np.float64).reshape(-1, 2).T
    return middle, errors_of(middle, low, high)


def _table(run: Run) -> Table:
    names = shown_metrics(run)
    objectives = run.experiment.objectives
    rows, order, designs = [], [], []
    for row in explored(run):
        identity, point = run.identity(row), run.designs.points[row]
        place = "front" if row in run.front else "beside"
        estimates = [estimate_text(run, name, row, name in objectives) for name in names]
        simulated = [simulated_text(run, name, identity) for name in objectives]
        rows.append([identity, place, *map(str, point.values()), *estimates, *simulated])
        keys: list[float | None] = [run.estimate(name, row) for name in names]
        keys += [run.validation[identity, n].simulated if (identity, n) in run.validation else None for n in objectives]
        order.append(["", "", *point.values(), *keys])
        designs.append(identity)
    columns = ["design", "place", *run.designs.points[0]]
    columns += [f"{metric(name).label}\n{unit_of(name)}" for name in names]
    columns += [f"{metric(name).label}, simulated\n{unit_of(name)}" for name in objectives]
    caption = "Designs of the front, best first objective first, then simulated designs beside it"
    return Table(caption, columns, rows, 2, designs=designs, order=order)
