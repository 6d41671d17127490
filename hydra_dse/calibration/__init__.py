"""Few physical parameters of chips, fitted to measured tables, with intervals and cross-validated errors."""

from __future__ import annotations

from hydra_dse.calibration.fitting import fit, leave_out
from hydra_dse.calibration.nouns import ChipFigures, Errors, Fit, Form, Observations, Parameter
from hydra_dse.calibration.readers import read_profile
from hydra_dse.calibration.records import FittedChips, fits_yaml, read_fits

__all__ = [
    "ChipFigures",
    "Errors",
    "Fit",
    "FittedChips",
    "Form",
    "Observations",
    "Parameter",
    "fit",
    "fits_yaml",
    "leave_out",
    "read_fits",
    "read_profile",
]
