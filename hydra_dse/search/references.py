"""What scenarios are measured by: the best that some packages drawn at random reach, and rates that follow from it.

Models differ in speed by an order of magnitude, so one rate cannot load them alike, and one unit cannot compare
them.  The same packages are drawn for every scenario; the best value of each metric among them is the scenario's
reference, and the highest saturation, times the load that the experiment states, its rate.  Both are fixed before
the search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import NothingFeasible
from hydra_dse.results import metric
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.rng import derive
from hydra_dse.search.outer import OuterSpace
from hydra_dse.search.scores import ScoreTable
from hydra_dse.workload.sampling import arrival_statistics, at_rate

RATE = "saturation_requests_per_s"
_MOST_TRIES = 200
"""Draws for each design that is wanted."""


@dataclass(frozen=True)
class References:
    """Rates and reference values of scenarios; hashable, so that they travel with a scorer.

    Attributes:
        rates: (scenario, req/s).
        best: (scenario, metric, value).
    """

    rates: tuple[tuple[str, float], ...] = ()
    best: tuple[tuple[str, str, float], ...] = ()

    def value(self, scenario: str, name: str) -> float:
        """The reference of a metric in a scenario, 1 where none was measured."""
        return next((value for place, known, value in self.best if (place, known) == (scenario, name)), 1.0)

    def measured_by(self, best: Mapping[tuple[str, str], float]) -> References:
        """The same rates with other reference values, by (scenario, metric), where there are any."""
        known = {(place, name): value for place, name, value in self.best} | dict(best)
        return References(self.rates, tuple((place, name, value) for (place, name), value in known.items()))

    def applied(self, experiment: Experiment) -> Experiment:
        """The experiment with every scenario at its rate."""
        rates = dict(self.rates)
        items = tuple(
            replace(item, workload=at_rate(item.workload, rates[item.name])) if item.name in rates else item
            for item in experiment.scenarios.items
        )
        return replace(experiment, scenarios=replace(experiment.scenarios, items=items))


Score = Callable[[References, Sequence[str], Sequence[Point]], Mapping[str, ScoreTable]]
"""Scores points under the named scenarios at the references' rates, for each of them placed for its own models."""


def references_of(experiment: Experiment, metrics: Sequence[str], score: Score) -> References:
    """Measure the scenarios of an experiment.

    Args:
        experiment: with scenarios.
        metrics: that need a reference.
        score: estimates points.

    Raises:
        NothingFeasible: no probed design serves one of the scenarios.
    """
    names = [item.name for item in experiment.scenarios.items]
    points = probe_points(experiment)
    rates: tuple[tuple[str, float], ...] = tuple(
        (item.name, arrival_statistics(item.workload).rate_per_s) for item in experiment.scenarios.items
    )
    load = experiment.scenarios.load
    if load is not None:
        tables = score(References(), names, points)
        best = [(name, _best(tables[name], RATE, served_only=False)) for name in names]
        _check(best, len(points))
        rates = tuple((name, load * value) for name, value in best if value is not None)
    settled = References(rates) if load is not None else References()
    tables = score(settled, names, points)
    found = [(name, one, _best(tables[name], one)) for name in names for one in metrics]
    _check([(name, value) for name, _, value in found], len(points))
    return References(rates, tuple((name, one, value) for name, one, value in found if value is not None))


def probe_points(experiment: Experiment) -> list[Point]:
    """Packages drawn at random from the experiment's seed, each with all its inner variants."""
    space = OuterSpace(experiment.space)
    rng = derive(experiment.search.seed, "probe")
    wanted = min(experiment.scenarios.probe, space.combinations)
    drawn: dict[tuple[int, ...], None] = {}
    for _ in range(_MOST_TRIES * wanted):
        point = space.repaired(tuple(int(rng.integers(len(parameter.choices))) for parameter in space.outer))
        if space.inside(point):
            drawn.setdefault(point)
        if len(drawn) == wanted:
            break
    return [variant for point in drawn for _, variant in space.variants(point)]


def _best(table: ScoreTable, name: str, *, served_only: bool = True) -> float | None:
    """The best finite value among the designs (among those that serve the load), None where there is none."""
    values = table.metrics[name]
    usable = np.isfinite(values)
    if served_only:
        usable &= np.array([not broken for broken in table.violations])
    if not usable.any():
        return None
    return float(values[usable].max() if metric(name).direction == MAXIMISE else values[usable].min())


def _check(found: Sequence[tuple[str, float | None]], count: int) -> None:
    lost = [name for name, value in found if value is None]
    if lost:
        message = f"none of the {count} designs probed serves scenario {lost[0]}"
        raise NothingFeasible(f"{message}: raise scenarios.probe, lower its rate or scenarios.load, or leave it out")
