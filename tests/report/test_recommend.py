"""Which design a report recommends."""

from __future__ import annotations

import numpy as np

from hydra_dse.report.run import recommend
from hydra_dse.studies import ValidationRow

LOSSES = np.array([[0.0, 10.0], [2.0, 2.0], [10.0, 0.0], [4.0, 1.9], [99.0, 99.0]])
NAMES = ("a", "b", "c", "d", "e")


def checked(*designs: str) -> dict[tuple[str, str], ValidationRow]:
    row = ValidationRow("", 1, 0.5, "load", 1.0, 1.0, 1.0, 1.0, 0.0, 10, 2, 0)
    return {(design, "load"): row for design in designs}


def test_the_design_nearest_to_the_ideal_point_is_recommended():
    assert recommend(LOSSES, [0, 1, 2, 3], NAMES, {}) == 1


def test_once_designs_are_simulated_one_of_them_is_recommended():
    assert recommend(LOSSES, [0, 1, 2, 3], NAMES, checked("a", "d")) == 3


def test_simulated_designs_off_the_front_are_not_recommended():
    assert recommend(LOSSES, [0, 1, 2], NAMES, checked("e")) == 1


def test_the_scale_of_an_objective_does_not_matter():
    scaled = LOSSES * np.array([1e9, 1e-9])
    assert recommend(scaled, [0, 1, 2, 3], NAMES, {}) == recommend(LOSSES, [0, 1, 2, 3], NAMES, {})


def test_an_objective_that_all_share_does_not_divide_by_zero():
    assert recommend(np.array([[1.0, 5.0], [1.0, 4.0]]), [0, 1], ("a", "b"), {}) == 1


def test_without_a_front_nothing_is_recommended():
    assert recommend(LOSSES, [], NAMES, {}) == -1
