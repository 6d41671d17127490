"""The sections of a report: each writes one part of a run to a page, or nothing where the run has no such part."""

from __future__ import annotations

import math

from hydra_dse.report.page import Page
from hydra_dse.report.run import Run
from hydra_dse.results import metric
from hydra_dse.results.text import number, percent, span
from hydra_dse.studies.validation_table import summary as median_errors

SHOWN = ("load", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token", "power_w")
LATENCIES = ("ttft", "tpot", "tbt", "e2e")
STATISTICS = ("mean", "p50", "p90", "p99")
MOST_ROWS = 200


def shown_metrics(run: Run) -> list[str]:
    """The objectives, then what every reader wants to know."""
    return [*run.experiment.objectives, *(name for name in SHOWN if name not in run.experiment.objectives)]


def summary(page: Page, run: Run) -> None:
    """What was searched, for what, and what came out."""
    experiment, scores = run.experiment, run.designs.scores
    page.section("Summary")
    models = ", ".join(model.name for model in experiment.workload.models)
    page.paragraph(
        f"Space {experiment.space.name}, workload {experiment.workload.name}, model {models}: "
        f"{len(scores):,} designs scored, {run.feasible:,} feasible, {len(run.front)} on the front, "
        f"{len(run.simulated)} simulated."
    )
    goals = [f"{metric(name).direction} {metric(name).label} [{metric(name).unit}]" for name in experiment.objectives]
    bounds = [
        f"{metric(bound.metric).label} {sign} {limit:g} {_unit(bound.metric)}".rstrip()
        for bound in experiment.bounds
        for sign, limit in (("≤", bound.upper), ("≥", bound.lower))
        if limit is not None
    ]
    constraints = f" Constraints: {', '.join(bounds)}." if bounds else ""
    page.paragraph(f"Objectives: {', '.join(goals)}.{constraints}")
    if run.recommended < 0:
        page.paragraph("No design is feasible; see the constraints below.")


def recommendation(page: Page, run: Run) -> None:
    """The recommended design: why, its parameters, its metrics, its latencies."""
    if run.recommended < 0:
        return
    identity = run.designs.scores.identities[run.recommended]
    page.section(f"Recommended design {identity}")
    checked = "among the simulated designs" if run.validation else "not simulated yet: run hydra-dse validate"
    page.paragraph(
        f"Nearest to the ideal point of the front, objectives scaled to the front's extent ({checked}). "
        "Below a value: the 90 % interval of an estimate, the 95 % confidence interval of a simulation."
    )
    point = run.designs.points[run.recommended]
    page.table("Parameters", list(point), [[str(value) for value in point.values()]], text_columns=0)
    columns = ("metric", "unit", "estimated", "simulated", "error of the estimate")
    rows = [_side_by_side(run, name, run.recommended) for name in shown_metrics(run)]
    page.table("Metrics", columns, rows, text_columns=2)
    page.table("Latencies", *_latencies(run, run.recommended), text_columns=2)


def front(page: Page, run: Run) -> None:
    """Every design of the front with its parameters and estimates."""
    if not run.front:
        return
    page.section("Pareto front")
    page.paragraph("Estimated by the Markov-chain estimator, 90 % intervals below the objectives.")
    names = shown_metrics(run)
    columns = ["design", *run.designs.points[0], *(f"{metric(name).label}\n{_unit(name)}" for name in names)]
    rows = []
    for index in run.front[:MOST_ROWS]:
        point = [str(value) for value in run.designs.points[index].values()]
        values = [_estimate(run, name, index, name in run.experiment.objectives) for name in names]
        rows.append([run.designs.scores.identities[index], *point, *values])
    page.table("Designs of the front, best first objective first", columns, rows, text_columns=1)
    if len(run.front) > MOST_ROWS:
        page.paragraph(f"The first {MOST_ROWS} of {len(run.front)}; pareto.csv holds all of them.")


def validation(page: Page, run: Run) -> None:
    """Estimate and simulation side by side, and how far they are apart."""
    if not run.validation:
        return
    page.section("Validation")
    some = next(iter(run.validation.values()))
    page.paragraph(
        f"Each design simulated by discrete events, {some.replications} replications of {some.requests:,} requests; "
        "95 % confidence intervals below the values."
    )
    names = shown_metrics(run)
    medians = [
        (metric(error.metric).label, _unit(error.metric), error.band.replace("<=", "≤"), f"{error.designs}",
         f"{100 * error.median:.1f} %")
        for error in median_errors(list(run.validation.values()))
        if error.metric in {*names, "saturation_requests_per_s"}
    ]  # fmt: skip
    page.table(
        "Median absolute error of the estimate", ("metric", "unit", "loads", "designs", "median error"), medians, 3
    )
    rows = []
    for identity in run.simulated:
        for row in (run.validation[identity, name] for name in names if (identity, name) in run.validation):
            simulated = f"{number(row.simulated)}\n{_interval(row.ci_low, row.ci_high)}"
            cells = (number(row.estimate), simulated, percent(row.relative_error))
            rows.append([f"{identity}\nload {number(row.load)}", metric(row.metric).label, _unit(row.metric), *cells])
    columns = ("design", "metric", "unit", "estimated", "simulated", "error of the estimate")
    page.table("Estimate against simulation", columns, rows, text_columns=3)


def infeasible(page: Page, run: Run) -> None:
    """What infeasible designs break, and what would help."""
    broken = run.infeasible()
    if not broken:
        return
    page.section("Constraints")
    rows = [(name, f"{count:,}", levers) for name, count, levers in broken]
    page.table("What infeasible designs break", ("constraint", "designs", "levers"), rows, 1, wrap_last=True)


def provenance(page: Page, run: Run) -> None:
    """What made the run."""
    origin = run.provenance
    page.section("Provenance")
    rows = [("command", " ".join(origin.command) or "n/a"), ("seed", str(origin.seed)), ("git", origin.git or "n/a")]
    rows += [("source", run.source)] if run.source else []
    rows += [(f"version of {name}", version) for name, version in origin.versions.items()]
    rows += [(f"SHA-256 of {path}", digest) for path, digest in origin.inputs.items()]
    page.table("Where this comes from", ("item", "value"), rows, text_columns=2, wrap_last=True)


def _side_by_side(run: Run, name: str, index: int) -> tuple[str, str, str, str, str]:
    row = run.validation.get((run.designs.scores.identities[index], name))
    simulated = "" if row is None else f"{number(row.simulated)}\n{_interval(row.ci_low, row.ci_high)}"
    error = "" if row is None else percent(row.relative_error)
    return metric(name).label, _unit(name), _estimate(run, name, index, True), simulated, error


def _latencies(run: Run, index: int) -> tuple[list[str], list[list[str]]]:
    """Latencies in seconds: one row per kind and source, one column per statistic."""
    identity = run.designs.scores.identities[index]
    rows = []
    for kind in LATENCIES:
        names = [f"{kind}_{statistic}_s" for statistic in STATISTICS]
        rows.append([kind.upper(), "estimated", *(_estimate(run, name, index, False) for name in names)])
        found = [run.validation.get((identity, name)) for name in names]
        if any(found):
            rows.append([kind.upper(), "simulated", *("" if row is None else number(row.simulated) for row in found)])
    return ["latency [s]", "", *STATISTICS], rows


def _estimate(run: Run, name: str, index: int, with_interval: bool) -> str:
    scores = run.designs.scores
    if name not in scores.metrics:
        return "n/a"
    text = number(float(scores.metrics[name][index]))
    if not with_interval or name not in scores.low or name not in scores.high:
        return text
    return f"{text}\n{_interval(float(scores.low[name][index]), float(scores.high[name][index]))}"


def _unit(name: str) -> str:
    unit = metric(name).unit
    return "" if unit == "1" else unit


def _interval(low: float, high: float) -> str:
    return "" if math.isnan(low) or math.isnan(high) else span(low, high)
