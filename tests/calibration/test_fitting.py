"""The fit recovers what made the rows, says what they cannot tell, and leaves out what it says it leaves out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hydra_dse.calibration.fitting import fit, fitted_values, leave_out
from hydra_dse.calibration.kernel_forms import STATE_UPDATE
from hydra_dse.calibration.nouns import ChipFigures, FloatArray, Observations
from hydra_dse.errors import InputError

CHIP = ChipFigures("made", 1e15, 1e12, 100.0)
TRUE = np.array([5e-6, 0.7])


def rows(noise: float = 0.0, heads: tuple[float, ...] = (16.0, 32.0, 64.0), batches: int = 9) -> Observations:
    batch = np.tile(2.0 ** np.arange(batches), len(heads))
    columns = {
        "batch": batch,
        "heads": np.repeat(np.array(heads), batches),
        "width": np.full(batch.shape, 128.0),
        "state": np.full(batch.shape, 128.0),
    }
    exact = STATE_UPDATE.predict(TRUE, columns, CHIP)
    rng = np.random.default_rng(5)
    return Observations(
        STATE_UPDATE, CHIP, "", columns, exact * np.exp(noise * rng.standard_normal(batch.shape)), "made"
    )


def test_parameters_that_made_exact_rows_are_found() -> None:
    assert fitted_values(rows()) == pytest.approx(TRUE, rel=1e-4)


def test_one_wild_row_in_27_moves_a_parameter_by_less_than_its_share_in_a_mean() -> None:
    table = rows(noise=0.02)
    wild = table.response.copy()
    wild[13] *= 10.0
    moved = fitted_values(replace(table, response=wild)) / fitted_values(table) - 1.0
    # A mean of 27 logs would move by log(10)/27, 8.5 %.
    assert np.abs(moved).max() < 0.04


@pytest.mark.slow
def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    covered = 0
    for seed in range(20):
        table = rows()
        rng = np.random.default_rng(seed)
        noisy = table.response * np.exp(0.1 * rng.standard_normal(len(table)))
        found = fit(replace(table, response=noisy), draws=60, seed=seed)
        covered += int(found.low[1] <= TRUE[1] <= found.high[1])
    # 18 of 20 expected of a 90 % interval; fewer than 13 has a chance below one in a thousand.
    assert covered >= 13


def test_a_parameter_without_effect_is_reported() -> None:
    table = rows(noise=0.05, batches=4)
    noise = table.response / rows(batches=4).response
    large = {**table.columns, "batch": table.columns["batch"] * 4096.0}
    found = fit(replace(table, columns=large, response=STATE_UPDATE.predict(TRUE, large, CHIP) * noise), draws=40)
    assert "floor" in found.undetermined
    assert "moved" not in found.undetermined


def test_as_many_rows_as_parameters_estimate_no_error() -> None:
    found = fit(rows(heads=(16.0, 32.0), batches=1), draws=5)
    assert set(found.undetermined) == {"floor", "moved"}
    assert found.held_out is None


def test_a_configuration_is_predicted_without_its_rows() -> None:
    table = rows()
    spoiled = table.response.copy()
    last = table.columns["heads"] == 64.0
    spoiled[last] *= 3.0
    held = leave_out(replace(table, response=spoiled))
    assert held is not None
    # Fitted on the other two, which are exact, the spoiled configuration is off by its own factor.
    assert held.relative[last] == pytest.approx(-2.0 / 3.0, abs=1e-3)


def test_left_out_rows_do_not_return_through_the_start_of_the_fit() -> None:
    one_width = rows(heads=(16.0, 32.0), batches=1)
    columns: dict[str, FloatArray] = {**one_width.columns}
    assert leave_out(replace(one_width, columns=columns)) is None


def test_too_few_rows_are_refused_with_both_numbers() -> None:
    with pytest.raises(InputError, match="1 rows for 2 parameters"):
        fit(rows(heads=(16.0,), batches=1))


def test_a_fit_is_the_same_every_time() -> None:
    first, second = fit(rows(noise=0.1), draws=20, seed=3), fit(rows(noise=0.1), draws=20, seed=3)
    assert first.values.tobytes() == second.values.tobytes()
    assert first.low.tobytes() == second.low.tobytes()
