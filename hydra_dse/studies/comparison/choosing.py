"""How a contender's finalists are found: one search budget for all, the best estimates by aim.

Throughput and throughput per TTFT are found by one search for the front of saturation rate and mean TTFT: the best of
either lies on it.  The highest rate under the SLO has a search of its own, as it costs a dozen solutions per design,
and so has any other metric.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.comparison import MAX_RATE, PER_TTFT, THROUGHPUT, Comparison, Contender, Load
from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point, SearchSpace
from hydra_dse.errors import NothingFeasible
from hydra_dse.estimator import estimate_designs
from hydra_dse.placement import place_design
from hydra_dse.results import metric
from hydra_dse.results.derived import derived_among, with_needs
from hydra_dse.results.metrics import MAXIMISE, THERMAL
from hydra_dse.rng import derive
from hydra_dse.search.outer import OuterSpace
from hydra_dse.search.pareto import FloatArray
from hydra_dse.search.scores import ScoreTable, concatenate, constrained, with_derived
from hydra_dse.search.study import Search
from hydra_dse.studies.comparison.designs import Choice, design_of
from hydra_dse.workload import at_rate
from hydra_dse.workload.nouns import Slo, Workload

_HIGHEST = "max_rate_requests_per_s"
_UNHURRIED_RATE = 1e-3
"""Requests per second at which nobody waits."""
_PERCENTILE = re.compile("_p[0-9]+_")
_OBJECTIVES = {
    THROUGHPUT: ("saturation_tokens_per_s", "ttft_mean_s"),
    PER_TTFT: ("saturation_tokens_per_s", "ttft_mean_s"),
    MAX_RATE: (_HIGHEST,),
}


def objectives_of(aim: str) -> tuple[str, ...]:
    """Objectives of the search that serves an aim; aims with equal objectives share a search."""
    return _OBJECTIVES.get(aim, (aim,))


def scores_of(aim: str, metrics: Mapping[str, FloatArray]) -> FloatArray:
    """What an aim maximises; of a metric that is to be small its negative."""
    if aim == MAX_RATE:
        return metrics[_HIGHEST]
    if aim not in _OBJECTIVES:
        return metrics[aim] if metric(aim).direction == MAXIMISE else -metrics[aim]
    tokens = metrics["saturation_tokens_per_s"]
    return tokens / metrics["ttft_mean_s"] if aim == PER_TTFT else tokens


@dataclass(frozen=True)
class Estimating:
    """Estimates designs of one contender under one load; percentiles only where the SLO or the aim asks for them.

    Packages with a power limit are estimated as slow as it asks, like their simulations.

    Attributes:
        objectives: of the search; those that other packages add are computed too.
    """

    comparison: Comparison
    workload: Workload
    objectives: tuple[str, ...]

    def designs(self, choices: Sequence[Choice]) -> ScoreTable:
        """Scores of choices, in order."""
        built = [design_of(self.comparison, choice) for choice in choices]
        wanted = with_needs(self.objectives)
        limited = any(design.package.limits.power_w is not None for design in built)
        table = estimate_designs(
            built,
            self.workload,
            self.comparison.calibration,
            percentiles=any(_PERCENTILE.search(name) for name in wanted),
            max_rate=_HIGHEST in wanted,
            temperature=limited or any(name in wanted for name in THERMAL),
        )
        identities = tuple(choice.identity for choice in choices)
        scores = ScoreTable(identities, table.metrics, table.violations, table.low, table.high)
        return with_derived(scores, derived_among(self.objectives))


def workload_for(load: Load, aim: str, rate_per_s: float) -> Workload:
    """The load as a search sees it: at a rate, without promises where the aim needs none.

    The highest rate does not depend on what is offered; offering little keeps slow designs feasible.
    """
    if aim == MAX_RATE:
        return at_rate(load.requests, _UNHURRIED_RATE)
    found = at_rate(load.requests, rate_per_s)
    return replace(found, classes=tuple(replace(kind, slo=Slo()) for kind in found.classes))


def pilot_rate(comparison: Comparison, load: Load) -> float:
    """The rate of the searches: a share of the best estimated saturation of random designs of the first space named.

    That is the weakest contender's where a file names the baseline first; all must be searched at a rate they serve.
    """
    reference = next((one for one in comparison.contenders if one.spaces), None)
    if reference is None:
        return _UNHURRIED_RATE
    estimating = Estimating(comparison, workload_for(load, THROUGHPUT, _UNHURRIED_RATE), objectives_of(THROUGHPUT))
    points = _random_points(reference.spaces[0], comparison.search.pilot, comparison.search.settings.seed)
    table = estimating.designs([Choice(reference.name, point) for point in points])
    rates = table.metrics.get("saturation_requests_per_s", np.full(len(points), np.nan))
    rates = rates[np.array([not broken for broken in table.violations]) & np.isfinite(rates)]
    if len(rates) == 0:
        raise NothingFeasible(f"none of {len(points)} random designs of {reference.name!r} serves {load.model}")
    return comparison.search.load * float(rates.max())


def _random_points(whole: SearchSpace, count: int, seed: int) -> list[Point]:
    """Points drawn over the outer grid, each with one variant; those outside the space are drawn again."""
    space = OuterSpace(whole)
    rng = derive(seed, "pilot")
    found: list[Point] = []
    for _ in range(100 * count):
        outer = tuple(int(rng.integers(len(parameter.choices))) for parameter in space.outer)
        variants = space.variants(outer) if space.inside(outer) else []
        if variants:
            found.append(variants[int(rng.integers(len(variants)))][1])
        if len(found) == count:
            break
    return found


def finalists(
    comparison: Comparison, load: Load, contender: Contender, aims: Sequence[str], rate_per_s: float, space: int = 0
) -> dict[str, list[tuple[Choice, float]]]:
    """The best estimated designs of a contender by aim, each with its score; none where nothing is feasible.

    `aims` have the same search objectives, `rate_per_s` is that of the search, `space` the number of the contender's
    space that is searched.
    """
    estimating = Estimating(comparison, workload_for(load, aims[0], rate_per_s), objectives_of(aims[0]))
    choices, table = _searched(comparison, contender, space, estimating)
    good = np.flatnonzero(table.violation <= 0)
    found: dict[str, list[tuple[Choice, float]]] = {}
    for aim in aims:
        scores = scores_of(aim, table.metrics)
        best = sorted(good.tolist(), key=lambda row: (-float(scores[row]), table.identities[row]))
        best = best[: comparison.search.finalists]
        chosen = [choices[row] for row in best]
        mine = scores[best]
        if contender.placements and chosen:
            chosen = [_best_placement(comparison, load, choice, aim, contender, estimating) for choice in chosen]
            mine = scores_of(aim, estimating.designs(chosen).metrics)
        found[aim] = [(choice, float(score)) for choice, score in zip(chosen, mine, strict=True)]
    return found


def _searched(
    comparison: Comparison, contender: Contender, number: int, estimating: Estimating
) -> tuple[list[Choice], ScoreTable]:
    """Every design that the search of one of the contender's spaces scored, with its part of the budget."""
    space, whole, objectives = contender.spaces[number], comparison.search.settings, estimating.objectives
    settings = replace(whole, trials=max(1, whole.trials // len(contender.spaces)))
    name = f"{comparison.name}/{contender.name}"
    calibration, bounds = comparison.calibration, comparison.bounds
    search = Search(Experiment(name, estimating.workload, space, objectives, calibration, bounds, settings))
    choices: list[Choice] = []
    tables: list[ScoreTable] = []
    while batch := search.propose():
        mine = [Choice(contender.name, point, space=number) for candidate in batch for point in candidate.points]
        table = constrained(estimating.designs(mine), objectives, comparison.bounds)
        choices += mine
        tables.append(table)
        start, parts = 0, []
        for candidate in batch:
            parts.append(table.rows(start, start + len(candidate.points)))
            start += len(candidate.points)
        search.take(batch, parts)
    return choices, concatenate(tables)


def _best_placement(
    comparison: Comparison, load: Load, choice: Choice, aim: str, contender: Contender, estimating: Estimating
) -> Choice:
    """The best of so many random placements of one package, by estimate."""
    design = replace(design_of(comparison, choice), placement_algorithm="random")
    tried: list[Choice] = []
    for number in range(contender.placements):
        ready, violations = place_design(design, load.requests.models[0], number)
        if not violations and ready.placement is not None:
            tried.append(replace(choice, slots=ready.placement.slots))
    if not tried:
        return choice
    scores = np.nan_to_num(scores_of(aim, estimating.designs(tried).metrics), nan=-np.inf)
    return tried[int(np.argmax(scores))]
