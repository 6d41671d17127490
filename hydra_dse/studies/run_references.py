"""Designs of a run by reference: `RUN:ID`, under the workload and calibration of the run's experiment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hydra_dse.config.overrides import Override
    from hydra_dse.workload.nouns import Workload


def run_and_identity(ref: str) -> tuple[str, str] | None:
    """The two parts of `RUN:ID`; None for a file or a name."""
    run, colon, identity = ref.rpartition(":")
    return (run, identity) if colon and run and not Path(ref).is_file() else None


def workload_of_run(ref: str, model: str | None, overrides: Sequence[Override]) -> Workload:
    """The workload under which the run of a design was made, with these overrides of it.

    Raises:
        InputError: the design is not one of a run, or there is no such run.
    """
    from hydra_dse.config import load_experiment
    from hydra_dse.config.overrides import Override as Change
    from hydra_dse.studies.comparison.stored import is_comparison
    from hydra_dse.studies.run_directory import existing_run

    if is_comparison(_run(ref)):
        return _workload_of_comparison(ref, model, overrides)
    run = existing_run(_run(ref))
    changes = [Change(each.name, ("workload", *each.path), each.value) for each in overrides]
    if any(each.path[:1] == ("arrivals",) for each in overrides):
        # The experiment's own rate would hide that of the arrivals.
        changes.append(Change("rate", ("rate",), None))
    if model is not None:
        changes.append(Change("model", ("model",), model))
    return load_experiment(run.experiment_file, changes).workload


def _workload_of_comparison(ref: str, model: str | None, overrides: Sequence[Override]) -> Workload:
    """The load that a design of a comparison was chosen for; another one needs a workload of its own."""
    from hydra_dse.errors import Fault, InputError
    from hydra_dse.studies.comparison.stored import workload_of_design

    if model is not None or overrides:
        message = "is missing; a design of a comparison has its load, and another model or other values need a workload"
        raise InputError(Fault(message, file="--workload"))
    run, _, identity = ref.rpartition(":")
    return workload_of_design(run, identity)


def calibration_of_run(ref: str) -> str:
    """Name or file of the calibration of the run of a design.

    Raises:
        InputError: the design is not one of a run, or there is no such run.
    """
    return calibration_of(_run(ref))


def calibration_for(ref: str, named: str | None) -> str:
    """The calibration of a design: as named, else that of its run, else `default`."""
    if named is not None:
        return named
    return "default" if run_and_identity(ref) is None else calibration_of_run(ref)


def calibration_of(run: str) -> str:
    """Name or file of the calibration of a run.

    Raises:
        InputError: there is no such run.
    """
    from hydra_dse.config.loader import load_yaml
    from hydra_dse.studies.comparison.runs import COMPARISON
    from hydra_dse.studies.comparison.stored import is_comparison
    from hydra_dse.studies.run_directory import existing_run

    file = Path(run) / COMPARISON if is_comparison(run) else existing_run(run).experiment_file
    named = load_yaml(file).data.get("calibration")
    return "default" if named is None else str(named)


def _run(ref: str) -> str:
    from hydra_dse.errors import Fault, InputError

    parts = run_and_identity(ref)
    if parts is None:
        message = f"is missing; only a design of a run (RUN:ID) has a workload of its own, and {ref!r} is none"
        raise InputError(Fault(message, file="--workload"))
    return parts[0]
