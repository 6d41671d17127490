"""`hydra-dse list KIND`."""

from __future__ import annotations

import click

from hydra_dse.cli.options import json_option

KINDS = (
    "models", "workloads", "lengths", "spaces", "designs", "experiments", "chiplets", "memories", "links",
    "calibrations", "technologies",
)  # fmt: skip
ALSO = {"dies": "chiplets", "stacks": "memories"}
"""What else users call a kind: the files of designs say `dies` and `stack`."""


@click.command(name="list")
@click.argument("kind", metavar=f"[{'|'.join(KINDS)}]", required=False)
@json_option
def listing(kind: str | None, as_json: bool) -> None:
    """Print the names of what is bundled."""
    from hydra_dse.cli.options import print_json
    from hydra_dse.config import bundled
    from hydra_dse.errors import Fault, InputError, did_you_mean, one_of

    kind = ALSO.get(kind or "", kind)
    if kind is not None and kind not in KINDS:
        raise InputError(Fault(f"no kind {kind!r}{did_you_mean(kind, KINDS)}; expected {one_of(KINDS)}"))
    names = {each: list(bundled(each)) for each in ([kind] if kind else KINDS)}
    if as_json:
        print_json(names)
        return
    for each, members in names.items():
        if not kind:
            click.echo(f"{each}:")
        for member in members:
            click.echo(member if kind else f"  {member}")
