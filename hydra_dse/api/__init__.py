"""The Python interface: what the command line does, as functions, with results as tables and figures.

`sweep` and `validate` work on run directories and return a `StudyRun` and a `Validation`; `estimate` and `simulate`
take designs and return `Evaluations`; `compare` and `robustness` return `Contenders` and `Robustness`, `variance`,
`dynamic` and `uncertainty` `Effects`, `TaskMaps` and a `FrontUncertainty`, `explain` and `whatif` a `Waterfall` and
`Sensitivities`.  All functions are also names of `hydra_dse` itself.
"""

from __future__ import annotations

from hydra_dse.api.comparing import Contenders, Robustness, compare, robustness
from hydra_dse.api.deciding import Effects, FrontUncertainty, TaskMaps, dynamic, uncertainty, variance
from hydra_dse.api.evaluations import Evaluations
from hydra_dse.api.jobs import open_run, sweep, validate
from hydra_dse.api.reasons import Sensitivities, Waterfall, explain, whatif
from hydra_dse.api.runs import StudyRun, Validation
from hydra_dse.api.single import estimate, simulate
from hydra_dse.config import load_calibration, load_design, load_experiment, load_workload

__all__ = [
    "Contenders",
    "Effects",
    "Evaluations",
    "FrontUncertainty",
    "Robustness",
    "Sensitivities",
    "StudyRun",
    "TaskMaps",
    "Validation",
    "Waterfall",
    "compare",
    "dynamic",
    "estimate",
    "explain",
    "load_calibration",
    "load_design",
    "load_experiment",
    "load_workload",
    "open_run",
    "robustness",
    "simulate",
    "sweep",
    "uncertainty",
    "validate",
    "variance",
    "whatif",
]
