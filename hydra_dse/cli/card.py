"""`hydra-dse card check CARD…` and `hydra-dse card schema`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.errors import Fault


@click.group()
def card() -> None:
    """Workload cards of the CCL-Bench format."""


@card.command()
@click.argument("cards", nargs=-1, required=True)
@json_option
def check(cards: tuple[str, ...], as_json: bool) -> None:
    """Print every fault of each CARD, or of the cards in a bundle's folder, with file and line; exit code 2 if any."""
    from hydra_dse.bundle.cards import check_card
    from hydra_dse.bundle.reading.folder import card_of
    from hydra_dse.cli.options import print_json

    faults: list[Fault] = []
    for name in cards:
        found = check_card(card_of(name))
        faults.extend(found)
        if not as_json:
            for fault in found:
                click.echo(f"error: {fault}", err=True)
            if not found:
                click.echo(f"{name}: no faults")
    if as_json:
        print_json({"cards": list(cards), "faults": [vars(fault) for fault in faults]})
    if faults:
        raise click.exceptions.Exit(2)


@card.command()
def schema() -> None:
    """Print the JSON Schema of a card, for editors and other validators."""
    import json

    from hydra_dse.bundle.cards import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
