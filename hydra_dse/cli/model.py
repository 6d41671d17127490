"""`hydra-dse model show CONFIG`."""

from __future__ import annotations

import click

from hydra_dse.cli.options import json_option


@click.group()
def model() -> None:
    """Parameters, caches, FLOPs and bytes of a model."""


@model.command()
@click.argument("config")
@click.option("--prefill", "prefill_tokens", type=click.IntRange(1, 10**8), default=1024, show_default=True,
              help="Prompt tokens of the prefill to cost.")  # fmt: skip
@click.option("--context", "context_tokens", type=click.IntRange(1, 10**8), default=1024, show_default=True,
              help="Context tokens of the decode step to cost.")  # fmt: skip
@json_option
def show(config: str, prefill_tokens: int, context_tokens: int, as_json: bool) -> None:
    """Read CONFIG (a Hugging Face config.json, or a bundled name) and print what it costs to serve."""
    from hydra_dse.cli.options import print_json
    from hydra_dse.config import load_model
    from hydra_dse.model.summary import summarise

    summary = summarise(load_model(config), prefill_tokens=prefill_tokens, context_tokens=context_tokens)
    if as_json:
        print_json({key: value for key, value in summary.as_dict().items() if key != "schema_version"})
    else:
        from hydra_dse.cli.model_tables import print_summary

        print_summary(summary)
