"""Files of a robustness study.

`robustness.csv`: designs × scenarios, one share each (for designs chosen by all metrics the least of them);
`robustness_cells.csv`: the values behind it.  The search over all scenarios is written as the run's designs and front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydra_dse.design.experiment import Experiment
from hydra_dse.search.objectives import Objectives
from hydra_dse.search.pareto import nondominated
from hydra_dse.studies.designs_table import ScoredDesigns, to_parquet
from hydra_dse.studies.files import csv_bytes
from hydra_dse.studies.interrupts import uninterrupted
from hydra_dse.studies.robust_tables import Cell, worst_of_each
from hydra_dse.studies.role_search import Found
from hydra_dse.studies.run_directory import DESIGNS, PARETO, RunDirectory

if TYPE_CHECKING:
    from hydra_dse.studies.robustness import RobustnessResult

ROBUSTNESS, CELLS, RETUNED, SUMMARY, CHOSEN, RANKS, SCENARIOS = (
    "robustness.csv",
    "robustness_cells.csv",
    "robustness_retuned.csv",
    "robustness_summary.csv",
    "robustness_designs.csv",
    "rank_correlation.csv",
    "scenarios.csv",
)
_PLACE = ("metric", "design", "role", "kind", "model", "workload", "seen")
_CELL = ("metric", "role", "kind", "design", "model", "workload", "seen", "of", "load", "value", "own_best")
_SHARES = ("retained_share", "regret", "simulated_share", "ci_low", "ci_high")


def write_tables(run: RunDirectory, experiment: Experiment, result: RobustnessResult, whole: Found) -> None:
    """Write all tables of a study; `whole` is the search over all scenarios, which becomes the run's designs."""
    matrix = [
        [cell.metric, cell.design, cell.role, cell.kind, cell.scenario.model, cell.scenario.load, cell.seen,
         *_shares(cell)]
        for cell in worst_of_each(result.cells)
    ]  # fmt: skip
    rates = dict(result.references.rates)
    places = [(item.name, item.model, item.load) for item in experiment.scenarios.items]
    known = list(dict.fromkeys(name for _, name, _ in result.references.best))
    loads = [
        [model, load, rates.get(name), *(result.references.value(name, one) for one in known)]
        for name, model, load in places
    ]
    parameters = list(result.selected[0].point) if result.selected else []
    chosen = [[item.metric, item.role.name, item.design, *item.point.values()] for item in result.selected]
    files = {
        ROBUSTNESS: csv_bytes([*_PLACE, *_SHARES], matrix),
        CELLS: csv_bytes([*_CELL, *_SHARES], [_cell(cell) for cell in result.cells]),
        RETUNED: csv_bytes([*_CELL, *_SHARES, "policy"], [[*_cell(cell), cell.policy] for cell in result.retuned]),
        SUMMARY: csv_bytes(
            ["metric", "kind", "policy", "cells", "mean_share", "worst_share", "worst_at"],
            [
                [row.metric, row.kind, row.policy, row.cells, row.mean, row.worst, row.worst_at]
                for row in result.summaries
            ],
        ),
        CHOSEN: csv_bytes(["metric", "role", "design", *parameters], chosen),
        RANKS: csv_bytes(
            ["metric", "first", "second", "packages", "spearman"],
            [[row.metric, row.first, row.second, row.packages, row.spearman] for row in result.correlations],
        ),
        SCENARIOS: csv_bytes(["model", "workload", "rate_requests_per_s", *(f"probed_{one}" for one in known)], loads),
        PARETO: _front(experiment, whole),
    }
    designs = ScoredDesigns(whole.points, whole.generations, whole.trials, whole.whole)
    with uninterrupted():
        run.write(DESIGNS, to_parquet(designs))
        for name, data in files.items():
            run.write(name, data)


def _cell(cell: Cell) -> list[object]:
    return [cell.metric, cell.role, cell.kind, cell.design, cell.scenario.model, cell.scenario.load, cell.seen,
            cell.shown, cell.load, cell.value, cell.own_best, *_shares(cell)]  # fmt: skip


def _shares(cell: Cell) -> tuple[float, ...]:
    return cell.share, 1.0 - cell.share, cell.simulated, cell.sim_low, cell.sim_high


def _front(experiment: Experiment, whole: Found) -> bytes:
    """`pareto.csv` of the search over all scenarios, best first objective first."""
    objectives = Objectives.named(experiment.objectives)
    losses = objectives.losses(whole.whole.metrics)
    usable = [row for row, good in enumerate(whole.usable) if good]
    best = [usable[index] for index in nondominated(losses[usable]).nonzero()[0].tolist()] if usable else []
    best.sort(key=lambda row: (tuple(losses[row]), whole.whole.identities[row]))
    names = list(experiment.objectives)
    rows = [
        [whole.whole.identities[row], *whole.points[row].values(), *(whole.whole.metrics[name][row] for name in names)]
        for row in best
    ]
    return csv_bytes(["design", *whole.points[0], *names], rows)
