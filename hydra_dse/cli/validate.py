"""`hydra-dse validate RUN`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import cluster_option, finite, json_option, window_options
from hydra_dse.errors import Fault, InputError

if TYPE_CHECKING:
    from hydra_dse.design.experiment import Experiment
    from hydra_dse.studies import ValidationResult
    from hydra_dse.studies.bundles import TraceOptions
    from hydra_dse.studies.validated_bundles import BundlingSimulation

# What the table shows beside the experiment's objectives.
_ALWAYS = ("saturation_requests_per_s", "ttft_mean_s", "tpot_mean_s")


@click.command()
@click.argument("run", type=click.Path())
@click.option("--top", type=click.IntRange(1, 10**5), help="Designs to simulate [default: the experiment's].")
@click.option("--requests", type=click.IntRange(10, 10**8), help="Requests per replication.")
@click.option("--replications", type=click.IntRange(1, 10**4), help="Independent runs per design.")
@click.option(
    "--max-replications",
    type=click.IntRange(1, 10**5),
    help="Replications a design gets at most while its place is undecided [default: twice --replications].",
)
@click.option(
    "--outside",
    type=click.IntRange(0, 10**5),
    help="Random feasible designs outside the choice, to see what it overlooked [default: a quarter of --top].",
)
@click.option("--until-stable", is_flag=True, help="Correct the estimates; simulate new front designs.")
@click.option("--workers", type=click.IntRange(1, 4096), help="Processes that simulate [default: as many as cores].")
@click.option("--simulator", default="serving", show_default=True, help="Name in the group hydra_dse.simulators.")
@click.option("--bundles", is_flag=True, help="Write a bundle of every simulated design to RUN/bundles/<design id>.")
@window_options
@cluster_option
@click.option("--quiet", is_flag=True, help="No progress.")
@json_option
def validate(
    run: str,
    top: int | None,
    requests: int | None,
    replications: int | None,
    max_replications: int | None,
    outside: int | None,
    until_stable: bool,
    workers: int | None,
    simulator: str,
    bundles: bool,
    trace_window: str,
    trace_limit: str,
    compress: bool,
    cluster: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Simulate the best designs of RUN and hold the estimates against the simulation."""
    from hydra_dse.cli.progress import ValidationBar
    from hydra_dse.studies import existing_run, experiment_of
    from hydra_dse.studies import validate as run_validation
    from hydra_dse.studies.bundles import TraceOptions

    experiment = experiment_of(existing_run(run))
    if bundles and experiment.scenarios.items:
        message = "--bundles takes designs of one workload; these are simulated under several scenarios"
        raise InputError(Fault(message, file=run))
    simulation = _bundling(run, simulator, TraceOptions(trace_window, trace_limit, compress)) if bundles else None
    with ValidationBar(f"validate {experiment.name}", "designs", quiet or as_json) as bar:
        result = run_validation(
            run, top=top, outside=outside, requests=requests, replications=replications,
            max_replications=max_replications, until_stable=until_stable, workers=workers, progress=bar,
            simulator=simulator, experiment=experiment, simulation=simulation, cluster=cluster,
        )  # fmt: skip
    if simulation is not None:
        simulation.complete(result, experiment)
    if as_json:
        _print_json(result)
        return
    _print_tables(result, (*experiment.objectives, *_by_scenario(experiment)))
    if bundles:
        from hydra_dse.cli.tables import console

        console().print(f"bundles: {result.run_dir}/bundles/<design>; hydra-dse explain A B says why one is faster")


def _by_scenario(experiment: Experiment) -> list[str]:
    """Metrics inside the aggregates of an experiment, by scenario."""
    from hydra_dse.results.aggregates import AT

    if not experiment.scenarios.items:
        return []
    from hydra_dse.search.scenarios import metrics_inside

    items = experiment.scenarios.items
    return [f"{name}{AT}{item.name}" for name in metrics_inside(experiment) for item in items]


def _bundling(run: str, simulator: str, traces: TraceOptions) -> BundlingSimulation:
    from hydra_dse.studies.run_references import calibration_of
    from hydra_dse.studies.validated_bundles import bundling

    return bundling(run, calibration_of(run), simulator, traces)


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
    print_json(
        {
            "run": str(result.run_dir), "rows": rows, "median_absolute_errors": errors, "front": result.front,
            "status": dict(result.status), "front_check": _check_json(result), "notes": list(result.notes),
        }
    )  # fmt: skip


def _check_json(result: ValidationResult) -> dict[str, object] | None:
    check = result.check
    if check is None:
        return None
    orders = [
        {name: finite(value) if isinstance(value, float) else value for name, value in vars(order).items()}
        for order in check.orders
    ]
    return {
        "orders": orders, "outside": check.outside, "outside_better": check.outside_better,
        "regret": finite(check.regret), "stable": check.stable, "rounds": check.rounds,
    }  # fmt: skip


def _print_tables(result: ValidationResult, objectives: tuple[str, ...]) -> None:
    from hydra_dse.cli.tables import console, print_table

    names = [*objectives, *(name for name in _ALWAYS if name not in objectives)]
    columns = ("design", "load", "front (95 %)", "metric", "unit", "estimated", "simulated", "95 % CI", "error")
    print_table(f"Estimate against simulation: {result.run_dir}", columns, _comparison(result, names))
    heads = ("metric", "unit", "band", "designs", "median |error|")
    print_table("Median absolute error of the estimate", heads, _medians(result, names), 3)
    _print_check(result)
    for note in result.notes:
        console().print(f"note: {note}")
    console().print(f"files: {result.run_dir}/validation.csv, {result.run_dir}/pareto_validated.csv")
    console().print(f"next: hydra-dse report {result.run_dir}")


def _print_check(result: ValidationResult) -> None:
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results import metric
    from hydra_dse.results.text import percent

    check = result.check
    if check is None:
        return
    heads = ("objective", "designs", "Kendall tau", "Spearman", "mean error, chosen", "mean error, outside")
    table = [
        (metric(order.objective).label, f"{order.designs}", _two(order.kendall_tau), _two(order.spearman),
         percent(order.error_top), percent(order.error_outside))
        for order in check.orders
    ]  # fmt: skip
    print_table("Order of the designs: estimate against simulation", heads, table, 1)
    if check.outside:
        console().print(
            f"outside the choice: {check.outside} random designs simulated, {check.outside_better} certainly dominate "
            f"a chosen one; the chosen designs miss {percent(check.regret)} of the hypervolume of all"
        )
    if check.stable is not None:
        state = "stable" if check.stable else "still changing"
        console().print(f"front {state} after {check.rounds} rounds of correction")


def _two(value: float) -> str:
    return "n/a" if value != value else f"{value:.2f}"


def _comparison(result: ValidationResult, names: list[str]) -> list[tuple[str, ...]]:
    from hydra_dse.results import metric
    from hydra_dse.results.text import number, percent, span
    from hydra_dse.studies.front_check import OUTSIDE

    values = {(row.design, row.metric): row for row in result.rows}
    table: list[tuple[str, ...]] = []
    for design in result.chosen:
        state = result.status.get(design.identity, "n/a").replace("_", " ")
        state = f"{state}\n(drawn at random)" if design.role == OUTSIDE else state
        first = [design.identity, number(design.load), state]
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
