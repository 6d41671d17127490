"""Policies chosen anew for every scenario, as an owner would: hardware and placement stay, the run-time choices change.

A package is all of a design but the parameters that set its policy alone.  Of every search the packages that keep most
with the policies that it happened to score are estimated with all of theirs; each role then chooses by what a package
keeps where every scenario has its own best policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from hydra_dse.design.experiment import Experiment, Scenario
from hydra_dse.design.space import Point, SearchSpace, Value
from hydra_dse.results import metric
from hydra_dse.results.aggregates import Aggregate, shares
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import aggregated
from hydra_dse.search.scores import ScoreTable, constrained
from hydra_dse.studies.robust_tables import Cell
from hydra_dse.studies.role_search import EVERY, Found
from hydra_dse.studies.roles import Role
from hydra_dse.studies.scenario_scores import ScenarioScores

_PACKAGES = 2
"""Packages of a search, by metric, that are estimated with all their policies."""

Best = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class Policies:
    """Packages with all their policies under some scenarios.

    Attributes:
        points: the designs.
        packages: number of the package of each design.
        tables: scores by scenario.
        usable: by scenario, whether a design serves it and meets the bounds there.
    """

    role: Role
    points: tuple[Point, ...]
    packages: tuple[int, ...]
    tables: Mapping[str, ScoreTable]
    usable: Mapping[str, np.ndarray]

    @property
    def serves(self) -> np.ndarray:
        """Whether each design serves each scenario; shape (designs, scenarios)."""
        return np.stack(list(self.usable.values()), axis=1)

    def kept(self, over: Mapping[str, Aggregate], best: Best) -> dict[str, FloatArray]:
        """Metric → shares of the scenarios' own bests, shape (designs, scenarios); 0 where there is no value."""
        found = {}
        for name in over:
            values = np.stack([table.metrics[name] for table in self.tables.values()], axis=1)
            known = [best.get((scenario, name), np.nan) for scenario in self.tables]
            found[name] = shares(values, known, metric(name).direction == MAXIMISE)
        return found


@dataclass(frozen=True)
class Retuning:
    """Retunes what the searches of a study found.

    Attributes:
        over: aggregate by metric.
    """

    experiment: Experiment
    references: References
    over: Mapping[str, Aggregate]
    scores: ScenarioScores

    def shortlist(self, found: Found, best: Best) -> Policies | None:
        """The best packages of a search with all their policies; None where nothing is set at run time, or found."""
        space = self.experiment.space
        if not runtime_names(space) or not found.points:
            return None
        numbers: dict[tuple[Value, ...], int] = {}
        packages = tuple(numbers.setdefault(package_of(space, point), len(numbers)) for point in found.points)
        scored = self._judged(found.role, found.points, packages, found.tables)
        firsts = [packages.index(number) for number in range(len(numbers))]
        kept = dict.fromkeys(
            number
            for totals, _ in tuned(scored, self.over, best).values()
            for number in np.argsort(-totals, kind="stable")[:_PACKAGES].tolist()
            if totals[number] > 0.0
        )
        return self._with_policies(found.role, [found.points[firsts[number]] for number in kept], found.role.seen)

    def cells(self, shortlist: Policies, best: Best) -> list[Cell]:
        """Cells of the packages that a role chooses for each metric, in every scenario under its best policy."""
        names = [item.name for item in self.experiment.scenarios.items]
        cells: list[Cell] = []
        for name, (totals, _) in tuned(shortlist, self.over, best).items():
            first = shortlist.packages.index(int(np.argmax(totals)))
            everywhere = self._with_policies(shortlist.role, [shortlist.points[first]], names)
            if everywhere is not None:
                _, rows = tuned(everywhere, self.over, best)[name]
                cells += self._cells_of(name, everywhere, rows[0], best)
        return cells

    def _with_policies(self, role: Role, points: Sequence[Point], names: Sequence[str]) -> Policies | None:
        every = [policies_of(self.experiment.space, point) for point in points]
        flat = tuple(point for variants in every for point in variants)
        if not flat:
            return None
        owners = tuple(number for number, variants in enumerate(every) for _ in variants)
        return self._judged(role, flat, owners, self.scores.of(self.references, names, flat, role.seen))

    def _judged(
        self, role: Role, points: Sequence[Point], packages: Sequence[int], tables: Mapping[str, ScoreTable]
    ) -> Policies:
        """With the bounds of the experiment applied in each scenario by itself."""
        mine, usable = self.experiment, {}
        for name, table in tables.items():
            alone = constrained(aggregated({name: table}, mine, self.references), mine.objectives, mine.bounds)
            usable[name] = np.array([not broken for broken in alone.violations], dtype=bool)
        return Policies(role, tuple(points), tuple(packages), tables, usable)

    def _cells_of(self, name: str, package: Policies, rows: np.ndarray, best: Best) -> list[Cell]:
        kept = package.kept(self.over, best)
        runtime = runtime_names(self.experiment.space)
        items: Sequence[Scenario] = self.experiment.scenarios.items
        cells = []
        for shown in self.over if name == EVERY else (name,):
            for column, item in enumerate(items):
                table, row = package.tables[item.name], int(rows[column])
                point = package.points[row]
                policy = " ".join(f"{key}={point[key]}" for key in runtime)
                place = (name, package.role.name, package.role.kind, table.identities[row], item)
                values = (float(table.metrics["load"][row]), float(table.metrics[shown][row]))
                own = best.get((item.name, shown), np.nan)
                share = float(kept[shown][row, column])
                cells.append(Cell(*place, item.name in package.role.seen, shown, *values, own, share, policy=policy))
        return cells


