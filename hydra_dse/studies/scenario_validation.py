"""Designs of a search over several scenarios in simulation: each scenario by itself, then the aggregates of the values.

An aggregate grows or falls with each of its values, so that the aggregates of the ends of their intervals enclose it,
however the scenarios depend on each other (they share random numbers): an interval wide rather than narrow for a mean.
Shares are of the same references as those of the search, which are estimates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.results import Evaluation, metric
from hydra_dse.results.aggregates import AT, Aggregate, shares
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import aggregates, metrics_inside
from hydra_dse.studies.chosen import Chosen
from hydra_dse.studies.estimating import stored_experiment
from hydra_dse.studies.scenario_simulation import Run, ScenarioSimulation, Value

_MISSING: Value = (math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class ScenariosSimulation:
    """Simulates a point under every scenario of a stored experiment; picklable.

    Attributes:
        references: rates of the scenarios, and what shares are of.
        digest: of the file.
    """

    path: str
    references: References
    digest: str
    simulator: str = "serving"

    def evaluate(self, point: Point, options: EvaluationOptions, seed: int) -> Evaluation:
        """Aggregates, and each metric inside them as `<metric>@<scenario>`; the package is placed for all models."""
        experiment = stored_experiment(self.path, self.digest)
        one = ScenarioSimulation(self.path, self.references, options, self.digest, self.simulator, seed)
        names = tuple(item.name for item in experiment.scenarios.items)
        found = {name: one.evaluate(Run(name, names, point)) for name in names}
        return evaluation_over(experiment, self.references, found)


def evaluation_over(
    experiment: Experiment, references: References, found: Mapping[str, Mapping[str, Value]]
) -> Evaluation:
    """What the values of each scenario make together, by the aggregates of an experiment.

    Args:
        experiment: with scenarios.
        references: that shares are of.
        found: by scenario and metric: value and the ends of its interval; ends equal to the value where there is none.
    """
    metrics: dict[str, float | None] = {}
    intervals: dict[str, tuple[float, float]] = {}

    def put(name: str, value: float, low: float, high: float) -> None:
        metrics[name] = value if math.isfinite(value) else None
        if math.isfinite(low) and math.isfinite(high) and low < high:
            intervals[name] = low, high

    for over in aggregates(experiment):
        values = [found[name].get(over.metric, _MISSING) for name in found]
        told = all(low < high for _, low, high in values)
        middle, one, other = (_aggregate(over, references, list(found), side) for side in zip(*values, strict=True))
        put(over.name, middle, *(sorted((one, other)) if told else (math.nan, math.nan)))
    for inside in metrics_inside(experiment):
        for name, known in found.items():
            put(f"{inside}{AT}{name}", *known.get(inside, _MISSING))
    return Evaluation("simulated", metrics=metrics, intervals=intervals)


def measured_alike(chosen: Sequence[Chosen], experiment: Experiment, references: References) -> tuple[Chosen, ...]:
    """The designs with their estimated shares of these references: those stored may be of a study's own bests."""
    names = [item.name for item in experiment.scenarios.items]
    found = []
    for design in chosen:
        estimates = dict(design.estimates)
        for over in aggregates(experiment):
            columns = [estimates.get(f"{over.metric}{AT}{name}", math.nan) for name in names]
            if over.of_shares and all(map(math.isfinite, columns)):
                estimates[over.name] = _aggregate(over, references, names, columns)
        found.append(replace(design, estimates=estimates))
    return tuple(found)


def _aggregate(over: Aggregate, references: References, names: Sequence[str], side: Sequence[float]) -> float:
    """The aggregate of one value for each scenario."""
    values, up = np.array([side]), metric(over.metric).direction == MAXIMISE
    if over.of_shares:
        values, up = shares(values, [references.value(name, over.metric) for name in names], up), True
    return float(over.over(values, up)[0])
