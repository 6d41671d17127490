"""The Python interface: what the command line does, as functions, with results as tables and figures.

`sweep` and `validate` work on run directories and return a `StudyRun` and a `Validation`; `estimate` and `simulate`
take designs and return `Evaluations`.  All names are also those of `hydra_dse` itself.
"""

from __future__ import annotations

from hydra_dse.api.evaluations import Evaluations
from hydra_dse.api.jobs import open_run, sweep, validate
from hydra_dse.api.runs import StudyRun, Validation
from hydra_dse.api.single import estimate, simulate
from hydra_dse.config import load_calibration, load_design, load_experiment, load_workload

__all__ = [
    "Evaluations",
    "StudyRun",
    "Validation",
    "estimate",
    "load_calibration",
    "load_design",
    "load_experiment",
    "load_workload",
    "open_run",
    "simulate",
    "sweep",
    "validate",
]
