"""`hydra-dse report RUN`."""

from __future__ import annotations

import click


@click.command()
@click.argument("run", type=click.Path())
@click.option("--no-figures", is_flag=True, help="Only the page: the files in plots/ take most of the time.")
def report(run: str, no_figures: bool) -> None:
    """(Re)build plots/ and the self-contained report.html of RUN, a run or a comparison."""
    from hydra_dse.report import build_report

    click.echo(f"report: {build_report(run, figures=not no_figures)}")
