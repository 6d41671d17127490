"""Objectives of other packages: metrics computed from those that every evaluator knows.

A `DerivedMetric` in the group `hydra_dse.objectives` can be named in `objectives` and `constraints` of an experiment.
It is computed of estimates in a sweep and of simulations in a validation, by the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hydra_dse import extensions
from hydra_dse.errors import Fault, InputError
from hydra_dse.results.metrics import METRICS, Metric
from hydra_dse.results.nouns import Evaluation

if TYPE_CHECKING:
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float64]"
MOST_NEEDED = 6
"""Metrics that one objective may take: its interval looks at every corner of theirs."""


@dataclass(frozen=True)
class DerivedMetric:
    """A metric that is a function of others.

    Attributes:
        metric: name (with the unit), unit, direction, definition, label.
        needs: names of the metrics it takes, of `hydra_dse.results.METRICS`.
        of: from the needed metrics by name, arrays of one shape, to an array of that shape, element by element.
    """

    metric: Metric
    needs: tuple[str, ...]
    of: Callable[[Mapping[str, FloatArray]], FloatArray]


def derived_metric(name: str) -> DerivedMetric | None:
    """The derived metric of a name, None where no package adds one.

    Raises:
        InputError: what is registered is no `DerivedMetric`, has another name, or needs metrics that there are not.
    """
    found = extensions.find(extensions.OBJECTIVES, name)
    if found is None:
        return None
    where = f"objective {name!r} of {extensions.OBJECTIVES}"
    if not isinstance(found, DerivedMetric):
        raise InputError(Fault(f"{where} is a {type(found).__name__}, not a DerivedMetric"))
    if found.metric.name != name or name in METRICS:
        raise InputError(Fault(f"{where} calls itself {found.metric.name!r}; names must agree and be new"))
    unknown = [need for need in found.needs if need not in METRICS]
    if unknown or not 0 < len(found.needs) <= MOST_NEEDED:
        told = f"needs the unknown metric {unknown[0]!r}" if unknown else f"needs {len(found.needs)} metrics"
        raise InputError(Fault(f"{where} {told}; expected 1 to {MOST_NEEDED} of the metrics"))
    return found


def derived_among(names: Iterable[str]) -> tuple[DerivedMetric, ...]:
    """The derived metrics among some names."""
    found = (derived_metric(name) for name in names if name not in METRICS)
    return tuple(item for item in found if item is not None)


def with_needs(names: Iterable[str]) -> tuple[str, ...]:
    """The names, and what derived ones among them need."""
    listed = tuple(names)
    return (*listed, *(need for item in derived_among(listed) for need in item.needs))


def values_of(item: DerivedMetric, metrics: Mapping[str, FloatArray]) -> FloatArray:
    """Its values where all that it needs is known, NaN elsewhere.

    Raises:
        InputError: a needed metric is not computed for these designs, or the function returns another shape.
    """
    missing = [need for need in item.needs if need not in metrics]
    if missing:
        raise InputError(Fault(f"objective {item.metric.name!r} needs {missing[0]!r}, which is not computed here"))
    given = {need: np.asarray(metrics[need], dtype=np.float64) for need in item.needs}
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.asarray(item.of(given), dtype=np.float64)
    shape = given[item.needs[0]].shape
    if found.shape != shape:
        raise InputError(Fault(f"objective {item.metric.name!r} returned shape {found.shape} for designs of {shape}"))
    known = np.logical_and.reduce([np.isfinite(values) for values in given.values()])
    return np.where(known & np.isfinite(found), found, np.nan)


def interval_of(
    item: DerivedMetric,
    metrics: Mapping[str, FloatArray],
    low: Mapping[str, FloatArray],
    high: Mapping[str, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Least and greatest value over the corners of the intervals of what it needs.

    That holds the true interval where the objective is monotone in each of them; it is wider where errors cancel.
    """
    ends = [
        (low.get(need, metrics[need]), high.get(need, metrics[need])) if need in low else (metrics[need],)
        for need in item.needs
    ]
    corners = np.stack([values_of(item, dict(zip(item.needs, corner, strict=True))) for corner in product(*ends)])
    unknown = np.isnan(corners).any(axis=0)
    return np.where(unknown, np.nan, corners.min(axis=0)), np.where(unknown, np.nan, corners.max(axis=0))


def evaluation_with(items: Sequence[DerivedMetric], evaluation: Evaluation) -> Evaluation:
    """An evaluation with derived metrics, as far as it knows what they need."""
    metrics, intervals = dict(evaluation.metrics), dict(evaluation.intervals)
    for item in items:
        given = {need: evaluation.metrics.get(need) for need in item.needs}
        values = {need: np.array([value]) for need, value in given.items() if value is not None}
        if len(values) < len(given):
            continue
        ends = [{need: np.array([intervals[need][side]]) for need in values if need in intervals} for side in (0, 1)]
        name, value = item.metric.name, float(values_of(item, values)[0])
        metrics[name] = value if np.isfinite(value) else None
        low, high = (float(end[0]) for end in interval_of(item, values, ends[0], ends[1]))
        if np.isfinite(low) and np.isfinite(high):
            intervals[name] = (low, high)
    return replace(evaluation, metrics=metrics, intervals=intervals)
