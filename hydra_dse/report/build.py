"""`report.html` and `plots/` of a run directory."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from hydra_dse.report.figures import image_bytes
from hydra_dse.report.page import Page
from hydra_dse.report.plots import Plot, plots_of
from hydra_dse.report.run import Run, read_run
from hydra_dse.results import metric

REPORT, PLOTS = "report.html", "plots"
_SHOWN = ("load", "ttft_mean_s", "tpot_mean_s", "energy_j_per_token", "power_w")


def build_report(run_dir: str | Path) -> Path:
    """Write the page and the figures (PNG, SVG, and the data behind each as CSV); return the page's path.

    Raises:
        InputError: no run directory, or a corrupt one.
    """
    run = read_run(run_dir)
    plots = plots_of(run)
    run.directory.refuse_links(PLOTS, REPORT)
    (run.directory.path / PLOTS).mkdir(exist_ok=True)
    pages = []
    for plot in plots:
        png = image_bytes(plot.figure, "png")
        pages.append((png, plot.caption))
        run.directory.write(f"{PLOTS}/{plot.stem}.png", png)
        run.directory.write(f"{PLOTS}/{plot.stem}.svg", image_bytes(plot.figure, "svg"))
        run.directory.write(f"{PLOTS}/{plot.stem}.csv", _csv(plot))
    run.directory.write(REPORT, _page(run, pages).encode())
    return run.directory.path / REPORT


def _csv(plot: Plot) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plot.columns)
    writer.writerows(plot.rows)
    return text.getvalue().encode()


def _page(run: Run, images: Sequence[tuple[bytes, str]]) -> str:
    page = Page(f"{run.experiment.name}: design-space exploration")
    _summary(page, run)
    if run.front:
        page.section("Pareto front")
        page.paragraph("Estimated by the Markov-chain estimator, 90 % intervals in brackets.")
        page.table("Designs of the front", *_front_table(run), text_columns=1)
    if run.validation:
        page.section("Validation")
        page.paragraph("Each design simulated by discrete events; 95 % confidence intervals in brackets.")
        page.table("Estimate against simulation", *_validation_table(run), text_columns=2)
    page.section("Figures")
    page.figures(images)
    _constraints(page, run)
    _provenance(page, run)
    return page.html()


def _summary(page: Page, run: Run) -> None:
    experiment, scores = run.experiment, run.designs.scores
    page.section("Summary")
    models = ", ".join(model.name for model in experiment.workload.models)
    feasible = int((scores.violation <= 0).sum())
    page.paragraph(
        f"Space {experiment.space.name}, workload {experiment.workload.name}, model {models}: "
        f"{len(scores)} designs scored, {feasible} feasible, {len(run.front)} on the front, "
        f"{len(run.simulated)} simulated."
    )
    if run.recommended < 0:
        page.paragraph("No design is feasible; see the constraints below.")
        return
    identity, point = scores.identities[run.recommended], run.designs.points[run.recommended]
    reason = "nearest to the ideal point of the front, objectives scaled to the front's extent"
    checked = "among the simulated designs" if run.validation else "not yet simulated"
    page.paragraph(f"Recommended: design {identity} ({reason}; {checked}).")
    names = [*run.experiment.objectives, *(name for name in _SHOWN if name not in run.experiment.objectives)]
    rows = [(name, str(value), "", "") for name, value in point.items()]
    rows += [(metric(n).label, *_estimate(run, n, run.recommended), _simulation(run, identity, n)) for n in names]
    page.table("The recommended design", ("quantity", "estimated", "unit", "simulated"), rows)


def _estimate(run: Run, name: str, index: int) -> tuple[str, str]:
    values = run.designs.scores.metrics.get(name)
    return ("n/a" if values is None else _number(float(values[index])), metric(name).unit)


def _simulation(run: Run, identity: str, name: str) -> str:
    row = run.validation.get((identity, name))
    return "" if row is None else f"{_number(row.simulated)}{_interval(row.ci_low, row.ci_high)}"


def _front_table(run: Run) -> tuple[list[str], list[list[str]]]:
    scores = run.designs.scores
    names = [*run.experiment.objectives, *(name for name in _SHOWN if name not in run.experiment.objectives)]
    parameters = list(run.designs.points[0])
    columns = ["design", *parameters, *(f"{metric(name).label} [{metric(name).unit}]" for name in names)]
    rows = []
    for index in run.front:
        cells = [scores.identities[index], *(str(value) for value in run.designs.points[index].values())]
        for name in names:
            value = _estimate(run, name, index)[0]
            if name in scores.low and name in run.experiment.objectives:
                value += _interval(float(scores.low[name][index]), float(scores.high[name][index]))
            cells.append(value)
        rows.append(cells)
    return columns, rows


def _validation_table(run: Run) -> tuple[list[str], list[list[str]]]:
    names = [*run.experiment.objectives, *(name for name in _SHOWN if name not in run.experiment.objectives)]
    rows = []
    for identity in run.simulated:
        for name in names:
            row = run.validation.get((identity, name))
            if row is not None:
                error = "" if row.relative_error != row.relative_error else f"{100 * row.relative_error:+.1f} %"
                simulated = _number(row.simulated) + _interval(row.ci_low, row.ci_high)
                label = f"{metric(name).label} [{metric(name).unit}]"
                rows.append([identity, label, _number(row.load), _number(row.estimate), simulated, error])
    return ["design", "metric", "load", "estimated", "simulated", "error of the estimate"], rows


def _constraints(page: Page, run: Run) -> None:
    broken = run.infeasible()
    if broken:
        page.section("Constraints")
        rows = [(name, f"{count}", levers) for name, count, levers in broken]
        page.table("What infeasible designs break", ("constraint", "designs", "levers"), rows)


def _provenance(page: Page, run: Run) -> None:
    origin = run.provenance
    page.section("Provenance")
    rows = [("command", " ".join(origin.command)), ("seed", str(origin.seed)), ("git", origin.git or "n/a")]
    rows += [(f"version of {name}", version) for name, version in origin.versions.items()]
    rows += [(f"SHA-256 of {path}", digest) for path, digest in origin.inputs.items()]
    page.table("Where this comes from", ("item", "value"), rows, text_columns=2)


def _number(value: float) -> str:
    return "n/a" if value != value else f"{value:.4g}"


def _interval(low: float, high: float) -> str:
    return "" if low != low or high != high else f" [{low:.3g}, {high:.3g}]"
