"""`hydra-dse robustness EXPERIMENT|RUN`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import cluster_option, finite, json_option, set_option
from hydra_dse.errors import Fault, InputError

if TYPE_CHECKING:
    from hydra_dse.studies.robustness import RobustnessResult


@click.command()
@click.argument("target", metavar="EXPERIMENT|RUN")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [default: runs/<name>-robustness].")
@click.option("--trials", type=click.IntRange(1, 10**8), help="Designs that every search scores.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Seed instead of the experiment's.")
@click.option("--workers", type=click.IntRange(1, 4096), default=1, show_default=True, help="Processes.")
@click.option("--simulate", is_flag=True, help="Simulate the designs chosen for all metrics at once.")
@click.option("--draws", type=click.IntRange(1, 100_000), help="Of a RUN: calibrations to draw  [default: 200]")
@click.option(
    "--memory",
    type=click.FloatRange(0.0, 1.0, min_open=True),
    help="Of a RUN: memory efficiencies of the repeat, as a factor  [default: 0.85]",
)
@click.option("--quick", is_flag=True, help="The file's quick variant: few designs and requests.")
@click.option("--resume", is_flag=True, help="Go on with a study of the same experiment.")
@cluster_option
@click.option("--quiet", is_flag=True, help="No progress.")
@set_option
@json_option
def robustness(
    target: str,
    out: Path | None,
    trials: int | None,
    seed: int | None,
    workers: int,
    simulate: bool,
    draws: int | None,
    memory: float | None,
    quick: bool,
    resume: bool,
    cluster: str | None,
    quiet: bool,
    overrides: tuple[str, ...],
    as_json: bool,
) -> None:
    """How designs hold: for other models and loads (EXPERIMENT), or under an uncertain calibration (RUN).

    EXPERIMENT (a YAML file or a bundled name) names scenarios. Searches for the best design of each, for a generalist
    of all, and for generalists that do not know one of the models; prints what each keeps of the scenarios' own best.
    An EXPERIMENT with a section `dynamic` compares task maps under a load that shifts, in simulation.

    RUN (the directory of a sweep): draws calibrations from their intervals and prints how likely each design of the
    front is in front, and the best of each objective.
    """
    from hydra_dse.cli.progress import StudyBar
    from hydra_dse.cli.uncertainty import judge_front
    from hydra_dse.config import load_experiment
    from hydra_dse.studies.robustness import robustness as run_study

    if Path(target).is_dir():
        foreign = {
            "--out": out, "--trials": trials, "--seed": seed, "--simulate": simulate, "--set": overrides,
            "--quick": quick,
        }  # fmt: skip
        _refuse(foreign, "takes an experiment, not a run directory", target)
        judge_front(Path(target), draws or 200, memory, workers, cluster, quiet=quiet, as_json=as_json)
        return
    _refuse({"--draws": draws, "--memory": memory}, "takes the directory of a run, not an experiment", target)
    extra = [f"search.trials={trials}"] if trials is not None else []
    extra += [f"search.seed={seed}"] if seed is not None else []
    loaded = load_experiment(target, [*overrides, *extra], quick=quick)
    directory = out or Path("runs") / f"{loaded.name}-robustness"
    if loaded.dynamic is not None:
        from hydra_dse.cli.dynamic import compare_maps

        words = ["hydra-dse", *sys.argv[1:]]
        compare_maps(loaded, directory, workers, words, cluster, resume=resume, quiet=quiet, as_json=as_json)
        return
    with StudyBar(f"robustness {loaded.name}", "estimates", quiet or as_json) as bar:
        result = run_study(
            loaded,
            directory,
            workers=workers,
            resume=resume,
            simulate=simulate,
            progress=bar,
            command=["hydra-dse", *sys.argv[1:]],
            cluster=cluster,
        )
    if as_json:
        _print_json(result)
    else:
        _print_tables(result)


def _refuse(given: Mapping[str, object], why: str, target: str) -> None:
    """Raise `InputError` for options that this kind of target does not take."""
    for option, value in given.items():
        if value not in (None, False, ()):
            raise InputError(Fault(f"{option} {why}", file=target))


def _print_json(result: RobustnessResult) -> None:
    from hydra_dse.cli.options import print_json

    cells = [
        {
            "metric": cell.metric,
            "role": cell.role,
            "design": cell.design,
            "scenario": cell.scenario.name,
            "seen": cell.seen,
            "of": cell.shown,
            "load": finite(cell.load),
            "value": finite(cell.value),
            "own_best": finite(cell.own_best),
            "retained_share": finite(cell.share),
            "simulated_share": finite(cell.simulated),
            "interval": [finite(cell.sim_low), finite(cell.sim_high)],
        }
        for cell in result.cells
    ]
    summary = [
        {"metric": row.metric, "kind": row.kind, "policy": row.policy, "cells": row.cells,
         "mean_share": finite(row.mean),
         "worst_share": finite(row.worst), "worst_at": row.worst_at}
        for row in result.summaries
    ]  # fmt: skip
    ranks = [
        {"metric": row.metric, "scenarios": [row.first, row.second], "packages": row.packages,
         "spearman": finite(row.spearman)}
        for row in result.correlations
    ]  # fmt: skip
    rates = dict(result.references.rates)
    print_json(
        {"run": str(result.run_dir), "rates": rates, "summary": summary, "cells": cells, "rank_correlation": ranks}
    )


_COLUMNS = 6
"""Scenarios that have a column each; more would leave no room."""
_KINDS = {
    "own": "specialists, elsewhere",
    "load": "one workload, all models",
    "all": "generalist, everywhere",
    "without": "generalist, unseen model",
}


def _print_tables(result: RobustnessResult) -> None:
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number

    rows = [
        (row.metric, _KINDS[row.kind], row.policy, str(row.cells), f"{row.mean:.3f}", f"{row.worst:.3f}", row.worst_at)
        for row in result.summaries
    ]
    columns = ("chosen by", "designs", "policy", "cells", "mean share", "worst share", "worst at")
    print_table("Retained share of each scenario's own best", columns, rows)
    _print_generalists(result)
    names = list(dict.fromkeys(row.metric for row in result.correlations))
    ranks = []
    for name in names:
        known = (row.spearman for row in result.correlations if row.metric == name)
        values = sorted(value for value in known if value == value)
        if values:
            ranks.append((name, str(len(values)), number(values[0]), number(values[len(values) // 2])))
    print_table("Rank correlation of packages between scenarios", ("metric", "pairs", "lowest", "median"), ranks)
    console().print(f"run directory: {result.run_dir}\nnext: hydra-dse report {result.run_dir}")


def _print_generalists(result: RobustnessResult) -> None:
    """The package that serves all scenarios, by what it was chosen for, and what it keeps in each."""
    from hydra_dse.cli.tables import print_table

    scenarios = list(dict.fromkeys(cell.scenario.name for cell in result.cells))
    rows = []
    for chosen in (each for each in result.selected if each.role.kind == "all"):
        point = ", ".join(f"{name} {value}" for name, value in chosen.point.items())
        kept = [
            [cell.share for cell in result.cells
             if (cell.metric, cell.role, cell.scenario.name) == (chosen.metric, chosen.role.name, name)]
            for name in scenarios
        ]  # fmt: skip
        rows.append((chosen.metric, chosen.design, point, [min(shares) for shares in kept if shares]))
    if not rows:
        return
    few = scenarios if len(scenarios) <= _COLUMNS else []
    heads = ("chosen by", "design", "parameters", *(name.replace("/", "/\n") for name in few), "worst")
    lines = [
        (*row[:3], *(f"{share:.3f}" for share in row[3][: len(few)]), f"{min(row[3], default=0.0):.3f}") for row in rows
    ]
    print_table("One package for all: the share of each scenario's own best that it keeps", heads, lines, 3)
