"""Drawn calibrations: their spread is that of the intervals, and it reaches the estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.estimator import estimate_designs
from hydra_dse.estimator.basis import calibration_notes, operator_bases
from hydra_dse.estimator.calibration_draws import drawn, posterior
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.model.operators import OperatorClass
from hydra_dse.rng import derive

MEASURED = load_calibration("measured")


def draws_of(count: int) -> list[CalibrationSet]:
    return [drawn(MEASURED, derive(1, number)) for number in range(count)]


def test_nine_of_ten_draws_of_a_parameter_lie_in_its_interval() -> None:
    values = np.array([one.default.memory["kv"] for one in draws_of(400)])
    low, high = MEASURED.default.intervals["memory.kv"]
    inside = np.mean((values >= low) & (values <= high))
    assert 0.85 < inside < 0.95


def test_an_interval_from_zero_is_drawn_evenly() -> None:
    values = np.array([one.default.operator_overhead_s for one in draws_of(400)])
    high = MEASURED.default.intervals["operator_overhead"][1]
    assert values.min() >= 0.0
    assert values.max() <= high
    assert np.mean(values) == pytest.approx(high / 2.0, rel=0.1)


def test_styles_share_the_draw_of_what_they_share() -> None:
    for one in draws_of(5):
        assert one.default.memory["weights"] == one.by_style["vector"].memory["weights"]


def test_shares_stay_below_one_and_imbalance_above() -> None:
    for one in draws_of(200):
        assert max(one.default.compute.values()) <= 1.0
        assert one.default.stage_imbalance >= 1.0


@pytest.mark.slow
def test_the_estimate_widens_by_what_is_uncertain_and_a_design_is_decided_against_itself_by_nobody() -> None:
    designs, workload = [load_design("hydra-24-nemotron-chat")] * 2, load_workload("azure-conversation")
    found = posterior(designs, workload, MEASURED, 8)
    exact = CalibrationSet(replace(MEASURED.default, relative_error=0.0), dict(MEASURED.by_style))
    alone = estimate_designs(designs, workload, exact)
    name = "saturation_tokens_per_s"
    assert found.table.high[name][0] > alone.high[name][0]
    assert found.table.low[name][0] < alone.low[name][0]
    assert not found.decided(name, 0, 1)


def test_an_assumed_scan_is_a_roofline_and_is_named() -> None:
    design, workload = load_design("hydra-24-nemotron-chat"), load_workload("azure-conversation")
    model = workload.models[0]
    bases = {(each.kind, each.style): each.basis for each in operator_bases(design, model, MEASURED)}
    assert {basis for (kind, _), basis in bases.items() if kind is OperatorClass.MLP} == {"transferred"}
    assert {basis for (kind, _), basis in bases.items() if kind is OperatorClass.SSM_SCAN} <= {"roofline"}
    default = load_calibration("default")
    assert all(each.basis == "roofline" for each in operator_bases(design, model, default))
    has_scan = any(kind is OperatorClass.SSM_SCAN for kind, _ in bases)
    named = any("ssm_scan" in note for note in calibration_notes(design, workload, MEASURED))
    assert named == has_scan


def test_a_context_beyond_the_measured_one_is_said() -> None:
    design, workload = load_design("hydra-24-nemotron-chat"), load_workload("azure-conversation")
    short = replace(MEASURED.default, ranges={"context": (1.0, 100.0)})
    notes = calibration_notes(design, workload, CalibrationSet(short, {}))
    assert any("beyond the 100" in note for note in notes)
