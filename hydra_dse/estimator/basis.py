"""What the times of a design's operators rest on, and where a load leaves the calibrated range."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.design.nouns import Design
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.model.blocks import Model
from hydra_dse.model.lowering import operators_of
from hydra_dse.model.operators import OperatorClass
from hydra_dse.workload import served
from hydra_dse.workload.nouns import Workload

SSM = (OperatorClass.SSM_SCAN, OperatorClass.SSM_CONV, OperatorClass.SSM_PROJECTION)


@dataclass(frozen=True)
class OperatorBasis:
    """What one operator class rests on, on dies of one style.

    Attributes:
        kind: operator class.
        style: of the dies.
        basis: `"measured"`, `"fitted"`, `"transferred"` or `"roofline"` (an assumed share of the peak).
        share: of the peak.
        low, high: 90 % interval of the share, None where there is none.
    """

    kind: OperatorClass
    style: str
    basis: str
    share: float
    low: float | None
    high: float | None


def operator_bases(design: Design, model: Model, calibrations: CalibrationSet) -> tuple[OperatorBasis, ...]:
    """The classes of a model's operators, by the styles of a design's dies."""
    used = {operator.kind for operator in operators_of(model)}
    styles = list(dict.fromkeys(group.chiplet.style for group in design.package.dies if group.count > 0))
    return tuple(_basis(kind, style, calibrations) for style in styles for kind in OperatorClass if kind in used)


def _basis(kind: OperatorClass, style: str, calibrations: CalibrationSet) -> OperatorBasis:
    part, name = calibrations.of(style), f"compute.{kind.value}"
    stated = part.basis.get(name, "assumption")
    low, high = part.intervals.get(name, (None, None))
    return OperatorBasis(kind, style, "roofline" if stated == "assumption" else stated, part.compute[kind], low, high)


def calibration_notes(design: Design, workload: Workload, calibrations: CalibrationSet) -> tuple[str, ...]:
    """Sentences on SSM operators without a measurement, and on loads beyond what was measured."""
    notes = []
    for kind in served(workload):
        notes += [
            f"{found.kind.value} on {found.style} dies has no measurement: {found.share:g} of the peak is assumed"
            for found in operator_bases(design, kind.model, calibrations)
            if found.kind in SSM and found.basis == "roofline"
        ]
    styles = dict.fromkeys(group.chiplet.style for group in design.package.dies if group.count > 0)
    parts = {style: calibrations.of(style) for style in styles}
    longest = {"prompt": 0.0, "context": 0.0}
    for each in workload.classes:
        points = each.lengths.points()
        longest["prompt"] = max(longest["prompt"], float(np.max(points.prompt_tokens)))
        longest["context"] = max(longest["context"], float(np.max(points.prompt_tokens + points.output_tokens)))
    for name, tokens in longest.items():
        limits = [part.ranges[name][1] for part in parts.values() if name in part.ranges]
        if limits and tokens > min(limits):
            notes.append(f"{name}s of up to {tokens:.0f} tokens lie beyond the {min(limits):.0f} that were measured")
    rows = [part.ranges["rows"][1] for part in parts.values() if "rows" in part.ranges]
    if rows and design.policy.token_budget > min(rows):
        notes.append(f"iterations of up to {design.policy.token_budget} rows lie beyond the {min(rows):.0f} measured")
    return tuple(dict.fromkeys(notes))
