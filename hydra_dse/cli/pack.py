"""`hydra-dse pack RUN`."""

from __future__ import annotations

import click

from hydra_dse.cli.options import json_option


@click.command()
@click.argument("run", type=click.Path())
@click.option("--out", type=click.Path(), metavar="FILE", help="The archive; by default RUN.tar.gz beside the run.")
@json_option
def pack(run: str, out: str | None, as_json: bool) -> None:
    """Put RUN and the inputs it read into one archive; equal runs give equal archives."""
    from hydra_dse.cli.options import print_json
    from hydra_dse.studies.archive_of_run import pack as pack_run

    packed = pack_run(run, out)
    if as_json:
        print_json(
            {
                "path": str(packed.path),
                "files": packed.members,
                "sha256": packed.sha256,
                "missing_inputs": list(packed.missing_inputs),
            }
        )
        return
    click.echo(f"{packed.path}: {packed.members} files, sha256 {packed.sha256}")
    for place in packed.missing_inputs:
        click.echo(f"note: not packed, gone or changed since the run: {place}", err=True)
