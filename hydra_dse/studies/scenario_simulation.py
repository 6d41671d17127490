"""Designs of a robustness study in simulation: the package placed as its search placed it, under one scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.space import Point
from hydra_dse.results import Evaluation, metric
from hydra_dse.results.aggregates import aggregate_of
from hydra_dse.results.derived import derived_among, evaluation_with
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import PER_TTFT, SATURATION, TTFT, models_of, placed_once
from hydra_dse.studies.cases import CaseJournal, case_key
from hydra_dse.studies.estimating import stored_experiment
from hydra_dse.studies.journaled import records_of
from hydra_dse.studies.robust_tables import Cell
from hydra_dse.studies.roles import OWN, WITHOUT, Role
from hydra_dse.studies.simulators import find_simulator

Value = tuple[float, float, float]
"""Simulated value with its 95 % interval."""


@dataclass(frozen=True)
class Run:
    """One simulation: a point, placed for the models of `made_for`, under a scenario."""

    scenario: str
    made_for: tuple[str, ...]
    point: Point


@dataclass(frozen=True)
class ScenarioSimulation:
    """Simulates under the scenarios of a stored experiment.

    Attributes:
        digest: of the file, so that a process reads it again when it has changed.
        seed: of the requests; None = the experiment's.
    """

    path: str
    references: References
    options: EvaluationOptions
    digest: str
    simulator: str = "serving"
    seed: int | None = None

    def evaluate(self, run: Run) -> dict[str, Value]:
        """The metrics of one run that have a value; empty where the design cannot be placed or serve.

        Raises:
            InputError: the experiment has changed.
        """
        experiment = self.references.applied(stored_experiment(self.path, self.digest))
        items = {item.name: item for item in experiment.scenarios.items}
        models = models_of([items[name] for name in run.made_for])
        placed, violations = placed_once(experiment.space, run.point, models)
        if violations:
            return {}
        engine = find_simulator(self.simulator)
        workload = items[run.scenario].workload
        seed = experiment.search.seed if self.seed is None else self.seed
        [found] = engine.evaluate([placed], workload, experiment.calibration, self.options, seed)
        over = [aggregate_of(name) for name in experiment.objectives]
        added = derived_among([one.metric for one in over if one is not None])
        return {} if found.violations else _values(evaluation_with(added, found))


def simulated_cells(
    cells: Sequence[Cell],
    roles: Mapping[str, Role],
    points: Mapping[str, Point],
    simulation: ScenarioSimulation,
    pool: Executor,
    journal: CaseJournal,
) -> list[Cell]:
    """The cells with simulated shares: of designs where their search has been, and for models left out where not.

    Args:
        cells: of designs chosen for one metric (or for all at once).
        roles: by name.
        points: by design.
        simulation: runs one.
        pool: where.
        journal: of finished runs.
    """
    wanted = [cell for cell in cells if cell.seen == (cell.kind != WITHOUT)]
    runs = list(dict.fromkeys(_key_of(cell, roles) for cell in wanted))
    cases = [
        (
            case_key("simulate", *run, *simulation.references.rates, simulation.options, points[run[2]]),
            partial(simulation.evaluate, Run(run[0], run[1], points[run[2]])),
        )
        for run in runs
    ]
    found: dict[tuple[str, tuple[str, ...], str], dict[str, Value]] = {}
    for run, record in zip(runs, records_of(cases, journal, pool), strict=True):
        found[run] = {name: (value[0], value[1], value[2]) for name, value in record.items()}
    own = {cell.scenario.name: found[_key_of(cell, roles)] for cell in wanted if cell.kind == OWN}
    return [_with_share(cell, found.get(_key_of(cell, roles)), own.get(cell.scenario.name)) for cell in cells]


def _key_of(cell: Cell, roles: Mapping[str, Role]) -> tuple[str, tuple[str, ...], str]:
    return cell.scenario.name, roles[cell.role].seen, cell.design


def _with_share(cell: Cell, values: Mapping[str, Value] | None, own: Mapping[str, Value] | None) -> Cell:
    """The share of the specialist's simulated value; logs of independent noises add in squares."""
    if values is None or own is None or cell.shown not in own:
        return cell
    if cell.shown not in values:
        return replace(cell, simulated=0.0)
    up = metric(cell.shown).direction == MAXIMISE
    above, below = (values, own) if up else (own, values)
    share = above[cell.shown][0] / below[cell.shown][0] if below[cell.shown][0] else math.nan
    if values is own or not share > 0.0:
        return replace(cell, simulated=share)
    width = math.hypot(_log_width(above[cell.shown]), _log_width(below[cell.shown]))
    return replace(cell, simulated=share, sim_low=share * math.exp(-width), sim_high=share * math.exp(width))


def _log_width(value: Value) -> float:
    """Half the width of an interval on the log scale; 0 where there is none."""
    middle, low, high = value
    return math.log(high / low) / 2.0 if 0.0 < low < high and middle > 0.0 else 0.0


def _values(found: Evaluation) -> dict[str, Value]:
    values = {
        name: (value, *found.intervals.get(name, (value, value)))
        for name, value in found.metrics.items()
        if value is not None and math.isfinite(value)
    }
    if SATURATION in values and TTFT in values and values[TTFT][0] > 0.0:
        middle = values[SATURATION][0] / values[TTFT][0]
        width = math.hypot(_log_width(values[SATURATION]), _log_width(values[TTFT]))
        values[PER_TTFT] = (middle, middle * math.exp(-width), middle * math.exp(width))
    return values
