"""Does a design hold for other models and loads?  Specialists, generalists, and designs that meet a model unseen.

Every role (`roles.py`) is one search with the experiment's budget; its chosen designs are then estimated in every
scenario, the package placed as it was for the models that the role knows.  What a design keeps is measured by the best
value that the scenario's own specialist search found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hydra_dse.config.experiments import digest_of
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError, NothingFeasible
from hydra_dse.results.aggregates import Aggregate
from hydra_dse.search.references import References, probe_points, references_of
from hydra_dse.search.scenarios import aggregates, metrics_inside
from hydra_dse.search.scores import ScoreTable
from hydra_dse.studies.cases import CaseJournal
from hydra_dse.studies.journaled import journaled
from hydra_dse.studies.progress import StudyProgress, StudyState
from hydra_dse.studies.retuning import Policies, Retuning
from hydra_dse.studies.robust_files import write_tables
from hydra_dse.studies.robust_tables import (
    RETUNED,
    Cell,
    RankCorrelation,
    Selected,
    Summary,
    cells_of,
    rank_correlations,
    summaries,
)
from hydra_dse.studies.role_search import (
    EVERY,
    Found,
    best_values,
    better_of,
    chosen_row,
    parts_of,
    search_for,
    seeds_of,
    with_finds_of_others,
)
from hydra_dse.studies.roles import ALL, OWN, Role, roles_of
from hydra_dse.studies.run_directory import RunDirectory, open_run
from hydra_dse.studies.scenario_scores import EstimatorFactory, ScenarioScores, ScenariosHere, ScenariosOfStored
from hydra_dse.studies.scenario_simulation import ScenarioSimulation, simulated_cells
from hydra_dse.studies.simulators import find_simulator

CASES = "cases.jsonl"


@dataclass(frozen=True)
class RobustnessResult:
    """What a robustness study found.

    Attributes:
        references: rates of the scenarios.
        selected: the designs chosen, by metric and role.
        cells: every chosen design in every scenario.
        retuned: the same of packages whose policy is chosen for each scenario; empty where no parameter is.
        summaries: by metric and kind of role.
        correlations: of packages drawn at random, by pair of scenarios.
        resumed: tasks read from an earlier, interrupted study.
    """

    run_dir: Path
    references: References
    selected: tuple[Selected, ...]
    cells: tuple[Cell, ...]
    retuned: tuple[Cell, ...]
    summaries: tuple[Summary, ...]
    correlations: tuple[RankCorrelation, ...]
    resumed: int


def robustness(
    experiment: Experiment,
    run_dir: str | Path,
    *,
    workers: int = 1,
    resume: bool = False,
    simulate: bool = False,
    progress: StudyProgress | None = None,
    command: Sequence[str] = (),
    cluster: str | None = None,
) -> RobustnessResult:
    """Search for specialists and generalists over the experiment's scenarios; write the run directory.

    Args:
        experiment: with scenarios; every role searches with its budget, objectives and constraints.
        run_dir: new or empty, or with `resume` that of an earlier study of the same experiment.
        workers: processes that score and simulate.
        resume: go on; what is in the journal is not computed again.
        simulate: also simulate the designs chosen for all metrics at once, as the experiment's `validation` says.
        progress: told after every task.
        command: the command line, for provenance.
        cluster: address of a Dask scheduler whose workers compute instead; they must see the run directory.

    Raises:
        InputError: no scenarios, a mistake in the experiment, or the directory holds something else.
        NothingFeasible: nothing serves one of the scenarios.
        Interrupted: the user stopped; `resume` goes on.
    """
    if not experiment.scenarios.items:
        message = "robustness needs scenarios; name models or workloads, e.g. `scenarios: {models: [...]}`"
        raise InputError(Fault(message, path="scenarios"))
    roles = roles_of(experiment.scenarios.items)
    aggregates(experiment)
    if simulate:
        find_simulator()
    run = open_run(Path(run_dir), experiment, resume=resume, command=command)
    meter = _Meter(experiment, roles, progress)
    with journaled(run, CASES, workers, "tasks", cluster) as (journal, pool):
        study = _Study(experiment, run, roles, pool, journal, meter, here=workers <= 1 and cluster is None)
        return study.go(simulate)


class _Meter:
    """Counts estimates (designs × scenarios) for whoever listens."""

    def __init__(self, experiment: Experiment, roles: Sequence[Role], progress: StudyProgress | None) -> None:
        scenarios = len(experiment.scenarios.items)
        self._total = sum(len(role.seen) for role in roles) * experiment.search.trials
        measured = 1 if experiment.scenarios.load is None else 2  # the probed designs, and again for their ranks
        self._total += scenarios * (len(roles) + (measured + 1) * len(probe_points(experiment)))
        self._done = 0
        self._progress = progress
        self.doing = ""

    def told(self, count: int) -> None:
        """Take finished estimates."""
        self._done += count
        if self._progress is not None:
            self._progress.update(StudyState(self._done, max(self._total, self._done), self.doing))


@dataclass
class _Study:
    experiment: Experiment
    run: RunDirectory
    roles: tuple[Role, ...]
    pool: Executor
    journal: CaseJournal
    meter: _Meter
    here: bool

    def go(self, simulate: bool) -> RobustnessResult:
        metrics = metrics_inside(self.experiment)
        scores = ScenarioScores(self._factory, self.pool, self.journal, self.meter.told)
        self.meter.doing = "probe"
        references = references_of(self.experiment, metrics, scores.each_for_itself)
        found = self._searched(references, scores)
        best = best_values(found, metrics)
        self._check_served(found)
        retuning = Retuning(self.experiment, references, self._over(), scores)
        self.meter.doing = "policies"
        shortlists = self._shortlists(found, retuning, best, metrics)
        selected, cells = self._chosen(found, best, references, scores)
        retuned = [cell for shortlist in shortlists for cell in retuning.cells(shortlist, best)]
        points = {item.design: item.point for item in selected}
        if simulate:
            self.meter.doing = "simulation"
            cells = self._simulated(cells, points, references)
        result = RobustnessResult(
            self.run.path,
            references,
            tuple(selected),
            tuple(cells),
            tuple(retuned),
            (*summaries(cells), *summaries(retuned, RETUNED)),
            tuple(self._correlations(references, scores, metrics)),
            self.journal.resumed,
        )
        whole = next(one for one in found if one.role.kind == ALL)
        write_tables(self.run, self.experiment, result, whole)
        return result

    def _searched(self, references: References, scores: ScenarioScores) -> list[Found]:
        """What every role found, in order of the roles; those that see little search first.

        A search starts from what those found that see a part of what it sees, and is measured by their bests.
        """
        found: dict[str, Found] = {}
        for role in sorted(self.roles, key=lambda role: len(role.seen)):
            self.meter.doing = role.name
            parts = parts_of(role, found.values())
            by = references.measured_by(best_values(parts, metrics_inside(self.experiment)))
            found[role.name] = search_for(role, self.experiment, by, scores, seeds_of(parts, self._over()))
        ordered = [found[role.name] for role in self.roles]
        self.meter.doing = "specialists"
        return [
            with_finds_of_others(one, ordered, self.experiment, references, scores) if one.role.kind == OWN else one
            for one in ordered
        ]

    def _shortlists(
        self, found: Sequence[Found], retuning: Retuning, best: dict[tuple[str, str], float], metrics: Sequence[str]
    ) -> list[Policies]:
        """Packages of every role with all their policies; takes the own bests that they raise."""
        lists = [one for one in (retuning.shortlist(each, best) for each in found) if one is not None]
        for one in lists:
            for scenario, table in one.tables.items():
                better_of(best, scenario, table, one.usable[scenario], metrics)
        return lists

    def _over(self) -> dict[str, Aggregate]:
        """Aggregates of the objectives by metric."""
        return {how.metric: how for how in aggregates(self.experiment) if how.name in self.experiment.objectives}

    def _factory(self, references: References) -> EstimatorFactory:
        metrics = metrics_inside(self.experiment)
        if self.here:
            return ScenariosHere(self.experiment, references, metrics)
        return ScenariosOfStored(str(self.run.experiment_file.resolve()), references, metrics)

    def _check_served(self, found: Sequence[Found]) -> None:
        served = {one.role.seen[0] for one in found if one.role.kind == OWN and one.usable.any()}
        lost = [item.name for item in self.experiment.scenarios.items if item.name not in served]
        if lost:
            message = f"no design that meets the constraints was found for scenario {lost[0]}"
            raise NothingFeasible(f"{message}; raise search.trials, or leave it out")

    def _chosen(
        self,
        found: Sequence[Found],
        best: dict[tuple[str, str], float],
        references: References,
        scores: ScenarioScores,
    ) -> tuple[list[Selected], list[Cell]]:
        """The designs of every role in every scenario; takes the own bests that those placed for others raise."""
        over = self._over()
        items = self.experiment.scenarios.items
        judged: list[tuple[Found, dict[str, int], list[int], dict[str, ScoreTable]]] = []
        for one in found:
            rows = chosen_row(one, over, best)
            distinct = sorted(set(rows.values()))
            if not distinct:
                continue
            self.meter.doing = f"{one.role.name} everywhere"
            points: list[Point] = [one.points[row] for row in distinct]
            tables = scores.of(references, [item.name for item in items], points, one.role.seen)
            judged.append((one, rows, distinct, tables))
        _raise(best, [tables for *_, tables in judged], tuple(over))
        selected: list[Selected] = []
        cells: list[Cell] = []
        for one, rows, distinct, tables in judged:
            for name, row in rows.items():
                chosen = Selected(name, one.role, one.whole.identities[row], one.points[row])
                selected.append(chosen)
                cells += cells_of(chosen, tables, distinct.index(row), items, tuple(over), best)
        return selected, cells

    def _simulated(self, cells: Sequence[Cell], points: Mapping[str, Point], references: References) -> list[Cell]:
        settings = self.experiment.validation
        options = EvaluationOptions(settings.requests, settings.replications, settings.warmup_share)
        file = self.run.experiment_file.resolve()
        simulation = ScenarioSimulation(str(file), references, options, digest_of(file))
        names = {cell.metric for cell in cells}
        judged = EVERY if EVERY in names else next(iter(names))
        roles = {role.name: role for role in self.roles}
        chosen = simulated_cells(
            [cell for cell in cells if cell.metric == judged], roles, points, simulation, self.pool, self.journal
        )
        return [cell for cell in cells if cell.metric != judged] + chosen

    def _correlations(
        self, references: References, scores: ScenarioScores, metrics: Sequence[str]
    ) -> list[RankCorrelation]:
        """Of the probed packages, each placed once for all models."""
        self.meter.doing = "rank correlation"
        points = probe_points(self.experiment)
        names = [item.name for item in self.experiment.scenarios.items]
        tables = scores.of(references, names, points, names)
        outer = [parameter.name for parameter in self.experiment.space.parameters if not parameter.inner]
        packages: dict[tuple[object, ...], int] = {}
        owners = [packages.setdefault(tuple(point[name] for name in outer), len(packages)) for point in points]
        return rank_correlations(tables, owners, metrics)


def _raise(
    best: dict[tuple[str, str], float], judged: Sequence[Mapping[str, ScoreTable]], metrics: Sequence[str]
) -> None:
    """Take what designs of any role reach in a scenario where it is better than what is known."""
    for tables in judged:
        for scenario, table in tables.items():
            usable = np.array([not broken for broken in table.violations], dtype=bool)
            better_of(best, scenario, table, usable, metrics)
