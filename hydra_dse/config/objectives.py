"""Metrics that an experiment names: whether the search can know them, before anything is scored."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hydra_dse.config.document import Document, KeyPath
from hydra_dse.design.experiment import Scenario
from hydra_dse.errors import Fault, did_you_mean, one_of
from hydra_dse.results.aggregates import FORMS, aggregate_of
from hydra_dse.results.derived import derived_metric
from hydra_dse.results.metrics import (
    METRICS,
    NEEDS_PREFIXES,
    NEEDS_SESSIONS,
    NEEDS_SLO,
    NEITHER,
    OF_EACH_MODEL,
    OF_MODEL,
    SCENARIOS_ONLY,
    SIMULATED_ONLY,
    THERMAL,
    UTILIZATION,
)
from hydra_dse.workload import pieces, served
from hydra_dse.workload.nouns import Workload

if TYPE_CHECKING:
    from hydra_dse.config.experiment_schema import ExperimentSection


def metric_faults(
    document: Document,
    section: ExperimentSection,
    workload: Workload | None,
    groups: Sequence[str] | None,
    scenarios: Sequence[Scenario] = (),
) -> Iterator[Fault]:
    """Yield a fault for every objective and constraint whose metric the search cannot know.

    Args:
        document: of the experiment.
        section: the same, checked.
        workload: None where it could not be read; what depends on it is not checked then.
        groups: die groups of the space, None where it could not be read.
        scenarios: over which objectives and constraints are aggregated; none where the experiment has none.
    """
    several = section.scenarios is not None
    loads = [item.workload for item in scenarios] if several else [workload]
    for index, name in enumerate(section.objectives):
        path: KeyPath = ("objectives", index)
        message = _over_all(name, several, loads, groups, objective=True)
        if message:
            yield document.fault(path, message)
        if name in section.objectives[:index]:
            yield document.fault(path, f"{name!r} is listed twice")
    for index, part in enumerate(section.constraints):
        message = _over_all(part.metric, several, loads, groups, objective=False)
        if message:
            yield document.fault(("constraints", index, "metric"), message)


def bound_message(name: str, loads: Sequence[Workload | None]) -> str | None:
    """What is wrong with a bound on a metric of designs that are scored under some loads, None where nothing is."""
    return _over_all(name, False, loads, None, objective=False)


def _over_all(
    name: str, several: bool, loads: Sequence[Workload | None], groups: Sequence[str] | None, *, objective: bool
) -> str | None:
    """What is wrong with a metric, aggregated over scenarios where there are several."""
    over = aggregate_of(name)
    if several and over is None:
        listed = ", ".join(f"{form}(…)" for form in FORMS)
        inside = name.partition("(")[2].rstrip(")") or name
        return f"{name!r}: with scenarios, a metric is aggregated over them, e.g. worst({inside}); accepted: {listed}"
    if over is not None and not several:
        return (
            f"{name!r} aggregates over scenarios, and the experiment has none; add `scenarios`, or name {over.metric!r}"
        )
    inside = name if over is None else over.metric
    if over is not None and inside in METRICS and METRICS[inside].direction == NEITHER:
        return f"{name!r}: {inside!r} has no better direction, so it has no worst or share"
    if over is None and inside in SCENARIOS_ONLY:
        return f"{name!r} is computed with scenarios only, as e.g. worst({name})"
    found = (_message(inside, load, groups, objective=objective or over is not None) for load in loads)
    return next((message for message in found if message), None)


def _message(name: str, workload: Workload | None, groups: Sequence[str] | None, *, objective: bool) -> str | None:
    """What is wrong with a metric, None where nothing is."""
    base, at, model = name.partition(OF_MODEL)
    if at:
        amiss = _of_model(name, base, model, workload)
        return amiss or _message(base, workload, groups, objective=objective)
    known = [
        other
        for other, found in METRICS.items()
        if other not in (*SIMULATED_ONLY, *SCENARIOS_ONLY) and not (objective and found.direction == NEITHER)
    ]
    busy = [] if objective else [UTILIZATION + group for group in groups or ()]
    accepted = f"; accepted: {', '.join([*known, *busy])}"
    if name.startswith(UTILIZATION):
        if groups is not None and name.removeprefix(UTILIZATION) not in groups:
            found = [UTILIZATION + group for group in groups]
            return f"{name!r}: the space has no such die group{did_you_mean(name, found)}{accepted}"
        return f"{name!r} has no better direction; use it in constraints" if objective else None
    if name in SIMULATED_ONLY:
        hint = did_you_mean(name, known)
        return f"{name!r} is known from simulations only, the search scores with the estimator{hint}{accepted}"
    derived = derived_metric(name) if name not in METRICS else None
    if derived is not None:
        if objective and derived.metric.direction == NEITHER:
            return f"{name!r} has no better direction; use it in constraints"
        wrong = (_message(need, workload, groups, objective=False) for need in derived.needs)
        told = next((text for text in wrong if text), None)
        return f"{name!r} is computed from others: {told}" if told else None
    if name not in METRICS:
        return f"unknown metric {name!r}{did_you_mean(name, [*known, *busy])}{accepted}"
    if objective and METRICS[name].direction == NEITHER:
        return f"{name!r} has no better direction; use it in constraints"
    if name in NEEDS_SLO and workload is not None and not workload.promises:
        return f"{name!r} needs an SLO, and workload {workload.name!r} states none; add `slo` to it or drop the metric"
    if name in THERMAL and workload is not None and not _steady(workload):
        return f"{name!r} is estimated of one model under a load that does not change; drop it or change the workload"
    if name in NEEDS_PREFIXES and workload is not None and not workload.has_prefixes:
        return f"{name!r} needs requests with common prefixes, and workload {workload.name!r} has none"
    if name in NEEDS_SESSIONS and workload is not None and not workload.has_sessions:
        return f"{name!r} needs sessions of several turns, and workload {workload.name!r} has none"
    return None


def _of_model(name: str, base: str, model: str, workload: Workload | None) -> str | None:
    """What is wrong with a metric of one model, None where nothing is but what is wrong with the metric itself."""
    if base not in OF_EACH_MODEL:
        accepted = f"accepted: {', '.join(OF_EACH_MODEL)}"
        if base in METRICS:
            return f"{name!r}: {base!r} is not told of one model; {accepted}"
        return f"{name!r}: unknown metric {base!r}{did_you_mean(base, OF_EACH_MODEL)}; {accepted}"
    if workload is None:
        return None
    labels = [kind.label for kind in served(workload)]
    if len(labels) == 1:
        return f"{name!r}: workload {workload.name!r} has one model, {labels[0]!r}; name {base!r}"
    if model not in labels:
        found = did_you_mean(model, labels)
        return f"{name!r}: workload {workload.name!r} has no model {model!r}{found}; it has {one_of(labels)}"
    return None


def _steady(workload: Workload) -> bool:
    """Whether requests are of one model and arrive at one mean rate, alike at all times."""
    return len({kind.model_index for kind in workload.classes}) == 1 and not math.isfinite(
        pieces(workload)[0].duration_s
    )
