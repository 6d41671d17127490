"""`hydra-dse check FILE…`."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hydra_dse.cli.options import json_option

if TYPE_CHECKING:
    from hydra_dse.config.check import Checked
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
    from hydra_dse.cli.deferred import import_on_use
    from hydra_dse.cli.options import print_json

    import_on_use("numpy")
    faults: list[Fault] = []
    for file in files:
        read = _checked(file)
        found = [fault for one in read for fault in one.faults]
        faults.extend(found)
        if not as_json:
            for fault in found:
                click.echo(f"error: {fault}", err=True)
            for note in [] if found else [note for one in read for note in _notes(one)]:
                click.echo(f"note: {file}: {note}", err=True)
            if not found:
                click.echo(f"{file}: no faults")
    if as_json:
        print_json({"files": list(files), "faults": [vars(fault) for fault in faults]})
    # All that was read ends with the process, and nothing of it is open: looking for cycles in it once more would
    # take a tenth of the time of a check.
    gc.freeze()
    if faults:
        raise click.exceptions.Exit(2)


def _checked(ref: str) -> list[Checked]:
    from hydra_dse.config import bundled, find
    from hydra_dse.config.check import Checked, checked
    from hydra_dse.config.finder import looks_like_path
    from hydra_dse.errors import Fault, did_you_mean

    if looks_like_path(ref) or Path(ref).exists():
        return [checked(ref)]
    names = {kind: bundled(kind) for kind in _KINDS}
    found = [find(kind, ref) for kind, members in names.items() if ref in members]
    if not found:
        known = dict.fromkeys(name for members in names.values() for name in members)
        fault = Fault(f"no file or bundled name {ref!r}{did_you_mean(ref, known)}; see `hydra-dse list`")
        return [Checked((fault,))]
    return [checked(path) for path in found]


def _notes(read: Checked) -> tuple[str, ...]:
    """Keys without effect of a design, a space or an experiment without faults; nothing of other files."""
    from hydra_dse.config.unused import without_effect, without_effect_in
    from hydra_dse.design.experiment import Experiment
    from hydra_dse.design.nouns import Design
    from hydra_dse.design.space import SearchSpace

    if isinstance(read.found, Design):
        return tuple(without_effect(read.found))
    if isinstance(read.found, SearchSpace):
        return tuple(without_effect_in(read.found))
    if isinstance(read.found, Experiment):
        scenarios = read.found.scenarios.items
        return tuple(without_effect_in(read.found.space, None if scenarios else read.found.workload))
    return ()
