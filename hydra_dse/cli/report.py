"""`hydra-dse report RUN`."""

from __future__ import annotations

import click


@click.command()
@click.argument("run", type=click.Path())
def report(run: str) -> None:
    """(Re)build plots/ and the self-contained report.html of RUN."""
    from hydra_dse.report import build_report

    click.echo(f"report: {build_report(run)}")
