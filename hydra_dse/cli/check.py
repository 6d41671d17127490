"""`hydra-dse check FILE…`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.errors import Fault

# Kinds whose bundled names `check` takes as well as paths.
_KINDS = ("experiments", "workloads", "lengths", "spaces", "designs", "models")


@click.command()
@click.argument("files", nargs=-1, required=True)
@json_option
def check(files: tuple[str, ...], as_json: bool) -> None:
    """Print every fault of each FILE (experiment, workload, space, design, die, model config or trace).

    A bundled name (`hydra-dse list`) stands for every bundled file of that name.
    """
    from hydra_dse.cli.options import print_json

    faults: list[Fault] = []
    for file in files:
        found = _faults(file)
        faults.extend(found)
        if not as_json:
            for fault in found:
                click.echo(f"error: {fault}", err=True)
            for note in [] if found else _notes(file):
                click.echo(f"note: {file}: {note}", err=True)
            if not found:
                click.echo(f"{file}: no faults")
    if as_json:
        print_json({"files": list(files), "faults": [vars(fault) for fault in faults]})
    if faults:
        raise click.exceptions.Exit(2)


def _faults(ref: str) -> list[Fault]:
    from hydra_dse.config import bundled, check_file, find
    from hydra_dse.config.finder import looks_like_path
    from hydra_dse.errors import Fault, did_you_mean

    if looks_like_path(ref) or Path(ref).exists():
        return check_file(ref)
    names = {kind: bundled(kind) for kind in _KINDS}
    found = [find(kind, ref) for kind, members in names.items() if ref in members]
    if not found:
        known = dict.fromkeys(name for members in names.values() for name in members)
        return [Fault(f"no file or bundled name {ref!r}{did_you_mean(ref, known)}; see `hydra-dse list`")]
    return [fault for path in found for fault in check_file(path)]


def _notes(ref: str) -> tuple[str, ...]:
    """Keys without effect of a design, a space or an experiment without faults; nothing of other files."""
    from hydra_dse.config import bundled, load_design, load_experiment, load_space
    from hydra_dse.config.check import kind_of_file
    from hydra_dse.config.unused import without_effect, without_effect_in

    if Path(ref).is_file():
        kinds = {f"{kind_of_file(ref)}s"}
    else:
        kinds = {kind for kind in ("designs", "spaces", "experiments") if ref in bundled(kind)}
    lines: list[str] = []
    if "designs" in kinds:
        lines += without_effect(load_design(ref))
    if "spaces" in kinds:
        lines += without_effect_in(load_space(ref))
    if "experiments" in kinds:
        experiment = load_experiment(ref)
        lines += without_effect_in(experiment.space, None if experiment.scenarios.items else experiment.workload)
    return tuple(lines)
