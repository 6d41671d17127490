"""A design and a workload by reference: files, bundled names, or the design of a run (`RUN:ID`) and what it served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.errors import Fault, InputError
from hydra_dse.studies.run_directory import PROVENANCE
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
        raise InputError([Fault(_misplaced(override.name), file=f"--set {override.name}") for override in others])
    if model is not None:
        load_model(model)
    if workload is None:
        return _design(design, for_design), workload_of_run(design, model, for_workload)
    if model is not None:
        for_workload = (Override("model", ("model",), model), *for_workload)
    return _design(design, for_design), load_workload(workload, for_workload)


def _misplaced(name: str) -> str:
    """What is wrong with a key of neither; keys of experiments are known from sweeps."""
    if name == "rate":
        return "is a key of experiments; here it is workload.arrivals.rate, e.g. workload.arrivals.rate=2/s"
    if name.split(".")[0] in ("arrivals", "lengths", "slo", "classes"):
        return f"must start with 'workload.': workload.{name}"
    if name.split(".")[0] in ("policy", "package", "dies", "memories", "mapping", "placement", "precision"):
        return f"must start with 'design.': design.{name}"
    return "must start with 'workload.' or 'design.', e.g. design.policy.max_batch=32"


def _design(ref: str, overrides: Sequence[Override]) -> Design:
    from hydra_dse.config import load_design
    from hydra_dse.studies.runs import design_of_run

    of_run = run_and_identity(ref)
    if of_run is None and (Path(ref) / PROVENANCE).is_file():
        raise InputError(Fault(f"is a run of many designs; name one as {ref}:ID, by an id of its pareto.csv", file=ref))
    return load_design(ref, overrides) if of_run is None else design_of_run(*of_run, overrides)
