"""`hydra-dse diff RUN_A RUN_B`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hydra_dse.studies.run_differences import RunDifference

_MOST_KEYS = 20


@click.command()
@click.argument("run_a", type=click.Path())
@click.argument("run_b", type=click.Path())
@json_option
def diff(run_a: str, run_b: str, as_json: bool) -> None:
    """What changed from RUN_A to RUN_B: experiment, versions, inputs, and why their Pareto fronts differ."""
    from dataclasses import asdict

    from hydra_dse.cli.options import print_json
    from hydra_dse.studies.run_differences import compare_runs

    found = compare_runs(run_a, run_b)
    if as_json:
        print_json(asdict(found))
    else:
        _print(found)


def _print(found: RunDifference) -> None:
    from hydra_dse.cli.tables import heading, print_table
    from hydra_dse.studies.run_differences import GAINED, KEPT, LOST

    changed = [*found.experiment[:_MOST_KEYS], *found.versions]
    if changed:
        print_table("Experiment and versions", ("key", "before", "after"), changed, left=3)
    if len(found.experiment) > _MOST_KEYS:
        click.echo(f"… and {len(found.experiment) - _MOST_KEYS} more keys (--json lists all)")
    for path in found.inputs:
        click.echo(f"input changed: {path}")
    both, before, after = found.designs
    click.echo(f"designs scored in both runs: {both}, only in the first: {before}, only in the second: {after}")
    click.echo(f"front: {found.count(KEPT)} kept, {found.count(LOST)} lost, {found.count(GAINED)} gained")
    moved = [item for item in found.front if item.change != KEPT or item.before != item.after]
    if moved:
        values = ", ".join(heading(name).replace("\n", " ") for name in found.objectives)
        rows = [
            (item.design, item.change, _values_text(item.before), _values_text(item.after), item.reason)
            for item in moved
        ]
        print_table(f"Front by {values}", ("design", "front", "before", "after", "why"), rows, left=5)


def _values_text(values: Mapping[str, float]) -> str:
    from hydra_dse.results.text import number

    return ", ".join(number(value) for value in values.values()) if values else "not scored"
