"""`hydra-dse explain A B`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.bundle.explain import Comparison, Row


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--normalise", is_flag=True, help="Divide by tokens where the two did different work.")
@click.option("--workload", metavar="WORKLOAD", help="Of designs that are no bundles: simulate them under it.")
@click.option(
    "--requests", type=click.IntRange(10, 10**7), default=200, show_default=True, help="Of such a simulation."
)
@click.option("--plot", "picture", type=click.Path(dir_okay=False), metavar="PNG", help="Also draw the waterfall.")
@json_option
def explain(
    a: str, b: str, normalise: bool, workload: str | None, requests: int, picture: str | None, as_json: bool
) -> None:
    """Say why bundle A beats bundle B, or the other way round: where the time of their iterations goes.

    A and B are folders of bundles, designs of a run (RUN:ID), or with --workload any designs (files or names).
    """
    from hydra_dse.cli.options import output_file
    from hydra_dse.studies.explaining import explained

    file = None if picture is None else output_file(picture, "--plot", (".png", ".svg", ".pdf"))
    found = explained(a, b, workload=workload, requests=requests, normalise=normalise)
    if file is not None:
        from hydra_dse.bundle.explain.plot import plot

        plot(found, file)
    if as_json:
        _print_json(found)
    else:
        _print_tables(found)


def _print_json(found: Comparison) -> None:
    from hydra_dse.cli.options import finite, print_json

    print_json(
        {
            "a": found.a,
            "b": found.b,
            "segments": [
                {
                    "phase": row.phase, "name": row.name, "a_s": finite(row.a_s), "b_s": finite(row.b_s),
                    "difference_s": finite(row.difference_s), "binding_a": row.binding_a, "binding_b": row.binding_b,
                }
                for row in found.rows
            ],
            "totals": {name: {"a_s": a, "b_s": b} for name, (a, b) in found.totals.items()},
            "equal_work": {
                "equal": found.equal_work.equal, "reasons": list(found.equal_work.reasons),
                "normalised_by": found.equal_work.normalised_by,
            },
            "binding": {
                name: {side: {"resource": each[0], "share": finite(each[1])}
                       for side, each in zip(("a", "b"), both, strict=True)}
                for name, both in found.binding.items()
            },
            "order": {
                "faster": {name: found.faster(name) for name in found.totals},
                "levers": [vars(lever) for lever in found.levers],
            },
            "overlap": {"a": finite(found.overlap[0]), "b": finite(found.overlap[1])},
            "notes": list(found.notes),
        }
    )  # fmt: skip


def _print_tables(found: Comparison) -> None:
    from hydra_dse.cli.tables import console, print_table
    from hydra_dse.results.text import number

    out, work = console(), found.equal_work
    if work.equal:
        out.print("equal work: same model, same requests, same work a step")
    elif work.equal is None:
        out.print(f"EQUAL WORK NOT KNOWN: {'; '.join(work.reasons)}")
    else:
        out.print(f"UNEQUAL WORK, times per {work.normalised_by}: {'; '.join(work.reasons)}")
    per = work.normalised_by or "step"
    columns = ("phase", "segment", f"{found.a}, µs", f"{found.b}, µs", "difference, µs", "waits for (A)", "(B)")
    rows: list[tuple[str, ...]] = []
    for phase, (a, b) in found.totals.items():
        rows.append((phase, f"per {per}", number(a * 1e6), number(b * 1e6), number((b - a) * 1e6), "", ""))
        rows += [_cells(row) for row in found.rows if row.phase == phase]
    rows += [_cells(row) for row in found.rows if row.phase not in found.totals]
    print_table(f"{found.a} against {found.b}", columns, rows, 2)
    for phase, ((first, share), (second, other)) in found.binding.items():
        out.print(f"{phase}: {found.a} waits most for {first} ({share:.0%}), {found.b} for {second} ({other:.0%})")
        out.print(f"{phase}: {found.faster(phase) or 'neither'} is faster")
    for lever in found.levers[:6]:
        out.print(
            f"order of the {lever.phase} changes if {lever.segment} ({lever.binding}) is {lever.factor:.4g}× as fast"
        )
    hidden = [n for n in found.overlap if n is not None]
    if len(hidden) == 2:
        out.print(f"communication hidden by computation: {hidden[0]:.0%} and {hidden[1]:.0%} (ranks nothing)")
    for note in found.notes:
        out.print(f"note: {note}")


def _cells(row: Row) -> tuple[str, ...]:
    from hydra_dse.results.text import number

    times = (number(row.a_s * 1e6), number(row.b_s * 1e6), number(row.difference_s * 1e6))
    return (row.phase, row.name, *times, row.binding_a, row.binding_b)
