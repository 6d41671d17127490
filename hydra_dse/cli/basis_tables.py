"""What the operators of an estimate rest on: measured, fitted, transferred or a bare roofline."""

from __future__ import annotations

import click

from hydra_dse.design.nouns import Design
from hydra_dse.estimator.basis import OperatorBasis, calibration_notes, operator_bases
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.workload import served
from hydra_dse.workload.nouns import Workload


def _bases(design: Design, workload: Workload, calibration: CalibrationSet) -> list[OperatorBasis]:
    found = [each for kind in served(workload) for each in operator_bases(design, kind.model, calibration)]
    return list(dict.fromkeys(found))


def basis_json(design: Design, workload: Workload, calibration: CalibrationSet) -> dict[str, object]:
    """By die style and operator class: basis, share of the peak and its interval; and the warnings."""
    styles: dict[str, dict[str, object]] = {}
    for each in _bases(design, workload, calibration):
        interval = None if each.low is None else [each.low, each.high]
        entry = {"basis": each.basis, "share": each.share, "interval": interval}
        styles.setdefault(each.style, {})[each.kind.value] = entry
    return {"styles": styles, "warnings": list(calibration_notes(design, workload, calibration))}


def print_basis(design: Design, workload: Workload, calibration: CalibrationSet) -> None:
    """One line by die style and basis, then the warnings."""
    lines: dict[tuple[str, str], list[str]] = {}
    for each in _bases(design, workload, calibration):
        lines.setdefault((each.style, each.basis), []).append(each.kind.value)
    for (style, basis), kinds in lines.items():
        click.echo(f"operators on {style} dies, {basis}: {', '.join(kinds)}")
    for note in calibration_notes(design, workload, calibration):
        click.echo(f"calibration: {note}")
