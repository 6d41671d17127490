"""What was searched, what came out, and the design that the report recommends, with the reasons."""

from __future__ import annotations

from hydra_dse.report.records import Section, Table
from hydra_dse.report.run import Run
from hydra_dse.report.texts import shown_metrics, side_by_side, unit_of, with_unit
from hydra_dse.results import metric
from hydra_dse.results.metrics import MAXIMISE
from hydra_dse.results.text import percent
from hydra_dse.studies.provenance import Provenance


def summary_section(run: Run) -> Section:
    """What was searched, for what, and what came out."""
    experiment, scores = run.experiment, run.designs.scores
    found = (
        f"Space {experiment.space.name}, {_served(run)}: {len(scores):,} designs scored, {run.feasible:,} feasible, "
        f"{len(run.front)} on the front, {len(run.simulated)} simulated."
    )
    goals = [f"{metric(name).direction} {metric(name).label} [{metric(name).unit}]" for name in experiment.objectives]
    bounds = [
        f"{metric(bound.metric).label} {sign} {limit:g} {unit_of(bound.metric)}".rstrip()
        for bound in experiment.bounds
        for sign, limit in (("≤", bound.upper), ("≥", bound.lower))
        if limit is not None
    ]
    constraints = f" Constraints: {', '.join(bounds)}." if bounds else ""
    words: tuple[str, ...] = (found, f"Objectives: {', '.join(goals)}.{constraints}")
    if run.recommended < 0:
        words += ("No design is feasible; see the constraints below.",)
    return Section("Summary", words)


def _served(run: Run) -> str:
    """What the designs serve, in words."""
    workload, scenarios = run.experiment.workload, run.experiment.scenarios.items
    if not scenarios:
        return f"workload {workload.name}, model {', '.join(model.name for model in workload.models)}"
    models, loads = (len({getattr(item, name) for item in scenarios}) for name in ("model", "load"))
    return f"{len(scenarios)} scenarios of {models} models and {loads} loads"


def recommendation_section(run: Run) -> Section:
    """The recommended design: why, its parameters, its metrics."""
    if run.recommended < 0:
        return Section("Recommended design", absent="no design is feasible")
    row = run.recommended
    point = run.designs.points[row]
    chosen = [[name, str(value)] for name, value in point.items()]
    parameters = Table("Parameters", ("parameter", "value"), chosen, 1)
    columns = ("metric", "unit", "estimated", "simulated", "error of the estimate")
    metrics = Table("Metrics", columns, [side_by_side(run, name, row) for name in shown_metrics(run)], 2)
    return Section(f"Recommended design {run.identity(row)}", tuple(_reasons(run)), (), (parameters, metrics))


def _reasons(run: Run) -> list[str]:
    checked = "among the simulated designs" if run.validation else "not simulated yet: run hydra-dse validate"
    words = [
        f"Nearest to the ideal point of the front, objectives scaled to the front's extent ({checked}).",
        *(_against_best(run, name) for name in run.experiment.objectives),
        "Below a value: the 90 % interval of an estimate, the 95 % confidence interval of a simulation.",
    ]
    bounded = [_bound(run, bound.metric, bound.upper, bound.lower) for bound in run.experiment.bounds]
    return [*words[:-1], *(words for words in bounded if words), words[-1]]


def _against_best(run: Run, name: str) -> str:
    """What the recommended design gives up in an objective against the best of the front in it alone."""
    found = metric(name)
    values = {row: run.estimate(name, row) for row in run.front}
    best = (max if found.direction == MAXIMISE else min)(values, key=lambda row: values[row])
    mine = values[run.recommended]
    text = f"{found.label[:1].upper()}{found.label[1:]}: estimated {with_unit(name, mine)}"
    if mine == values[best]:
        return f"{text}, the best of the front."
    change = percent(mine / values[best] - 1.0) if values[best] else "n/a"
    return f"{text}, {change} from the best in it alone ({run.identity(best)}: {with_unit(name, values[best])})."


def _bound(run: Run, name: str, upper: float | None, lower: float | None) -> str:
    value = run.estimate(name, run.recommended)
    parts = [f"{sign} {limit:g}" for sign, limit in (("≤", upper), ("≥", lower)) if limit is not None]
    if value != value or not parts:
        return ""
    return (
        f"Keeps {metric(name).label} {' and '.join(parts)} {unit_of(name)}".rstrip()
        + f" with {with_unit(name, value)}."
    )


def provenance_section(run: Run) -> Section:
    """What made the run."""
    return origin_section(run.provenance, run.source)


def origin_section(origin: Provenance, source: str = "") -> Section:
    """Command, seed, versions and digests."""
    rows = [("command", " ".join(origin.command) or "n/a"), ("seed", str(origin.seed)), ("git", origin.git or "n/a")]
    rows += [("source", source)] if source else []
    rows += [(f"version of {name}", version) for name, version in origin.versions.items()]
    rows += [(f"SHA-256 of {path}", digest) for path, digest in origin.inputs.items()]
    table = Table("Where this comes from", ("item", "value"), rows, 2, wrap_last=True)
    return Section("Provenance", (), (), (table,))
