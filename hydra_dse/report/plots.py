"""The figures of a run, each with the numbers behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hydra_dse.report.figures import FloatArray, Points, floorplan_figure, front_figure, parity_figure, shares_figure
from hydra_dse.report.package import floorplan
from hydra_dse.report.run import Run
from hydra_dse.results import metric
from hydra_dse.search.estimating import PLACEMENT_SEED
from hydra_dse.studies.designs_table import point_in

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARITY_METRICS = ("saturation_requests_per_s", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token")
SHARES = ("hbm_utilization", "noi_utilization_max", "kv_occupancy", "state_occupancy")


@dataclass(frozen=True)
class Plot:
    """A figure with its file stem, caption, and its data as a table."""

    stem: str
    caption: str
    figure: Figure
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


def plots_of(run: Run) -> list[Plot]:
    """All figures that the run has data for."""
    plots = []
    objectives = run.experiment.objectives
    if run.front:
        first = objectives[0]
        plots = [_front(run, other, first) for other in objectives[1:]] or [_front(run, "load", first)]
    plots += [_parity(run, name) for name in PARITY_METRICS if _pairs(run, name)]
    if run.recommended >= 0:
        plots += [*_shares(run), *_floorplan(run)]
    return plots


def _front(run: Run, x_name: str, y_name: str) -> Plot:
    x, y = run.values(x_name), run.values(y_name)
    feasible = np.flatnonzero(run.designs.scores.violation <= 0)
    front = list(run.front)
    figure = front_figure(
        x_name,
        y_name,
        [Points(f"scored designs ({len(feasible)} feasible)", x[feasible], y[feasible])],
        Points("front (estimated)", x[front], y[front]),
        _simulated(run, x_name, y_name),
    )
    ids = run.designs.scores.identities
    rows = [(ids[index], x[index], y[index]) for index in front]
    text = f"{_capital(metric(y_name).label)} against {metric(x_name).label}: scored designs, estimated front, "
    return Plot(f"front_{x_name}", text + "simulation with 95 % CI", figure, ("design", x_name, y_name), rows)


def _simulated(run: Run, x_name: str, y_name: str) -> Points | None:
    found = [
        (run.validation[identity, x_name], run.validation[identity, y_name])
        for identity in run.simulated
        if (identity, x_name) in run.validation and (identity, y_name) in run.validation
    ]
    if not found:
        return None
    x, x_error = _with_error([pair[0].simulated for pair in found], [(p[0].ci_low, p[0].ci_high) for p in found])
    y, y_error = _with_error([pair[1].simulated for pair in found], [(p[1].ci_low, p[1].ci_high) for p in found])
    return Points("simulated, 95 % CI", x, y, x_error, y_error)


def _with_error(values: Sequence[float], intervals: Sequence[tuple[float, float]]) -> tuple[FloatArray, FloatArray]:
    middle = np.array(values, dtype=np.float64)
    low, high = np.array(intervals, dtype=np.float64).reshape(-1, 2).T
    error = np.array([middle - low, high - middle])
    return middle, np.nan_to_num(np.maximum(error, 0.0))


def _pairs(run: Run, name: str) -> list[tuple[str, float, float, float, float]]:
    rows = [run.validation[identity, name] for identity in run.simulated if (identity, name) in run.validation]
    return [
        (row.design, row.estimate, row.simulated, row.ci_low, row.ci_high)
        for row in rows
        if np.isfinite(row.estimate) and np.isfinite(row.simulated)
    ]


def _parity(run: Run, name: str) -> Plot:
    pairs = _pairs(run, name)
    simulated, error = _with_error([pair[2] for pair in pairs], [(pair[3], pair[4]) for pair in pairs])
    figure = parity_figure(name, np.array([pair[1] for pair in pairs]), simulated, error)
    columns = ("design", f"{name}:estimate", f"{name}:simulated", f"{name}:ci_low", f"{name}:ci_high")
    return Plot(
        f"parity_{name}", f"{_capital(metric(name).label)}: simulation against estimate", figure, columns, pairs
    )


def _shares(run: Run) -> list[Plot]:
    """How busy the parts of the recommended design are, and how full its memory is."""
    scores = run.designs.scores
    identity = scores.identities[run.recommended]
    names = [*(name for name in scores.metrics if name.startswith("utilization_")), *SHARES]
    values = {name: float(scores.metrics[name][run.recommended]) for name in names if name in scores.metrics}
    estimated = {name: value for name, value in values.items() if np.isfinite(value)}
    if not estimated:
        return []
    rows = []
    for name, value in estimated.items():
        found = run.validation.get((identity, name))
        rows.append((name, value, float("nan") if found is None else found.simulated))
    labels = [metric(name).label for name in estimated]
    figure = shares_figure(labels, np.array([row[1] for row in rows]), np.array([row[2] for row in rows]))
    caption = f"How busy the parts of design {identity} are, and what share of its cache memory is held"
    return [Plot("shares", caption, figure, ("metric", "estimated", "simulated"), rows)]


def _floorplan(run: Run) -> list[Plot]:
    experiment = run.experiment
    design = experiment.space.build(point_in(experiment.space, run.designs.points[run.recommended]))
    tiles, wires = floorplan(design, experiment.workload.models[0], PLACEMENT_SEED)
    if not tiles:
        return []
    rows = [(*wire.start, *wire.end, wire.load) for wire in wires]
    identity = run.designs.scores.identities[run.recommended]
    caption = f"Package of design {identity}: tiles by group, links by load (dark and wide = the most loaded link)"
    columns = ("x0_mm", "y0_mm", "x1_mm", "y1_mm", "relative_load")
    return [Plot("floorplan", caption, floorplan_figure(tiles, wires), columns, rows)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
