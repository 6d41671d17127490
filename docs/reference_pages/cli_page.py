"""The page of the command line, from click."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hydra_dse.cli.app import COMMANDS, app
from reference_pages.table import NOTE, table


def cli_page() -> str:
    """Commands, arguments and options."""
    parts = [NOTE, CLI_INTRODUCTION]
    context = click.Context(app)
    for name in COMMANDS:
        command = app.get_command(context, name)
        if command is not None:
            parts += _command(f"hydra-dse {name}", command)
    return "".join(parts)


CLI_INTRODUCTION = """# Command line

`hydra-dse COMMAND --help` prints the same.  Names are those of files or of what is bundled (`hydra-dse list`).

| exit code | meaning |
|---|---|
| 0 | done; an infeasible design is a result |
| 2 | the input is wrong: one message for each fault, and nothing was changed |
| 3 | a search found nothing feasible; its rows are kept |
| 130 | interrupted; what was done is kept, and `--resume` goes on |

"""


def _command(name: str, command: click.Command) -> Iterator[str]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _command(f"{name} {inner}", found)
        return
    arguments = [_metavar(item) for item in command.params if isinstance(item, click.Argument)]
    yield f"## {name}\n\n`{' '.join([name, *arguments, '[OPTIONS]'])}`\n\n{_help(command.help)}\n\n"
    rows = [_option(item) for item in command.params if isinstance(item, click.Option)]
    if rows:
        yield table(("option", "value", "default", "meaning"), rows)
    yield "\n"


def _metavar(argument: click.Argument) -> str:
    name = (argument.name or "").upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def _option(option: click.Option) -> tuple[str, str, str, str]:
    names = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f"`{option.metavar}`" if option.metavar else _kind(option.type)
    plain = option.default is None or option.is_flag or option.multiple or not isinstance(option.default, int | str)
    needed = "required" if option.required else "" if plain else f"`{option.default}`"
    return names, value, needed, _help(option.help)


def _kind(kind: click.ParamType) -> str:
    if isinstance(kind, click.IntRange):
        return "whole number" + (f" ≥ {kind.min}" if kind.min is not None else "")
    if isinstance(kind, click.Choice):
        return ", ".join(f"`{choice}`" for choice in kind.choices)
    return "path" if isinstance(kind, click.Path) else "text"


def _help(text: str | None) -> str:
    return " ".join((text or "").split()).replace("<", r"\<")
