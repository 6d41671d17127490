"""A design and a workload by reference: files, bundled names, or the design of a run (`RUN:ID`) and what it served."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.run_references import run_and_identity, workload_of_run

if TYPE_CHECKING:
    from hydra_dse.config.overrides import Override
    from hydra_dse.design.nouns import Design
    from hydra_dse.workload.nouns import Workload


def load_pair(
    design: str, workload: str | None, model: str | None, overrides: Sequence[str]
) -> tuple[Design, Workload]:
    """Load a design (a file, a bundled name, or RUN:ID) and a workload (None: that of the run).

    Args:
        design: reference.
        workload: reference.
        model: served in place of the workload's own.
        overrides: texts as `workload.a.b=c` and `design.a.b=c`.

    Raises:
        InputError: a fault of an input, or an override that starts with neither `workload.` nor `design.`.
    """
    from hydra_dse.config import load_model, load_workload
    from hydra_dse.config.overrides import Override, parse_override, split_overrides

    for_workload, others = split_overrides([parse_override(text) for text in overrides], "workload")
    for_design, others = split_overrides(others, "design")
    if others:
        message = "must start with 'workload.' or 'design.', e.g. design.policy.max_batch=32"
        raise InputError([Fault(message, file=f"--set {override.name}") for override in others])
    if model is not None:
        load_model(model)
    if workload is None:
        return _design(design, for_design), workload_of_run(design, model, for_workload)
    if model is not None:
        for_workload = (Override("model", ("model",), model), *for_workload)
    return _design(design, for_design), load_workload(workload, for_workload)


def _design(ref: str, overrides: Sequence[Override]) -> Design:
    from hydra_dse.config import load_design
    from hydra_dse.studies.runs import design_of_run

    of_run = run_and_identity(ref)
    if of_run is None:
        return load_design(ref, overrides)
    if overrides:
        message = f"cannot change {ref}, a design of a run; write the design to a file to change it"
        raise InputError([Fault(message, file=f"--set {override.name}") for override in overrides])
    return design_of_run(*of_run)
