"""`hydra-dse validate RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import finite, json_option

if TYPE_CHECKING:
    from hydra_dse.studies import ValidationResult

# What the table shows beside the experiment's objectives.
_ALWAYS = ("saturation_requests_per_s", "ttft_mean_s", "tpot_mean_s")


@click.command()
@click.argument("run", type=click.Path())
@click.option("--top", type=click.IntRange(1, 10**5), help="Designs to simulate [default: the experiment's].")
@click.option("--requests", type=click.IntRange(10, 10**8), help="Requests per replication.")
@click.option("--replications", type=click.IntRange(1, 10**4), help="Independent runs per design.")
@click.option("--workers", type=click.IntRange(1, 4096), default=1, show_default=True, help="Processes that simulate.")
@click.option("--simulator", default="serving", show_default=True, help="Name in the group hydra_dse.simulators.")
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def validate(
    run: str,
    top: int | None,
    requests: int | None,
    replications: int | None,
    workers: int,
    simulator: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Simulate the best designs of RUN and hold the estimates against the simulation."""
    from hydra_dse.cli.progress import ValidationBar
    from hydra_dse.studies import existing_run, experiment_of
    from hydra_dse.studies import validate as run_validation

    experiment = experiment_of(existing_run(run))
    with ValidationBar(f"validate {experiment.name}", "designs", quiet or as_json) as bar:
        result = run_validation(
            run, top=top, requests=requests, replications=replications, workers=workers, progress=bar,
            simulator=simulator, experiment=experiment,
        )  # fmt: skip
    if as_json:
        _print_json(result)
    else:
        _print_tables(result, experiment.objectives)


def _print_json(result: ValidationResult) -> None:
    from hydra_dse.cli.options import print_json

    rows = [
        {
            "design": row.design, "metric": row.metric, "load": finite(row.load),
            "estimate": finite(row.estimate), "simulated": finite(row.simulated),
            "ci95": [finite(row.ci_low), finite(row.ci_high)], "relative_error": finite(row.relative_error),
        }
        for row in result.rows
    ]  # fmt: skip
    errors = [vars(error) for error in result.errors]
    print_json({"run": str(result.run_dir), "rows": rows, "median_absolute_errors": errors, "front": result.front})


def _print_tables(result: ValidationResult, objectives: tuple[str, ...]) -> None:
    from hydra_dse.cli.tables import console, print_table

    names = [*objectives, *(name for name in _ALWAYS if name not in objectives)]
    columns = ("design", "load", "on front", "metric", "unit", "estimated", "simulated", "95 % CI", "error")
    print_table(f"Estimate against simulation: {result.run_dir}", columns, _comparison(result, names))
    heads = ("metric", "unit", "band", "designs", "median |error|")
    print_table("Median absolute error of the estimate", heads, _medians(result, names), 3)
    console().print(f"files: {result.run_dir}/validation.csv, {result.run_dir}/pareto_validated.csv")
    console().print(f"next: hydra-dse report {result.run_dir}")


def _comparison(result: ValidationResult, names: list[str]) -> list[tuple[str, ...]]:
    from hydra_dse.results import metric
    from hydra_dse.results.text import number, percent, span

    values = {(row.design, row.metric): row for row in result.rows}
    table: list[tuple[str, ...]] = []
    for design in result.chosen:
        first = [design.identity, number(design.load), "yes" if design.identity in result.front else "no"]
        for row in (values[design.identity, name] for name in names if (design.identity, name) in values):
            kind, interval, error = metric(row.metric), span(row.ci_low, row.ci_high), percent(row.relative_error)
            table.append((*first, kind.label, kind.unit, number(row.estimate), number(row.simulated), interval, error))
            first = ["", "", ""]
    return table


def _medians(result: ValidationResult, names: list[str]) -> list[tuple[str, ...]]:
    from hydra_dse.results import metric

    return [
        (metric(error.metric).label, metric(error.metric).unit, error.band, f"{error.designs}",
         f"{100 * error.median:.1f} %")
        for error in result.errors
        if error.metric in names
    ]  # fmt: skip
