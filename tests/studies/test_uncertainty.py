"""What is not known of a metric, by cause: surrogate, calibration, simulation."""

from __future__ import annotations

import csv
import math

import pytest

from hydra_dse.config import load_experiment
from hydra_dse.studies import sweep
from hydra_dse.studies.uncertainty import COLUMNS, INTERVALS, uncertainties
from hydra_dse.studies.validation import validate
from hydra_dse.studies.validation_table import ValidationRow

OVERRIDES = ["space=small-9", "search.trials=32", "rate=1 req/s"]
SATURATION = "saturation_tokens_per_s"


def points_of(experiment, count):
    points = experiment.space.points()
    return [(f"design {number}", next(points)) for number in range(count)]


@pytest.mark.slow
def test_intervals_of_parameters_are_narrower_than_one_error_for_everything_and_apart_from_the_surrogate():
    assumed = load_experiment("quickstart", [*OVERRIDES, "calibration=default"])
    measured = load_experiment("quickstart", [*OVERRIDES, "calibration=measured"])
    [assumed_row] = [row for row in uncertainties(assumed, points_of(assumed, 1)) if row.metric == SATURATION]
    simulated = ValidationRow("design 0", 1, 0.5, SATURATION, 1.0, 900.0, 880.0, 920.0, 0.0, 10, 1, 0)
    rows = uncertainties(measured, points_of(measured, 1), [simulated], draws=8)
    [row] = [row for row in rows if row.metric == SATURATION]
    assert (assumed_row.calibration, row.calibration) == ("relative error", "draws")
    for each in (assumed_row, row):
        assert each.surrogate_low <= each.estimate <= each.surrogate_high
        assert each.calibration_low < each.calibration_high
    # One relative error of 0.2 is ± 1.645 · 0.2 in the log; launches and host time do not carry it.
    width = math.log(assumed_row.calibration_high / assumed_row.calibration_low)
    assert width == pytest.approx(2 * 1.645 * 0.2, rel=0.25)
    assert math.log(row.calibration_high / row.calibration_low) < width
    assert (row.simulated, row.simulation_low, row.simulation_high) == (900.0, 880.0, 920.0)
    assert math.isnan(assumed_row.simulated)


@pytest.mark.slow
def test_a_sweep_under_measured_parameters_writes_the_intervals_of_its_front_and_validate_adds_the_simulation(tmp_path):
    experiment = load_experiment("quickstart", [*OVERRIDES, "calibration=measured"])
    result = sweep(experiment, tmp_path / "run")
    with (tmp_path / "run" / INTERVALS).open() as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert {row["design"] for row in rows} == {design.identity for design in result.front}
    assert {row["calibration"] for row in rows} == {"draws"}
    assert all(row["simulated"] in ("", "nan") for row in rows)
    validate(tmp_path / "run", top=1, outside=0, requests=100, replications=2, max_replications=2)
    with (tmp_path / "run" / INTERVALS).open() as stream:
        [checked] = [row for row in csv.DictReader(stream) if row["metric"] == SATURATION]
    assert float(checked["simulation_low"]) <= float(checked["simulated"]) <= float(checked["simulation_high"])
    assert float(checked["calibration_low"]) < float(checked["estimate"]) < float(checked["calibration_high"])


@pytest.mark.slow
def test_a_sweep_under_assumed_parameters_writes_no_such_table(tmp_path):
    sweep(load_experiment("quickstart", [*OVERRIDES, "calibration=default"]), tmp_path / "run")
    assert not (tmp_path / "run" / INTERVALS).exists()
