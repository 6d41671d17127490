"""`hydra-dse sweep EXPERIMENT`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import cluster_option, finite, json_option, set_option

if TYPE_CHECKING:
    from hydra_dse.design.experiment import Experiment
    from hydra_dse.studies import SweepResult


@click.command()
@click.argument("experiment")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [default: runs/<experiment name>].")
@click.option("--trials", type=click.IntRange(1, 10**8), help="Designs to score instead of the experiment's number.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed instead of the experiment's.")
@click.option("--workers", type=click.IntRange(1, 4096), default=1, show_default=True, help="Processes that score.")
@click.option("--draws", type=click.IntRange(1, 100_000), help="Rank the front under so many drawn calibrations.")
@click.option("--resume", is_flag=True, help="Go on with an unfinished run of the same experiment.")
@cluster_option
@click.option("--quiet", is_flag=True, help="No progress.")
@set_option
@json_option
def sweep(
    experiment: str,
    out: Path | None,
    trials: int | None,
    seed: int | None,
    workers: int,
    draws: int | None,
    resume: bool,
    cluster: str | None,
    quiet: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """Search the space of EXPERIMENT (a YAML file or a bundled name) and write a run directory."""
    from hydra_dse.cli.progress import SweepBar
    from hydra_dse.config import load_experiment
    from hydra_dse.studies import sweep as run_sweep

    extra = [f"search.trials={trials}"] if trials is not None else []
    extra += [f"search.seed={seed}"] if seed is not None else []
    loaded = load_experiment(experiment, [*overrides, *extra])
    directory = out or Path("runs") / loaded.name
    _tell_unused(loaded)
    with SweepBar(f"sweep {loaded.name}", "designs", quiet or as_json) as bar:
        result = run_sweep(
            loaded, directory, workers=workers, resume=resume, progress=bar, command=["hydra-dse", *sys.argv[1:]],
            cluster=cluster,
        )  # fmt: skip
    if as_json and draws is None:
        _print_json(result)
    elif draws is None:
        _print_front(result, loaded)
    else:
        from hydra_dse.cli.uncertainty import judge_front

        if not as_json:
            _print_front(result, loaded)
        judge_front(result.run_dir, draws, None, workers, cluster, quiet=quiet, as_json=as_json)


def _tell_unused(experiment: Experiment) -> None:
    """Tell keys that have no effect in any design of the space on standard error."""
    from hydra_dse.config.unused import without_effect_in

    workload = None if experiment.scenarios.items else experiment.workload
    for line in without_effect_in(experiment.space, workload):
        click.echo(f"note: {experiment.space.name}: {line}", err=True)


def _print_json(result: SweepResult) -> None:
    from hydra_dse.cli.options import print_json

    front = [
        {
            "design": f"{result.run_dir}:{item.identity}",
            "parameters": dict(item.point),
            "metrics": {name: finite(value) for name, value in item.metrics.items()},
        }
        for item in result.front
    ]
    counts = {"scored": result.scored, "feasible": result.feasible, "hypervolume": result.hypervolume}
    print_json({"run": str(result.run_dir), **counts, "front": front})


def _print_front(result: SweepResult, experiment: Experiment) -> None:
    from hydra_dse.cli.tables import console, heading, print_table
    from hydra_dse.results.text import number
    from hydra_dse.studies.estimate_notes import estimate_notes

    names = [*experiment.objectives]
    names += [name for name in ("load", "tpot_mean_s", "energy_j_per_token") if name not in names]
    parameters = list(result.front[0].point)
    columns = ("design", *parameters, *(heading(name) for name in names))
    rows = [
        (item.identity, *(str(value) for value in item.point.values()),
         *(number(item.metrics.get(name)) for name in names))
        for item in result.front
    ]  # fmt: skip
    print_table(f"Pareto front of {experiment.name} (estimated)", columns, rows)
    ended = (
        ""
        if result.scored >= experiment.search.trials
        else f" (no further ones were found; {experiment.search.trials} were allowed)"
    )
    console().print(
        f"{result.scored} designs scored{ended}, {result.feasible} feasible, {len(result.front)} on the front; "
        f"run directory: {result.run_dir}"
    )
    items = experiment.scenarios.items
    for note in estimate_notes([item.workload for item in items] if items else [experiment.workload]):
        console().print(f"note: {note}")
    console().print(f"next: hydra-dse validate {result.run_dir}")
