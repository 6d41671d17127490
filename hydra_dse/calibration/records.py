"""A calibration file: fitted parameters with intervals and errors, versioned, with the digests of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hydra_dse.calibration.nouns import Errors, Fit
from hydra_dse.config.dump import to_yaml
from hydra_dse.config.fields import Section
from hydra_dse.config.library import LIBRARY
from hydra_dse.config.loader import load_yaml, validate
from hydra_dse.errors import InputError

VERSION = 1
DIGITS = 5
SHIPPED_FITS = LIBRARY / "fits.yaml"


class ParameterSection(Section):
    """A fitted parameter; `undetermined` says why the rows do not fix it."""

    value: float
    low: float
    high: float
    unit: str
    undetermined: str | None = None


class ErrorSection(Section):
    """Relative errors over rows: absolute median, mean, 90th percentile, worst, and the signed median."""

    median: float
    mean: float
    p90: float
    worst: float
    bias: float


class FitSection(Section):
    """One fitted form."""

    form: str
    operator_class: str
    source: str
    rows: int
    configurations: int
    parameters: dict[str, ParameterSection]
    ranges: dict[str, tuple[float, float]]
    errors: ErrorSection
    held_out: ErrorSection | None = None
    relative_error: float


class FileDigest(Section):
    """An input and the SHA-256 of its bytes."""

    file: str
    sha256: str


class FitsSection(Section):
    """A calibration file."""

    version: int
    bootstrap_draws: int
    inputs: list[FileDigest]
    chips: dict[str, dict[str, FitSection]]


@dataclass(frozen=True)
class FittedChips:
    """Fitted forms by chip and key."""

    chips: dict[str, dict[str, FitSection]]

    def value(self, chip: str, key: str, parameter: str) -> float:
        """A fitted value.

        Raises:
            KeyError: not fitted.
        """
        return self.chips[chip][key].parameters[parameter].value


def fits_yaml(fits: Sequence[Fit], inputs: Iterable[Path], draws: int) -> str:
    """The text of a calibration file; the same inputs give the same bytes."""
    chips: dict[str, dict[str, object]] = {}
    for fit in fits:
        chips.setdefault(fit.observations.chip.name, {})[fit.observations.key] = _fit_data(fit)
    digests = [{"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()} for path in inputs]
    data: dict[str, object] = {"version": VERSION, "bootstrap_draws": draws, "inputs": digests, "chips": chips}
    return "# Written by hydra-dse calibrate; do not edit.\n" + to_yaml(data)


def read_fits(path: Path = SHIPPED_FITS) -> FittedChips:
    """Read a calibration file.

    Raises:
        InputError: every fault of the file, or a version that this release does not read.
    """
    document = load_yaml(path)
    section = validate(document, FitsSection)
    if section.version != VERSION:
        message = f"version {section.version} is not read here (reads {VERSION}): run `hydra-dse calibrate` again"
        raise InputError(document.fault(("version",), message))
    return FittedChips(section.chips)


def _fit_data(fit: Fit) -> dict[str, object]:
    rows = fit.observations
    parameters: dict[str, object] = {}
    for number, parameter in enumerate(rows.form.parameters):
        entry: dict[str, object] = {
            "value": _rounded(fit.values[number]),
            "low": _rounded(fit.low[number]),
            "high": _rounded(fit.high[number]),
            "unit": parameter.unit,
        }
        if parameter.name in fit.undetermined:
            entry["undetermined"] = fit.undetermined[parameter.name]
        parameters[parameter.name] = entry
    data: dict[str, object] = {
        "form": rows.form.name,
        "operator_class": rows.form.operator_class,
        "source": rows.source,
        "rows": len(rows),
        "configurations": int(rows.configurations().max()) + 1,
        "parameters": parameters,
        "ranges": {name: [float(values.min()), float(values.max())] for name, values in rows.columns.items()},
        "errors": _errors(fit.errors),
    }
    if fit.held_out is not None:
        data["held_out"] = _errors(fit.held_out)
    data["relative_error"] = round((fit.held_out or fit.errors).spread, 4)
    return data


def _errors(errors: Errors) -> dict[str, float]:
    names = ("median", "mean", "p90", "worst", "bias")
    return {name: round(float(getattr(errors, name)), 4) for name in names}


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
