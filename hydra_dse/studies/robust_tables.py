"""The tables of a robustness study: designs × scenarios, a summary by role, and how alike scenarios rank packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hydra_dse.design.experiment import Scenario
from hydra_dse.design.space import Point
from hydra_dse.results import metric
from hydra_dse.results.aggregates import shares
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.front_check import spearman
from hydra_dse.studies.role_search import EVERY
from hydra_dse.studies.roles import OWN, WITHOUT, Role

ONE, RETUNED = "one", "retuned"
"""One policy for all scenarios, or one for each."""


@dataclass(frozen=True)
class Selected:
    """The design that a role chose for a metric (`every`: for all metrics at once)."""

    metric: str
    role: Role
    design: str
    point: Point


@dataclass(frozen=True)
class Cell:
    """One design in one scenario.

    Attributes:
        metric: chosen for; `shown` is what the value is of (the same, but for `every`).
        seen: whether the role's search saw the scenario.
        load: estimated.
        value, own_best: in the unit of `shown`; NaN where unknown.
        share: of the own best that is kept, 0 where there is no value: the model does not fit, or the load is too high
            for a latency.
        policy: `one`, the design's own everywhere, or what was chosen for this scenario.
        simulated, sim_low, sim_high: the share in simulation with its 95 % interval; NaN where not simulated.
    """

    metric: str
    role: str
    kind: str
    design: str
    scenario: Scenario
    seen: bool
    shown: str
    load: float
    value: float
    own_best: float
    share: float
    simulated: float = float("nan")
    sim_low: float = float("nan")
    sim_high: float = float("nan")
    policy: str = ONE


@dataclass(frozen=True)
class Summary:
    """The shares of one kind of role for one metric: of generalists over the cells they see, of others over the unseen.

    Attributes:
        cells: how many; `worst_at` names role and scenario of the worst.
        mean, worst: retained share; the regret is 1 minus it.
        policy: `one` for all scenarios, or `retuned` for each.
    """

    metric: str
    kind: str
    cells: int
    mean: float
    worst: float
    worst_at: str
    policy: str = ONE


@dataclass(frozen=True)
class RankCorrelation:
    """How alike two scenarios rank packages drawn at random, each at its best inner variant."""

    metric: str
    first: str
    second: str
    packages: int
    spearman: float


def cells_of(
    selected: Selected,
    tables: Mapping[str, ScoreTable],
    row: int,
    scenarios: Sequence[Scenario],
    metrics: Sequence[str],
    best: Mapping[tuple[str, str], float],
) -> list[Cell]:
    """The cells of one chosen design: of its metric, or of all metrics where it was chosen for all.

    Args:
        selected: the design.
        tables: scores by scenario.
        row: of the design in each of them.
        scenarios: of the study.
        metrics: of the study.
        best: own best by scenario and metric.
    """
    cells = []
    for shown in metrics if selected.metric == EVERY else (selected.metric,):
        up = metric(shown).direction == MAXIMISE
        for scenario in scenarios:
            table = tables[scenario.name]
            value = float(table.metrics[shown][row])
            own = best.get((scenario.name, shown), np.nan)
            kept = float(shares(np.array([[value]]), [own], up)[0, 0])
            place = (selected.metric, selected.role.name, selected.role.kind, selected.design, scenario)
            seen = scenario.name in selected.role.seen
            cells.append(Cell(*place, seen, shown, float(table.metrics["load"][row]), value, own, kept))
    return cells


def worst_of_each(cells: Sequence[Cell]) -> list[Cell]:
    """One cell for each metric, role and scenario: that of the least share, where a design was chosen for all."""
    least: dict[tuple[str, str, str], Cell] = {}
    for cell in cells:
        place = (cell.metric, cell.role, cell.scenario.name)
        if place not in least or cell.share < least[place].share:
            least[place] = cell
    return list(least.values())


def summaries(cells: Sequence[Cell], policy: str = ONE) -> list[Summary]:
    """Mean and worst share by metric and kind of role; `policy` says how the cells' policies were chosen.

    Generalists (`all`, `load`) are judged on what they see, specialists and `without` on what they do not.
    """
    rows = []
    for name in dict.fromkeys(cell.metric for cell in cells):
        for kind in dict.fromkeys(cell.kind for cell in cells):
            seen = kind not in (OWN, WITHOUT)
            mine = [cell for cell in cells if (cell.metric, cell.kind, cell.seen) == (name, kind, seen)]
            if mine:
                worst = min(mine, key=lambda cell: cell.share)
                mean = float(np.mean([cell.share for cell in mine]))
                place = f"{worst.role} on {worst.scenario.name}"
                rows.append(Summary(name, kind, len(mine), mean, worst.share, place, policy))
    return rows


def rank_correlations(
    tables: Mapping[str, ScoreTable], packages: Sequence[int], metrics: Sequence[str]
) -> list[RankCorrelation]:
    """Spearman's correlation of every pair of scenarios.

    Args:
        tables: scores of the same designs by scenario.
        packages: number of the package of each design: its best variant in a scenario stands for it.
        metrics: to rank by.
    """
    rows = []
    owners = np.asarray(packages)
    for name in metrics:
        up = metric(name).direction == MAXIMISE
        best = {place: _best_of_each(table, owners, name, up) for place, table in tables.items()}
        names = list(tables)
        for at, first in enumerate(names):
            for second in names[at + 1 :]:
                both = np.isfinite(best[first]) & np.isfinite(best[second])
                value = spearman(best[first][both], best[second][both])
                rows.append(RankCorrelation(name, first, second, int(both.sum()), value))
    return rows


def _best_of_each(table: ScoreTable, owners: np.ndarray, name: str, up: bool) -> np.ndarray:
    """Best value of each package's variants that have one, NaN where none does."""
    signed = np.where(np.isfinite(table.metrics[name]), table.metrics[name] * (1.0 if up else -1.0), -np.inf)
    best = np.full(int(owners.max()) + 1, -np.inf)
    np.maximum.at(best, owners, signed)
    return np.where(np.isfinite(best), best if up else -best, np.nan)
