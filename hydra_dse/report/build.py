"""`report.html` and `plots/` of a run directory, or of that of a comparison or a study of task maps."""

from __future__ import annotations

from pathlib import Path

from hydra_dse.report.comparison import comparison_report, read_comparison
from hydra_dse.report.contents import report_of
from hydra_dse.report.figures import figure_of, image_bytes
from hydra_dse.report.page import page_of
from hydra_dse.report.records import Report
from hydra_dse.report.run import read_run
from hydra_dse.report.task_maps import is_task_maps, read_task_maps, task_maps_report
from hydra_dse.studies.comparison import COMPARED, POINTS, SUMMARY
from hydra_dse.studies.comparison.stored import is_comparison
from hydra_dse.studies.files import csv_bytes, writing
from hydra_dse.studies.run_directory import RunDirectory

REPORT, PLOTS = "report.html", "plots"


def build_report(run_dir: str | Path, *, figures: bool = True) -> Path:
    """Write the page and the figures (PNG, SVG, and the data behind each as CSV); return the page's path.

    Args:
        run_dir: a run directory with scored designs, that of a comparison with a finished load, or of a study of task
            maps that is finished.
        figures: without them only the page is written, in about a fifth of the time.

    Raises:
        InputError: no run directory, or a corrupt one.
    """
    if is_comparison(run_dir):
        directory = RunDirectory(Path(run_dir))
        directory.refuse_links(COMPARED, POINTS, SUMMARY)
        report = comparison_report(read_comparison(run_dir))
    elif is_task_maps(run_dir):
        maps = read_task_maps(run_dir)
        directory, report = maps.directory, task_maps_report(maps)
    else:
        run = read_run(run_dir)
        directory, report = run.directory, report_of(run)
    directory.refuse_links(PLOTS, REPORT)
    if figures:
        _write_plots(directory, report)
    directory.write(REPORT, page_of(report).encode())
    return directory.path / REPORT


def _write_plots(directory: RunDirectory, report: Report) -> None:
    if not report.plots:
        return
    folder = directory.path / PLOTS
    with writing(folder):
        folder.mkdir(exist_ok=True)
    for plot in report.plots:
        figure = figure_of(plot.chart)
        directory.write(f"{PLOTS}/{plot.stem}.svg", image_bytes(figure, "svg"))
        figure.set_layout_engine("none")  # it is laid out: once is enough
        directory.write(f"{PLOTS}/{plot.stem}.png", image_bytes(figure, "png"))
        directory.write(f"{PLOTS}/{plot.stem}.csv", csv_bytes(plot.columns, plot.rows))
