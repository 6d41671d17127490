"""Single designs through the estimator and the simulators."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hydra_dse.api.evaluations import Evaluations
from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.config.overrides import Override, parse_override, split_overrides
from hydra_dse.config.unused import without_effect
from hydra_dse.design.evaluator import EvaluationOptions
from hydra_dse.design.nouns import Design
from hydra_dse.errors import Fault, InputError
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.results import Evaluation
from hydra_dse.studies.run_references import calibration_for, run_and_identity, workload_of_run
from hydra_dse.workload.nouns import Workload

if TYPE_CHECKING:
    from hydra_dse.records import RecordSink

DesignLike = Design | str | Path
"""A design, a file, a bundled name, or `RUN:ID`."""

_log = logging.getLogger(__name__)


def estimate(
    designs: DesignLike | Sequence[DesignLike],
    workload: Workload | str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    calibration: CalibrationSet | str | Path | None = None,
    max_rate: bool = False,
) -> Evaluations:
    """Score designs with the Markov-chain estimator.

    Args:
        designs: one or several.
        workload: what they serve; None = that of the run, for a design of a run (`RUN:ID`).
        overrides: `workload.…=value` and `design.…=value`, for what is named, not for objects.
        calibration: efficiencies of the dies; None = the run's for a design of a run, else `default`.
        max_rate: also the highest rate that meets the service levels of the workload.

    Raises:
        InputError: a fault of an input.
    """
    from hydra_dse.estimator import evaluate

    case = _case(designs, workload, overrides, calibration)
    found = evaluate(case.designs, case.workload, case.calibration, max_rate=max_rate, temperature=True)
    return Evaluations(case.names, tuple(found), case.workload.name)


def simulate(
    designs: DesignLike | Sequence[DesignLike],
    workload: Workload | str | Path | None = None,
    overrides: Sequence[str] = (),
    *,
    calibration: CalibrationSet | str | Path | None = None,
    options: EvaluationOptions | None = None,
    requests: int | None = None,
    replications: int | None = None,
    seed: int = 0,
    simulator: str = "serving",
    sink: RecordSink | None = None,
) -> Evaluations:
    """Place designs and run them through a discrete-event simulator, with the same requests for all.

    Args:
        designs: one or several.
        workload: see `estimate`.
        overrides: see `estimate`.
        calibration: see `estimate`.
        options: how long and how often.
        requests: per replication, in place of that of `options`.
        replications: independent runs, in place of that of `options`.
        seed: of the requests.
        simulator: name in the entry-point group `hydra_dse.simulators`.
        sink: where records of requests and iterations go.

    Raises:
        InputError: a fault of an input, or no such simulator.
    """
    from hydra_dse.studies.simulators import find_simulator

    case = _case(designs, workload, overrides, calibration)
    options = options or EvaluationOptions()
    options = replace(options, requests=requests or options.requests)
    options = replace(options, replications=replications or options.replications)
    engine = find_simulator(simulator)
    found = []
    for design in case.designs:
        placed, broken = _placed(design, case.workload)
        if broken is not None:
            found.append(broken)
        else:
            found += engine.evaluate([placed], case.workload, case.calibration, options, seed, sink)
    return Evaluations(case.names, tuple(found), case.workload.name)


def _placed(design: Design, workload: Workload) -> tuple[Design, Evaluation | None]:
    """The placed design, or what is wrong with one that cannot be placed."""
    from hydra_dse.placement import place_design
    from hydra_dse.search.estimating import PLACEMENT_SEED
    from hydra_dse.workload import served

    placed, violations = place_design(design, [kind.model for kind in served(workload)], PLACEMENT_SEED)
    return placed, Evaluation("simulated", metrics={}, violations=tuple(violations)) if violations else None


@dataclass(frozen=True)
class _Case:
    """The nouns behind references; a design without a name is called by its id."""

    names: tuple[str, ...]
    designs: tuple[Design, ...]
    workload: Workload
    calibration: CalibrationSet


def _case(
    designs: DesignLike | Sequence[DesignLike],
    workload: Workload | str | Path | None,
    overrides: Sequence[str],
    calibration: CalibrationSet | str | Path | None,
) -> _Case:
    several = [designs] if isinstance(designs, Design | str | Path) else list(designs)
    if not several:
        raise InputError(Fault("name at least one design"))
    for_workload, others = split_overrides([parse_override(text) for text in overrides], "workload")
    for_design, others = split_overrides(others, "design")
    if others:
        message = "must start with 'workload.' or 'design.'"
        raise InputError([Fault(message, file=f"override {override.name}") for override in others])
    load, rates = _workload(workload, several[0], for_workload), _calibration(calibration, several[0])
    found = tuple(_design(each, for_design) for each in several)
    names = tuple(
        design.name or design.identity if isinstance(each, Design) else str(each)
        for each, design in zip(several, found, strict=True)
    )
    for line in dict.fromkeys(line for each in found for line in without_effect(each, load)):
        _log.warning(line)
    return _Case(names, found, load, rates)


def _design(ref: DesignLike, overrides: Sequence[Override]) -> Design:
    from hydra_dse.studies.runs import design_of_run

    of_run = run_and_identity(str(ref)) if not isinstance(ref, Design) else None
    if overrides and isinstance(ref, Design):
        raise InputError(Fault("overrides change designs of files and of runs; this one is an object"))
    if isinstance(ref, Design):
        return ref
    return load_design(ref, overrides) if of_run is None else design_of_run(*of_run, overrides)


def _workload(ref: Workload | str | Path | None, design: DesignLike, overrides: Sequence[Override]) -> Workload:
    if isinstance(ref, Workload):
        if overrides:
            raise InputError(Fault("overrides change workloads of files; this one is an object"))
        return ref
    if ref is not None:
        return load_workload(ref, overrides)
    if isinstance(design, Design) or run_and_identity(str(design)) is None:
        raise InputError(Fault("name the workload: only a design of a run (RUN:ID) brings its own"))
    return workload_of_run(str(design), None, overrides)


def _calibration(ref: CalibrationSet | str | Path | None, design: DesignLike) -> CalibrationSet:
    if isinstance(ref, CalibrationSet):
        return ref
    if ref is None:
        ref = "default" if isinstance(design, Design) else calibration_for(str(design), None)
    return load_calibration(ref)
