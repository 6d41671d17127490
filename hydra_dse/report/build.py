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
from hydra_dse.report.sections import front, infeasible, provenance, recommendation, summary, validation
from hydra_dse.studies.files import writing

REPORT, PLOTS = "report.html", "plots"


def build_report(run_dir: str | Path) -> Path:
    """Write the page and the figures (PNG, SVG, and the data behind each as CSV); return the page's path.

    Raises:
        InputError: no run directory, or a corrupt one.
    """
    run = read_run(run_dir)
    run.directory.refuse_links(PLOTS, REPORT)
    plots = plots_of(run)
    images = [(image_bytes(plot.figure, "png"), plot.caption) for plot in plots]
    if plots:
        with writing(run.directory.path / PLOTS):
            (run.directory.path / PLOTS).mkdir(exist_ok=True)
    for plot, (png, _) in zip(plots, images, strict=True):
        run.directory.write(f"{PLOTS}/{plot.stem}.png", png)
        run.directory.write(f"{PLOTS}/{plot.stem}.svg", image_bytes(plot.figure, "svg"))
        run.directory.write(f"{PLOTS}/{plot.stem}.csv", _csv(plot))
    run.directory.write(REPORT, _page(run, images).encode())
    return run.directory.path / REPORT


def _csv(plot: Plot) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(plot.columns)
    writer.writerows(plot.rows)
    return text.getvalue().encode()


def _page(run: Run, images: Sequence[tuple[bytes, str]]) -> str:
    page = Page(f"{run.experiment.name}: design-space exploration", run.purpose)
    summary(page, run)
    recommendation(page, run)
    if images:
        page.section("Figures")
        page.figures(images)
    front(page, run)
    validation(page, run)
    infeasible(page, run)
    provenance(page, run)
    return page.html()
