"""`hydra-dse trace metrics BUNDLE`, `trace table DIR…`, `trace check BUNDLE…` and `trace export BUNDLE`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from pathlib import Path

    from hydra_dse.bundle.metrics import Measurement
    from hydra_dse.bundle.metrics.table import Row
    from hydra_dse.bundle.reading.check import RuleResult


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


@trace.command()
@click.argument("folders", nargs=-1, required=True, metavar="DIR...")
@click.option("--only", "names", multiple=True, metavar="NAME", help="A column for this metric only; may be repeated.")
@click.option("--sort", "sort_by", metavar="NAME", help="Sort the rows of equal work by this metric.")
@click.option("--descending", is_flag=True, help="The largest first.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write a file instead: .csv or .html, by its name.")
@json_option
def table(
    folders: tuple[str, ...],
    names: tuple[str, ...],
    sort_by: str | None,
    descending: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Put many bundles into one table: each DIR is a bundle, or a folder of bundles.

    Rows of equal work stand together.  Flags name cards with faults, and digests or launch scripts that do not match.
    """
    from hydra_dse.bundle.metrics.table import sort
    from hydra_dse.bundle.metrics.table import table as rows_of
    from hydra_dse.cli.options import output_file, print_json

    file = None if out is None else output_file(out, "--out", (".csv", ".html"))
    rows = rows_of(folders, names)
    if sort_by is not None:
        rows = sort(rows, sort_by, descending)
    if file is not None:
        _write_table(file, rows)
    elif not as_json:
        _print_groups(rows, bool(names))
    if as_json:
        print_json({"bundles": [_row_json(row) for row in rows]})


def _row_json(row: Row) -> dict[str, object]:
    head = {"name": row.name, "path": row.path, "work": row.work, "flags": list(row.flags)}
    return {**head, **row.measurement.as_dict()}


def _write_table(file: Path, rows: list[Row]) -> None:
    from hydra_dse.bundle.metrics.render import to_csv, to_html
    from hydra_dse.errors import Fault, InputError

    text = to_csv(rows) if file.suffix.lower() == ".csv" else to_html(rows)
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(Fault(f"cannot be written: {error.strerror or error}", str(file))) from None


COLUMNS = ("avg_step_time", "exposed_communication_s", "compute_comm_overlap", "mfu", "ttft_p50_s", "tpot_mean_s")
"""What the terminal shows unless metrics are named; files hold all."""


def _print_groups(rows: list[Row], named: bool) -> None:
    from itertools import groupby

    from hydra_dse.bundle.metrics.table import columns
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number

    for work, group in groupby(rows, key=lambda row: row.work):
        inside = list(group)
        found = columns(inside)
        shown = found if named else [name for name in COLUMNS if name in found]
        units = {name: unit for row in inside for name, unit in row.measurement.units.items()}
        heads = [f"{name}\n[{units[name]}]" if units[name] else name for name in shown]
        cells = [
            (row.name, *(number(row.measurement.values.get(name)) for name in shown), str(len(row.flags) or ""))
            for row in inside
        ]
        console().print(work, soft_wrap=True)
        print_table(f"bundles of equal work: {len(inside)}", ("bundle", *heads, "flags"), cells)
        for row in inside:
            for flag in row.flags:
                console().print(f"{row.name}: {flag}")


@trace.command()
@click.argument("bundles", nargs=-1, required=True)
@json_option
def check(bundles: tuple[str, ...], as_json: bool) -> None:
    """Hold the traces of each folder BUNDLE against every field that the existing tools need; exit code 2 on a fault.

    Beyond the fields: events of a track nest, its time never runs back, collectives match on all ranks.
    """
    from hydra_dse.bundle.reading.check import FAULT, check_folder
    from hydra_dse.cli.options import print_json

    results = {bundle: check_folder(bundle) for bundle in bundles}
    if as_json:
        print_json({"bundles": {name: [_rule_json(each) for each in found] for name, found in results.items()}})
    else:
        for name, found in results.items():
            _print_rules(name, found)
    if any(each.status == FAULT for found in results.values() for each in found):
        raise click.exceptions.Exit(2)


@trace.command()
@click.argument("bundle", type=click.Path())
@click.option("--to", "form", type=click.Choice(("chakra",)), default="chakra", show_default=True, help="Format.")
@click.option("--out", type=click.Path(file_okay=False), required=True, metavar="DIR", help="Folder of the files.")
@json_option
def export(bundle: str, form: str, out: str, as_json: bool) -> None:
    """Write the graph of the operators, transfers and memory accesses of BUNDLE for other simulators.

    Of a bundle of ours: one Chakra file (rank.<N>.et) a rank, and comm_groups.json.
    """
    from hydra_dse.bundle.chakra import GROUPS
    from hydra_dse.bundle.chakra import export as write
    from hydra_dse.cli.options import print_json

    found = write(bundle, out)
    counts = {kind.name: count for kind, count in found.counts.items()}
    if as_json:
        files = [str(file) for file in found.files]
        print_json({"format": form, "files": files, "nodes": counts, "dependencies": found.edges})
        return
    listed = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    click.echo(f"{len(found.files)} files rank.<N>.et and {GROUPS} in {out}")
    click.echo(f"nodes: {listed}; {found.edges:,} dependencies")


def _rule_json(result: RuleResult) -> dict[str, object]:
    faults = [vars(fault) for fault in result.faults]
    return {"rule": result.rule.name, "status": result.status, "count": result.count, "faults": faults}


def _print_rules(bundle: str, results: list[RuleResult]) -> None:
    from hydra_dse.cli.tables import print_table

    rows = [(each.rule.name, each.status, str(each.count or ""), each.rule.where) for each in results]
    print_table(f"{bundle}: what tools need", ("field", "status", "faults", "where"), rows, left=2)
    for each in results:
        for fault in each.faults:
            click.echo(f"error: {each.rule.name}: {fault}", err=True)


LARGEST = 5
"""Values that people see of a metric of many things; `--json` has all."""


def _shown(values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Metrics in their order, of many things the largest few."""
    from itertools import groupby

    for _, group in groupby(values.items(), key=lambda item: item[0].split("@", 1)[0]):
        several = list(group)
        if len(several) > LARGEST + 1:
            several = sorted(several, key=lambda item: -item[1])[:LARGEST]
        yield from several


def _print(bundle: str, found: Measurement) -> None:
    from hydra_dse.bundle.metrics import metrics as known
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number

    described = known()
    rows = []
    for name, value in _shown(found.values):
        metric = described[name.split("@", 1)[0]]
        rows.append((name, metric.category, number(value), metric.unit))
    print_table(f"{bundle}: metrics", ("metric", "category", "value", "unit"), rows, left=2)
    hidden = len(found.values) - len(rows)
    if hidden:
        console().print(f"{hidden} smaller values of links and memories are left out; --json has all")
    if found.unavailable:
        reasons = [(name, why) for name, why in found.unavailable.items()]
        print_table("not available", ("metric", "because"), reasons, left=2)
    for warning in found.warnings:
        console().print(f"warning: {warning}")
