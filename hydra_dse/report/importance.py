"""Which parameters explain the objectives among the scored designs.

For each parameter the share of the variance of an objective's ranks that lies between its values, corrected for what
chance alone gives: ε² = (SSB − (k − 1)·MSW)/SST (Kelley 1935), 0 … 1, with a 90 % bootstrap interval over designs.
A search samples good regions more densely, and dependent parameters share what they explain; what pairs decide beyond
these effects is in `interactions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.report.charts import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, Axis, Bar, BarRow, Bars, FloatArray, Plot
from hydra_dse.report.interactions import Interaction, interactions_of, rows_of
from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.results import metric
from hydra_dse.rng import derive

LEAST_DESIGNS = 12
MOST_DESIGNS = 20_000
DRAWS = 100
MOST_PAIRED = 4_000
"""Designs of which pairs are looked at."""
MOST_PAIRS = 10
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, RED)


@dataclass(frozen=True)
class Importance:
    """Share of an objective's variance that a parameter explains, with its 90 % interval."""

    parameter: str
    objective: str
    share: float
    low: float
    high: float


def importance_of(run: Run) -> list[Importance]:
    """Parameters by objective, the most important first; empty where too few designs have values."""
    found = []
    for objective in run.experiment.objectives:
        values = run.values(objective)
        known = np.flatnonzero(np.isfinite(values))
        if len(known) < LEAST_DESIGNS or np.ptp(values[known]) == 0:
            continue
        rng = derive(run.experiment.search.seed, "importance", objective)
        if len(known) > MOST_DESIGNS:
            known = np.sort(rng.choice(known, MOST_DESIGNS, replace=False))
        ranks = _ranks(values[known])
        draws = rng.integers(0, len(known), (DRAWS, len(known)))
        for name in run.designs.points[0]:
            codes, levels = codes_of([run.designs.points[row][name] for row in known.tolist()])
            if levels > 1:
                shares = [explained(codes[draw], levels, ranks[draw]) for draw in draws]
                low, high = np.quantile(shares, (0.05, 0.95)).tolist()
                share = explained(codes, levels, ranks)
                found.append(Importance(name, objective, share, min(low, share), max(high, share)))
    best: dict[str, float] = {}
    for item in found:
        best[item.parameter] = max(best.get(item.parameter, 0.0), item.share)
    return sorted(found, key=lambda item: (-best[item.parameter], item.parameter))


def explained(codes: NDArray[np.intp], levels: int, values: FloatArray) -> float:
    """ε² of groups `codes` (0 … levels − 1) for values, both of shape (n,); 0 where groups say nothing."""
    counts = np.bincount(codes, minlength=levels).astype(float)
    used = int((counts > 0).sum())
    total = float(((values - values.mean()) ** 2).sum())
    if used < 2 or len(values) <= used or total == 0:
        return 0.0
    means = np.bincount(codes, values, levels) / np.maximum(counts, 1.0)
    between = float((counts * (means - values.mean()) ** 2)[counts > 0].sum())
    within = (total - between) / (len(values) - used)
    return float(np.clip((between - (used - 1) * within) / total, 0.0, 1.0))


def pairs_of(run: Run, found: Sequence[Importance]) -> list[Interaction]:
    """Pairs of the most important parameters that decide an objective only together."""
    names = list(dict.fromkeys(item.parameter for item in found))
    pairs = []
    for objective in dict.fromkeys(item.objective for item in found):
        values = run.values(objective)
        known = np.flatnonzero(np.isfinite(values))
        rng = derive(run.experiment.search.seed, "interactions", objective)
        if len(known) > MOST_PAIRED:
            known = np.sort(rng.choice(known, MOST_PAIRED, replace=False))
        rows = known.tolist()
        codes = {name: codes_of([run.designs.points[row][name] for row in rows]) for name in names}
        pairs += interactions_of(codes, objective, _ranks(values[known]), rng)
    return pairs


def importance_section(run: Run) -> Section:
    """Bars of the shares by parameter and objective."""
    found = importance_of(run)
    if not found:
        reason = f"fewer than {LEAST_DESIGNS} designs have values that differ"
        return Section("Parameter importance", absent=reason)
    colour = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(run.experiment.objectives)}
    rows = []
    for name in dict.fromkeys(item.parameter for item in found):
        mine = sorted((i for i in found if i.parameter == name), key=lambda i: list(colour).index(i.objective))
        bars = tuple(Bar(0.0, i.share, colour[i.objective], metric(i.objective).label, i.low, i.high) for i in mine)
        rows.append(BarRow(name, bars))
    caption = (
        "Share of the variance of an objective's ranks that each parameter explains alone, with 90 % bootstrap "
        "intervals. Among scored designs, which a search does not spread evenly; parameters that depend on each other "
        "share what they explain."
    )
    data = [(i.parameter, i.objective, i.share, i.low, i.high) for i in found]
    columns = ("parameter", "objective", "share", "low", "high")
    chart = Bars(Axis("share of variance explained [1]"), tuple(rows))
    labels = {name: metric(name).label for name in colour}
    rows_of_pairs = rows_of(pairs_of(run, found), labels, MOST_PAIRS)
    heads = ("pair", "objective", "share beyond\nboth alone")
    tables = (Table("Pairs that decide together", heads, rows_of_pairs, 2),) if rows_of_pairs else ()
    plot = Plot("importance", "What decides", caption, chart, columns, data)
    return Section("Parameter importance", (), (plot,), tables)


def codes_of(values: Sequence[object]) -> tuple[NDArray[np.intp], int]:
    """Values as numbers from 0 in order of appearance, and how many distinct ones there are."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return np.array([places[value] for value in values], dtype=np.intp), len(places)


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2.0)[inverse], dtype=np.float64)
