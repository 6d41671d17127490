"""`hydra-dse doctor`."""

from __future__ import annotations

import click

from hydra_dse.cli.options import json_option


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Print what a bug report needs: versions, machine, simulators and extensions, bundled data.

    Exits with 1 where something is wrong that would make a command fail.
    """
    from dataclasses import asdict

    from hydra_dse.cli.options import print_json
    from hydra_dse.cli.tables import print_table
    from hydra_dse.studies.surroundings import surroundings

    found = asdict(surroundings())
    problems = found["problems"]
    if as_json:
        print_json(found)
    else:
        for part in ("program", "machine", "packages", "simulators", "extensions", "data"):
            if not found[part]:
                continue
            print_table(part, ("", ""), list(found[part].items()), left=2)
        for problem in problems:
            click.echo(f"problem: {problem}")
        if not problems:
            click.echo("no problems found")
    if problems:
        raise click.exceptions.Exit(1)
