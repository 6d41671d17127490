"""One search of a robustness study: every design that it scores, with its metrics under each scenario that it sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import metric
from hydra_dse.results.aggregates import Aggregate, shares
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import aggregated
from hydra_dse.search.scores import ScoreTable, concatenate, constrained
from hydra_dse.search.study import Search
from hydra_dse.studies.roles import Role
from hydra_dse.studies.scenario_scores import ScenarioScores

EVERY = "every"
"""Stands for all metrics of a study at once: the least of their aggregates."""


@dataclass(frozen=True)
class Found:
    """What a search scored.

    Attributes:
        points: of all designs scored, in order.
        trials, generations: number of the outer point and of the generation of each.
        whole: aggregates and violations of the designs.
        tables: by scenario that the role sees.
    """

    role: Role
    points: tuple[Point, ...]
    trials: tuple[int, ...]
    generations: tuple[int, ...]
    whole: ScoreTable
    tables: Mapping[str, ScoreTable]

    @property
    def usable(self) -> np.ndarray:
        """Whether each design serves all scenarios that the role sees, and meets the bounds; shape (designs,)."""
        return np.array([not broken for broken in self.whole.violations], dtype=bool)

    def values(self, name: str) -> FloatArray:
        """A metric, shape (designs, scenarios seen)."""
        return np.stack([self.tables[scenario].metrics[name] for scenario in self.role.seen], axis=1)


def search_for(role: Role, experiment: Experiment, references: References, scores: ScenarioScores) -> Found:
    """Search for designs that serve the scenarios a role sees, with the budget of the experiment."""
    items = tuple(item for item in experiment.scenarios.items if item.name in role.seen)
    mine = replace(experiment, scenarios=replace(experiment.scenarios, items=items))
    search = Search(mine)
    points: list[Point] = []
    trials: list[int] = []
    generations: list[int] = []
    wholes: list[ScoreTable] = []
    parts: dict[str, list[ScoreTable]] = {name: [] for name in role.seen}
    number = 0
    while batch := search.propose():
        asked = [point for candidate in batch for point in candidate.points]
        tables = scores.of(references, role.seen, asked, role.seen)
        whole = constrained(aggregated(tables, mine, references), mine.objectives, mine.bounds)
        generations += [search.generation] * len(asked)
        cut, start = [], 0
        for candidate in batch:
            stop = start + len(candidate.points)
            cut.append(whole.rows(start, stop))
            trials += [number] * (stop - start)
            number, start = number + 1, stop
        search.take(batch, cut)
        points += asked
        wholes.append(whole)
        for name, table in tables.items():
            parts[name].append(table)
    joined = {name: concatenate(tables) for name, tables in parts.items()}
    return Found(role, tuple(points), tuple(trials), tuple(generations), concatenate(wholes), joined)


def own_bests(found: list[Found], metrics: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """(scenario, metric) → the best value that the scenario's own specialist search found; missing where none did."""
    best: dict[tuple[str, str], float] = {}
    for one in found:
        [scenario] = one.role.seen
        for name in metrics:
            values = one.values(name)[:, 0]
            usable = one.usable & np.isfinite(values)
            if usable.any():
                better = np.max if metric(name).direction == MAXIMISE else np.min
                best[scenario, name] = float(better(values[usable]))
    return best


def chosen_row(found: Found, over: Mapping[str, Aggregate], best: Mapping[tuple[str, str], float]) -> dict[str, int]:
    """Metric → row of the design that a role chooses for it, by shares of the scenarios' own bests; `every` for all.

    Of equal designs the one with the smallest id.  Empty where the role found nothing usable.
    """
    if not found.usable.any():
        return {}
    totals = {}
    for name, how in over.items():
        known = [best.get((scenario, name), np.nan) for scenario in found.role.seen]
        kept = shares(found.values(name), known, metric(name).direction == MAXIMISE)
        totals[name] = np.where(found.usable, how.over(kept, maximised=True), -1.0)
    if len(totals) > 1:
        totals[EVERY] = np.min(list(totals.values()), axis=0)
    identities = np.array(found.whole.identities)
    return {name: int(np.lexsort((identities, -values))[0]) for name, values in totals.items()}
