"""Options that several commands share, and how results leave the program."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from hydra_dse.results.plain import evaluation_json, finite

__all__ = [
    "bundle_options",
    "cluster_option",
    "evaluation_json",
    "finite",
    "json_option",
    "print_json",
    "set_option",
    "window_options",
]

SCHEMA_VERSION = 1
Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """`--json`: print one JSON object instead of tables."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def set_option(command: Command) -> Command:
    """`--set a.b=c`: replace a value of the input, checked by the same schema."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="Replace a value, e.g. workload.arrivals.rate=3/s.",
    )(command)


def cluster_option(command: Command) -> Command:
    """`--cluster`: where a study computes beyond this machine."""
    return click.option(
        "--cluster",
        metavar="ADDRESS",
        help="Compute on the workers of this Dask scheduler (tcp://HOST:8786 or a scheduler file) instead.",
    )(command)


def window_options(command: Command) -> Command:
    """`--trace-window`, `--trace-limit` and `--gzip`: how much the traces of a bundle show, and in which form."""
    for option in (
        click.option(
            "--trace-limit",
            default="32 MB",
            show_default=True,
            metavar="BYTES",
            help="Close the window when the traces are that large, after the 4 iterations of every engine that tools "
            "need.",
        ),
        click.option("--gzip", "compress", is_flag=True, help="Write a .gz beside each trace of the bundle."),
        click.option(
            "--trace-window",
            default="8",
            show_default=True,
            metavar="WINDOW",
            help="What the trace shows: 16 iterations of every engine after the warm-up, 200:16 from the 200th on, "
            "or 0.5s, 10s:0.5s.",
        ),
    ):
        command = option(command)
    return command


def bundle_options(command: Command) -> Command:
    """`--bundle` and what belongs to it: what is written of a simulation beside its result."""
    return click.option(
        "--bundle", type=click.Path(), metavar="DIR", help="Write traces, card, launch script and metrics to DIR."
    )(window_options(command))


def output_file(path: str, option: str, endings: Collection[str]) -> Path:
    """A file that an option names, looked at before the work that fills it.

    Raises:
        InputError: its folder is not there, it is a folder itself, or its name ends in something else.
    """
    from hydra_dse.errors import Fault, InputError

    file = Path(path)
    if file.suffix.lower() not in endings:
        raise InputError(Fault(f"{option} takes a name that ends in {' or '.join(endings)}", path))
    if not file.parent.is_dir():
        raise InputError(Fault(f"{option}: there is no folder {file.parent}", path))
    if file.is_dir():
        raise InputError(Fault(f"{option} takes the name of a file; this is a folder", path))
    return file


def print_json(data: Mapping[str, object]) -> None:
    """Write one JSON object with its schema version; NaN and infinity never appear in it."""
    text = json.dumps({"schema_version": SCHEMA_VERSION, **data}, indent=2, allow_nan=False, default=str)
    sys.stdout.write(text + "\n")
