"""`hydra-dse schema KIND`."""

from __future__ import annotations

import click


@click.command()
@click.argument("kind")
def schema(kind: str) -> None:
    """Print the JSON Schema of a KIND of input file for editors.

    KIND is experiment, workload, lengths, space, design, die, memory, link, calibration, comparison or variance.  The
    schema of a workload card is `hydra-dse card schema`.
    """
    import json

    from hydra_dse.config.json_schema import json_schema

    click.echo(json.dumps(json_schema(kind), indent=2, ensure_ascii=False))