def tuned(policies: Policies, over: Mapping[str, Aggregate], best: Best) -> dict[str, tuple[FloatArray, np.ndarray]]:
    """Metric → what each package keeps with the best policy of each scenario, and the rows of these policies.

    For all metrics at once (`every`) a scenario's policy is the one whose least share is the largest.

    Returns:
        Aggregates of shape (packages,), and rows of shape (packages, scenarios).
    """
    kept, serves = policies.kept(over, best), policies.serves
    found = {}
    for name, how in over.items():
        rows = _best_rows(kept[name] + serves, policies.packages)
        found[name] = how.over(np.take_along_axis(kept[name] * serves, rows, axis=0), maximised=True), rows
    if len(over) > 1:
        rows = _best_rows(np.min(list(kept.values()), axis=0) + serves, policies.packages)
        totals = [how.over(np.take_along_axis(kept[name] * serves, rows, axis=0), True) for name, how in over.items()]
        found[EVERY] = np.min(totals, axis=0), rows
    return found


def _best_rows(worth: FloatArray, packages: Sequence[int]) -> np.ndarray:
    """Row of the best policy of each package in each scenario, the first of equal ones; shape (packages, scenarios).

    A policy that serves a scenario counts 1 more, so that others are chosen only where none does.
    """
    owners = np.asarray(packages)
    members = [np.flatnonzero(owners == number) for number in range(int(owners.max()) + 1)]
    return np.stack([rows[worth[rows].argmax(axis=0)] for rows in members])


def runtime_names(space: SearchSpace) -> tuple[str, ...]:
    """Parameters that set the policy alone."""
    return tuple(parameter.name for parameter in space.parameters if parameter.runtime)


def package_of(space: SearchSpace, point: Point) -> tuple[Value, ...]:
    """The parameters of a design that its owner cannot change at run time."""
    return tuple(point[parameter.name] for parameter in space.parameters if not parameter.runtime)


def policies_of(space: SearchSpace, point: Point) -> list[Point]:
    """The designs of a package under all its policies, in order of their choices."""
    free = [parameter for parameter in space.parameters if parameter.runtime]
    fixed = {parameter.name: point[parameter.name] for parameter in space.parameters}
    found = []
    for values in product(*(parameter.choices for parameter in free)):
        chosen = dict(zip([parameter.name for parameter in free], values, strict=True))
        done = space.complete({**fixed, **chosen})
        if done is not None:
            found.append(done)
    return found
