"""`hydra-dse variance EXPERIMENT`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import cluster_option, finite, json_option, set_option

if TYPE_CHECKING:
    from hydra_dse.studies.variance import EffectRow


@click.command()
@click.argument("experiment")
@click.option("--out", type=click.Path(path_type=Path), help="CSV file to write [default: none].")
@click.option("--quick", is_flag=True, help="The file's quick variant: one load and few rows.")
@click.option("--workers", type=click.IntRange(1, 4096), default=1, show_default=True, help="Processes.")
@cluster_option
@click.option("--quiet", is_flag=True, help="No progress.")
@set_option
@json_option
def variance(
    experiment: str,
    out: Path | None,
    quick: bool,
    workers: int,
    cluster: str | None,
    quiet: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Which choices decide how good a design is: the variance over the space of EXPERIMENT, by factor."""
    from hydra_dse.cli.progress import StudyBar
    from hydra_dse.config import load_variance
    from hydra_dse.studies.files import write_atomically
    from hydra_dse.studies.progress import StudyState
    from hydra_dse.studies.variance import decompose, variance_csv

    study = load_variance(experiment, overrides, quick=quick)
    with StudyBar(f"variance {study.name}", "loads", quiet or as_json) as bar:
        rows = decompose(
            study,
            lambda done, total, doing: bar.update(StudyState(done, total, doing)),
            workers=workers,
            cluster=cluster,
        )
    if out is not None:
        write_atomically(out, variance_csv(rows))
    if as_json:
        from hydra_dse.cli.options import print_json

        plain = [
            {key: finite(cell) if isinstance(cell, float) else cell for key, cell in vars(row).items()} for row in rows
        ]
        print_json({"name": study.name, "effects": plain})
    else:
        _print(rows, out)


def _print(rows: list[EffectRow], out: Path | None) -> None:
    from hydra_dse.cli.tables import console, print_table

    heads = ("model", "workload", "response", "factor", "total effect", "95 % CI", "first order", "95 % CI", "rows")
    table = [
        (row.model, row.workload, row.response, row.factor, f"{row.total:.2f}",
         f"{row.total_low:.2f}–{row.total_high:.2f}", f"{row.first:.2f}", f"{row.first_low:.2f}–{row.first_high:.2f}",
         f"{row.rows}")
        for row in rows
    ]  # fmt: skip
    print_table("Share of the variance by factor", heads, table, 4)
    if out is not None:
        console().print(f"file: {out}")
