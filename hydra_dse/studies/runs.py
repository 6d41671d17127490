"""Reading a run back: its experiment, its designs, one design by id."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError, did_you_mean
from hydra_dse.studies.designs_table import ScoredDesigns, point_in
from hydra_dse.studies.run_directory import DESIGNS, RunDirectory, existing_run

if TYPE_CHECKING:
    from hydra_dse.config.overrides import Override


def experiment_of(run: RunDirectory) -> Experiment:
    """Load the resolved experiment of a run."""
    from hydra_dse.config import load_experiment

    return load_experiment(run.experiment_file)


def designs_of(run: RunDirectory) -> ScoredDesigns:
    """All scored designs of a run.

    Raises:
        InputError: it has none yet, or the table is corrupt.
    """
    designs = run.designs()
    if designs is None:
        raise InputError(Fault("the run has no scored designs yet", file=str(run.path / DESIGNS)))
    return designs


def design_of_run(run_dir: str | Path, identity: str, overrides: Sequence[Override] = ()) -> Design:
    """Build the design `identity` of a run or a comparison; the first digits of an id are enough where they are unique.

    Args:
        run_dir: directory of the run.
        identity: of the design.
        overrides: values of it to replace, by their place in a design file; of a run only.

    Raises:
        InputError: no run there, no such design in it, or an override that the design does not accept.
    """
    from hydra_dse.studies.comparison.stored import design_of_comparison, is_comparison

    if is_comparison(run_dir):
        if overrides:
            message = f"cannot change {identity}, a design of a comparison; a design of a sweep or of a file can be"
            raise InputError([Fault(message, file=f"--set {override.name}") for override in overrides])
        return design_of_comparison(run_dir, identity)
    run = existing_run(run_dir)
    designs = designs_of(run)
    row = row_named(designs, identity, str(run.path / DESIGNS))
    space = experiment_of(run).space
    point = point_in(space, designs.points[row])
    if not overrides:
        return space.build(point)
    from hydra_dse.config.changed_designs import changed_design

    return changed_design(run.experiment_file, point, overrides, f"{designs.scores.identities[row]}-changed")


def row_named(designs: ScoredDesigns, identity: str, file: str) -> int:
    """The row of a design by id, or by its first digits where they are unique.

    Raises:
        InputError: no such design in `file`.
    """
    names = designs.scores.identities
    found = [index for index, name in enumerate(names) if identity and name.startswith(identity)]
    if len(found) != 1:
        wrong = "names several designs" if found else f"names no design{did_you_mean(identity, names)}"
        raise InputError(Fault(f"{identity!r} {wrong} of this run", file=file))
    return found[0]
