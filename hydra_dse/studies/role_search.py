"""One search of a robustness study: every design that it scores, with its metrics under each scenario that it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import metric
from hydra_dse.results.aggregates import Aggregate, shares
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import aggregated, aggregates
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


def search_for(
    role: Role, experiment: Experiment, references: References, scores: ScenarioScores, seeds: Sequence[Point] = ()
) -> Found:
    """Search for designs that serve the scenarios a role sees, with the budget of the experiment, from some seeds."""
    mine = _seen_by(role, experiment)
    search = Search(mine, seeds)
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


def parts_of(role: Role, found: Iterable[Found]) -> list[Found]:
    """The searches that see a part of what a role sees; one that sees more would tell of a model left out."""
    return [one for one in found if set(one.role.seen) < set(role.seen)]


def seeds_of(parts: Sequence[Found], over: Mapping[str, Aggregate]) -> list[Point]:
    """The choices of some searches as seeds of another: those for all metrics, and those that see most, come first."""
    ordered = sorted(parts, key=lambda one: -len(one.role.seen))
    chosen = [(one, chosen_row(one, over, best_values([one], tuple(over)))) for one in ordered]
    names = dict.fromkeys([EVERY, *over])
    return [one.points[rows[name]] for name in names for one, rows in chosen if name in rows]


def with_finds_of_others(
    own: Found, others: Sequence[Found], experiment: Experiment, references: References, scores: ScenarioScores
) -> Found:
    """What a specialist found, and the designs that were best for its scenario elsewhere, placed for it.

    Its search has the budget of any other; that another one came across something better must not flatter generalists.
    """
    over = {how.metric: how for how in aggregates(experiment)}
    known = {tuple(point.items()) for point in own.points}
    extra: dict[tuple[object, ...], Point] = {}
    for one in others:
        if own.role.seen[0] in one.tables:
            here = replace(one, role=own.role)
            for row in chosen_row(here, over, best_values([here], tuple(over))).values():
                extra.setdefault(tuple(one.points[row].items()), one.points[row])
    points = [point for key, point in extra.items() if key not in known]
    if not points:
        return own
    tables = scores.of(references, own.role.seen, points, own.role.seen)
    mine = _seen_by(own.role, experiment)
    whole = constrained(aggregated(tables, mine, references), mine.objectives, mine.bounds)
    return replace(
        own,
        points=(*own.points, *points),
        trials=(*own.trials, *range(own.trials[-1] + 1, own.trials[-1] + 1 + len(points))),
        generations=(*own.generations, *[own.generations[-1] + 1] * len(points)),
        whole=concatenate([own.whole, whole]),
        tables={name: concatenate([own.tables[name], tables[name]]) for name in tables},
    )


def _seen_by(role: Role, experiment: Experiment) -> Experiment:
    items = tuple(item for item in experiment.scenarios.items if item.name in role.seen)
    return replace(experiment, scenarios=replace(experiment.scenarios, items=items))


def best_values(found: Sequence[Found], metrics: Sequence[str]) -> dict[tuple[str, str], float]:
    """(scenario, metric) → the best value among the usable designs of some searches; missing where there is none."""
    best: dict[tuple[str, str], float] = {}
    for one in found:
        for scenario in one.role.seen:
            table = one.tables[scenario]
            better_of(best, scenario, table, one.usable, metrics)
    return best


def better_of(
    best: dict[tuple[str, str], float], scenario: str, table: ScoreTable, usable: np.ndarray, metrics: Sequence[str]
) -> None:
    """Take the best values of a table's usable designs where they are better than what is known."""
    for name in metrics:
        values = table.metrics[name][usable & np.isfinite(table.metrics[name])]
        if len(values):
            better = max if metric(name).direction == MAXIMISE else min
            value = float(better(values))
            best[scenario, name] = better(best.get((scenario, name), value), value)


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
