"""`hydra-dse check FILE…`."""

from __future__ import annotations

import click

from hydra_dse.cli.options import json_option


@click.command()
@click.argument("files", nargs=-1, required=True)
@json_option
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Print every fault of each FILE (experiment, workload, space, design, die, model config or trace)."""
    from hydra_dse.cli.options import print_json
    from hydra_dse.config import check_file
    from hydra_dse.errors import Fault

    faults: list[Fault] = []
    for file in files:
        found = check_file(file)
        faults.extend(found)
        if not as_json:
            for fault in found:
                click.echo(f"error: {fault}", err=True)
            if not found:
                click.echo(f"{file}: no faults")
    if as_json:
        print_json({"files": list(files), "faults": [vars(fault) for fault in faults]})
    if faults:
        raise click.exceptions.Exit(2)
