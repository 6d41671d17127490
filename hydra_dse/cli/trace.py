"""`hydra-dse trace metrics BUNDLE`, `trace table DIR…` and `trace check BUNDLE…`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.bundle.metrics import Measurement


@click.group()
def trace() -> None:
    """Traces of bundles, ours and those of others: metrics, tables, checks."""


@trace.command()
@click.argument("bundle")
@click.option("--only", "names", multiple=True, metavar="NAME", help="Compute this metric only; may be repeated.")
@json_option
def metrics(bundle: str, names: tuple[str, ...], as_json: bool) -> None:
    """Compute the metrics of the traces in the folder BUNDLE; what is missing says why."""
    from hydra_dse.bundle.metrics import evaluate, measure
    from hydra_dse.cli.options import print_json

    found = evaluate(measure(bundle), names)
    if as_json:
        print_json(found.as_dict())
    else:
        _print(bundle, found)


def _print(bundle: str, found: Measurement) -> None:
    from hydra_dse.bundle.metrics import metrics as known
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number

    described = known()
    rows = []
    for name, value in found.values.items():
        metric = described[name.split("@", 1)[0]]
        rows.append((name, metric.category, number(value), metric.unit))
    print_table(f"{bundle}: metrics", ("metric", "category", "value", "unit"), rows, left=2)
    if found.unavailable:
        reasons = [(name, why) for name, why in found.unavailable.items()]
        print_table("not available", ("metric", "because"), reasons, left=2)
    for warning in found.warnings:
        console().print(f"warning: {warning}")
