"""Designs under several scenarios: estimated under each, then aggregated to the objectives and bounds of an experiment.

A design must serve every scenario: what it breaks in one is a violation of the whole, named after the scenario.
A package is placed once, for the traffic of the models that it is made for, and serves all others as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.experiment import Experiment, Scenario
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point, SearchSpace
from hydra_dse.errors import Fault, InputError
from hydra_dse.model.blocks import Model
from hydra_dse.results import Violation, metric
from hydra_dse.results.aggregates import AT, Aggregate, aggregate_of, shares
from hydra_dse.results.derived import derived_among, values_of, with_needs
from hydra_dse.results.metrics import MAXIMISE, NEEDS_SLO, THERMAL
from hydra_dse.search.estimating import MAX_RATE, PLACEMENT_SEED
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.references import RATE, References
from hydra_dse.search.scores import ScoreTable
from hydra_dse.workload import served

SATURATION, TTFT, PER_TTFT = "saturation_tokens_per_s", "ttft_mean_s", "saturation_per_ttft_tokens_per_s2"
_ALWAYS = (SATURATION, TTFT, RATE, "load")
_PERCENTILES = ("_p50_", "_p90_", "_p99_")


def aggregates(experiment: Experiment) -> tuple[Aggregate, ...]:
    """The aggregates that objectives and bounds of an experiment name, each once.

    Raises:
        InputError: a metric that is not aggregated over the scenarios.
    """
    names = (*experiment.objectives, *(bound.metric for bound in experiment.bounds))
    found = [(name, aggregate_of(name)) for name in dict.fromkeys(names)]
    plain = [name for name, over in found if over is None]
    if plain:
        message = f"{plain[0]!r} is no aggregate over scenarios: write worst({plain[0]}), mean({plain[0]}) or cvar20(…)"
        raise InputError(Fault(message, path="objectives"))
    return tuple(over for _, over in found if over is not None)


def metrics_inside(experiment: Experiment) -> tuple[str, ...]:
    """The metrics inside the aggregates, each once."""
    return tuple(dict.fromkeys(over.metric for over in aggregates(experiment)))


@dataclass(frozen=True)
class ScenarioEstimator:
    """Estimates points of an experiment's space under its scenarios.

    Attributes:
        metrics: to compute beside load, saturation and mean TTFT.
    """

    experiment: Experiment
    metrics: tuple[str, ...]

    def score(
        self, names: Sequence[str], points: Sequence[Point], made_for: Sequence[str] = ()
    ) -> dict[str, ScoreTable]:
        """Scores of the points under the named scenarios.

        Args:
            names: of scenarios.
            points: completed points of the space.
            made_for: scenarios for whose models the packages are placed; those of `names` by default.
        """
        items = {item.name: item for item in self.experiment.scenarios.items}
        models = models_of([items[name] for name in made_for or names])
        done = [placed_once(self.experiment.space, point, models) for point in points]
        placed = [ready for ready, _ in done], [broken for _, broken in done]
        identities = tuple(design.identity for design in placed[0])
        return {name: replace(self._table(items[name], *placed), identities=identities) for name in names}

    def _table(
        self, scenario: Scenario, placed: Sequence[Design], broken: Sequence[tuple[Violation, ...]]
    ) -> ScoreTable:
        from hydra_dse.estimator import estimate_designs

        rows = [row for row, found in enumerate(broken) if not found]
        derived, asked = derived_among(self.metrics), with_needs(self.metrics)
        table = estimate_designs(
            [placed[row] for row in rows],
            scenario.workload,
            self.experiment.calibration,
            percentiles=any(part in name for name in asked for part in _PERCENTILES),
            max_rate=MAX_RATE in asked,
            temperature=any(name in asked for name in THERMAL),
        )
        own = (PER_TTFT, *(item.metric.name for item in derived))
        wanted = [name for name in dict.fromkeys([*_ALWAYS, *asked]) if name not in own]
        metrics = {name: np.full(len(placed), np.nan) for name in wanted}
        for name in wanted:
            if name in table.metrics:
                metrics[name][rows] = table.metrics[name]
            elif rows and not (name in NEEDS_SLO and not scenario.workload.promises):
                known = ", ".join(table.metrics)
                raise InputError(Fault(f"{name!r} is not computed by the estimator; it computes {known}"))
        if PER_TTFT in self.metrics:
            metrics[PER_TTFT] = metrics[SATURATION] / metrics[TTFT]
        metrics |= {item.metric.name: values_of(item, metrics) for item in derived}
        violations = list(broken)
        for row, found in zip(rows, table.violations, strict=True):
            violations[row] = found
        return ScoreTable(tuple(design.identity for design in placed), metrics, tuple(violations))


def models_of(scenarios: Sequence[Scenario]) -> list[Model]:
    """The distinct models of some scenarios, in order."""
    models: list[Model] = []
    for item in scenarios:
        models += [kind.model for kind in served(item.workload) if kind.model not in models]
    return models


def placed_once(space: SearchSpace, point: Point, models: Sequence[Model]) -> tuple[Design, tuple[Violation, ...]]:
    """The design of a point with its package placed for some models, or unplaced with what it breaks.

    A package is placed once, under the first choice of what may change at run time, so that all policies of a package
    meet the same slots.
    """
    from hydra_dse.placement import place_design

    design = space.build(point)
    first = {parameter.name: parameter.choices[0] for parameter in space.parameters if parameter.runtime}
    maker = space.build({**point, **first}) if first else design
    ready, broken = place_design(maker, models, PLACEMENT_SEED)
    return replace(design, placement=ready.placement), tuple(broken)


def aggregated(tables: Mapping[str, ScoreTable], experiment: Experiment, references: References) -> ScoreTable:
    """One table of the scores under several scenarios: aggregates, and each metric by scenario as `metric@scenario`."""
    names = list(tables)
    first = next(iter(tables.values()))
    broken = tuple(_named(tables, row, names) for row in range(len(first)))
    metrics: dict[str, FloatArray] = {}
    for over in aggregates(experiment):
        values = np.stack([tables[name].metrics[over.metric] for name in names], axis=1)
        up = metric(over.metric).direction == MAXIMISE
        if over.of_shares:
            values, up = shares(values, [references.value(name, over.metric) for name in names], up), True
        metrics[over.name] = over.over(values, up)
    for inside in metrics_inside(experiment):
        for name in names:
            metrics[f"{inside}{AT}{name}"] = tables[name].metrics[inside]
    return ScoreTable(first.identities, metrics, broken)


def _named(tables: Mapping[str, ScoreTable], row: int, names: Sequence[str]) -> tuple[Violation, ...]:
    return tuple(
        replace(violation, constraint=f"{violation.constraint} ({name})")
        for name in names
        for violation in tables[name].violations[row]
    )


@dataclass(frozen=True)
class ScenarioScorer:
    """The scorer of a sweep over several scenarios."""

    experiment: Experiment
    references: References

    def score(self, points: Sequence[Point]) -> ScoreTable:
        """Estimate under every scenario, and aggregate."""
        estimator = ScenarioEstimator(self.experiment, metrics_inside(self.experiment))
        names = [item.name for item in self.experiment.scenarios.items]
        return aggregated(estimator.score(names, points), self.experiment, self.references)
