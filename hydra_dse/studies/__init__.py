"""The jobs: sweep, validate, exhaustive; run directories, executors, simulator lookup."""

from __future__ import annotations

from hydra_dse.errors import Interrupted
from hydra_dse.studies.chosen import Chosen
from hydra_dse.studies.exhaustive import ExhaustiveResult, exhaustive
from hydra_dse.studies.front_check import FrontCheck, OrderCheck
from hydra_dse.studies.progress import SweepProgress, SweepState, ValidationProgress, ValidationState
from hydra_dse.studies.run_directory import RunDirectory, existing_run
from hydra_dse.studies.runs import design_of_run, designs_of, experiment_of
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.studies.sweep import FrontDesign, SweepResult, sweep
from hydra_dse.studies.validation import validate
from hydra_dse.studies.validation_loop import ValidationResult
from hydra_dse.studies.validation_table import MetricError, ValidationRow

__all__ = [
    "Chosen",
    "ExhaustiveResult",
    "FrontCheck",
    "FrontDesign",
    "Interrupted",
    "MetricError",
    "OrderCheck",
    "RunDirectory",
    "SweepProgress",
    "SweepResult",
    "SweepState",
    "ValidationProgress",
    "ValidationResult",
    "ValidationRow",
    "ValidationState",
    "design_of_run",
    "designs_of",
    "exhaustive",
    "existing_run",
    "experiment_of",
    "find_simulator",
    "sweep",
    "validate",
]
