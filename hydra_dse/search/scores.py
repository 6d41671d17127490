"""What a scorer returns, and how bounds of an experiment become constraints.

A scorer is anything with `score(points) -> ScoreTable`; the one of the estimator is in `scorer.py`.  A
minimal one for a test builds arrays from the points and returns them with empty violations.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from hydra_dse.design.experiment import Bound
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError
from hydra_dse.results import Violation, metric
from hydra_dse.results.derived import DerivedMetric, interval_of, values_of
from hydra_dse.search.pareto import FloatArray

NOT_FINITE = "a computable value of "
_LEAST_EXCESS, _MOST_EXCESS = 1e-9, 1e6


@dataclass(frozen=True)
class ScoreTable:
    """Scores of n designs, in the order they were asked for.

    Attributes:
        identities: design ids.
        metrics: name → array (n,); NaN where a metric cannot be computed.
        violations: per design, what it breaks.
        low, high: bounds of the intervals of metrics that have one.
    """

    identities: tuple[str, ...]
    metrics: Mapping[str, FloatArray]
    violations: tuple[tuple[Violation, ...], ...]
    low: Mapping[str, FloatArray] = field(default_factory=dict)
    high: Mapping[str, FloatArray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.identities)

    @property
    def violation(self) -> FloatArray:
        """Summed relative excess of each design, 0 where feasible."""
        return np.array([total_excess(broken) for broken in self.violations])

    def rows(self, start: int, stop: int) -> ScoreTable:
        """The scores from `start` up to `stop`."""

        def cut(columns: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
            return {name: column[start:stop] for name, column in columns.items()}

        identities, violations = self.identities[start:stop], self.violations[start:stop]
        return ScoreTable(identities, cut(self.metrics), violations, cut(self.low), cut(self.high))


def with_derived(table: ScoreTable, items: Sequence[DerivedMetric]) -> ScoreTable:
    """The table with objectives of other packages, and their intervals, computed from its own metrics."""
    metrics, low, high = dict(table.metrics), dict(table.low), dict(table.high)
    for item in items:
        name = item.metric.name
        metrics[name] = values_of(item, table.metrics)
        low[name], high[name] = interval_of(item, table.metrics, table.low, table.high)
    return replace(table, metrics=metrics, low=low, high=high)


class Scorer(Protocol):
    """Scores completed points of a space."""

    def score(self, points: Sequence[Point]) -> ScoreTable:
        """Return one score per point, in order; the same for a point whatever its company."""


def total_excess(violations: Sequence[Violation]) -> float:
    """Summed relative excess; positive whenever anything is broken, even where its excess is 0 or unknown."""
    if not violations:
        return 0.0
    total = sum(_finite(violation.excess) for violation in violations)
    return max(total, _LEAST_EXCESS)


def _finite(excess: float) -> float:
    if math.isnan(excess):
        return 1.0
    return min(max(excess, 0.0), _MOST_EXCESS)


def concatenate(tables: Sequence[ScoreTable]) -> ScoreTable:
    """One table of several; a metric missing in one is NaN there."""
    if len(tables) == 1:
        return tables[0]
    return ScoreTable(
        identities=tuple(identity for table in tables for identity in table.identities),
        metrics=_joined([table.metrics for table in tables], tables),
        violations=tuple(broken for table in tables for broken in table.violations),
        low=_joined([table.low for table in tables], tables),
        high=_joined([table.high for table in tables], tables),
    )


def _joined(columns: Sequence[Mapping[str, FloatArray]], tables: Sequence[ScoreTable]) -> dict[str, FloatArray]:
    names = dict.fromkeys(name for mapping in columns for name in mapping)
    gaps = [np.full(len(table), np.nan) for table in tables]
    return {
        name: np.concatenate([mapping.get(name, gap) for mapping, gap in zip(columns, gaps, strict=True)])
        for name in names
    }


def constrained(table: ScoreTable, objectives: Sequence[str], bounds: Sequence[Bound]) -> ScoreTable:
    """Return the table with broken bounds, and needed metrics that have no finite value, added as violations.

    Raises:
        InputError: an objective or bound names a metric that the scorer does not compute.
    """
    table = _with_needed(table, objectives, bounds)
    added: list[list[Violation]] = [[] for _ in range(len(table))]
    for bound in bounds:
        _apply(bound, table.metrics[bound.metric], added)
    feasible_so_far = [not broken for broken in table.violations]
    for name in dict.fromkeys([*objectives, *(bound.metric for bound in bounds)]):
        for index in np.flatnonzero(~np.isfinite(table.metrics[name])).tolist():
            if feasible_so_far[index] and not added[index]:
                added[index].append(_unknown(name, table, index))
    violations = tuple((*old, *new) for old, new in zip(table.violations, added, strict=True))
    return replace(table, violations=violations)


def _apply(bound: Bound, values: FloatArray, added: list[list[Violation]]) -> None:
    unit = metric(bound.metric).unit
    if bound.upper is not None:
        for index in np.flatnonzero(values > bound.upper).tolist():
            added[index].append(Violation(f"{bound.metric} at most", float(values[index]), bound.upper, unit))
    if bound.lower is not None:
        for index in np.flatnonzero(values < bound.lower).tolist():
            # A shortfall is written as the demand that the bound makes and the value that there is.
            added[index].append(Violation(f"{bound.metric} at least", bound.lower, float(values[index]), unit))


def _unknown(name: str, table: ScoreTable, index: int) -> Violation:
    """A needed metric without a finite value: nearly always an overloaded design, so the load measures how far."""
    load = table.metrics.get("load")
    if load is not None and np.isfinite(load[index]) and load[index] > 1:
        return Violation("load", float(load[index]), 1.0, "1", ("offer a lower rate", "a faster design"))
    return Violation(NOT_FINITE + name, 2.0, 1.0, metric(name).unit)


def _with_needed(table: ScoreTable, objectives: Sequence[str], bounds: Sequence[Bound]) -> ScoreTable:
    """The table itself; where every design breaks something before it can be scored, missing metrics are NaN."""
    wanted = [("objectives", name) for name in objectives] + [("bounds", bound.metric) for bound in bounds]
    missing = [(path, name) for path, name in wanted if name not in table.metrics]
    if missing and not all(table.violations):
        known = ", ".join(table.metrics)
        message = "is not computed by the estimator; it computes"
        raise InputError([Fault(f"{name!r} {message} {known}", path=path) for path, name in missing])
    unknown = {name: np.full(len(table), np.nan) for _, name in missing}
    return replace(table, metrics={**table.metrics, **unknown})
