"""Jobs on run directories: search and validation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra_dse import studies
from hydra_dse.api.runs import StudyRun, Validation
from hydra_dse.config import load_experiment
from hydra_dse.design.experiment import Experiment
from hydra_dse.errors import Fault, InputError


def sweep(
    experiment: Experiment | str | Path,
    out: str | Path,
    overrides: Sequence[str] = (),
    *,
    workers: int = 1,
    resume: bool = False,
) -> StudyRun:
    """Search the space of an experiment; write and return its run directory.

    Args:
        experiment: an object, a file or a bundled name.
        out: new or empty, or with `resume` the directory of an unfinished run.
        overrides: `key=value`, for what is named, not for an object.
        workers: processes that score; a script that asks for several needs `if __name__ == "__main__":`.
        resume: go on with an unfinished run.

    Raises:
        InputError: a fault of an input.
        NothingFeasible: no design is feasible; `open_run` reads the rows.
        Interrupted: stopped; `resume` goes on.
    """
    if not isinstance(experiment, Experiment):
        experiment = load_experiment(experiment, overrides)
    elif overrides:
        raise InputError(Fault("overrides change experiments of files; this one is an object"))
    return StudyRun(studies.sweep(experiment, out, workers=workers, resume=resume).run_dir)


def validate(
    run: StudyRun | str | Path,
    *,
    top: int | None = None,
    requests: int | None = None,
    replications: int | None = None,
    workers: int | None = 1,
    simulator: str = "serving",
) -> Validation:
    """Simulate the best designs of a run and hold the estimates against them; a validation cut off goes on.

    Args:
        run: a run or its directory.
        top: designs to simulate; by default what the experiment says, as for the next two.
        requests: requests per replication.
        replications: independent runs per design.
        workers: processes that simulate; None = as many as pay.
        simulator: name in the entry-point group `hydra_dse.simulators`.

    Raises:
        InputError: no run, a corrupt one, or no such simulator.
        NothingFeasible: the run has no feasible design.
        Interrupted: stopped; what was simulated is kept.
    """
    path = run.path if isinstance(run, StudyRun) else Path(run)
    result = studies.validate(
        path, top=top, requests=requests, replications=replications, workers=workers, simulator=simulator
    )
    return Validation(path, result)


def open_run(path: str | Path) -> StudyRun:
    """The run in a directory.

    Raises:
        InputError: none is there.
    """
    return StudyRun(studies.existing_run(path).path)
