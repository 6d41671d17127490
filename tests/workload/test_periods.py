"""The time after which a workload repeats, and what is told of runs that see a part of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hydra_dse.config import load_workload
from hydra_dse.workload import Arrivals, Diurnal, Mmpp, Piecewise, Renewal, Shift
from hydra_dse.workload.periods import part_of_period, period_s

PLAIN = load_workload("azure-conversation")


@pytest.mark.parametrize(
    ("arrivals", "period"),
    [
        (Renewal(2.0, 3.0), None),
        (Diurnal(2.0, 0.5, 600.0), 600.0),
        (Diurnal(2.0, 0.0, 600.0), None),
        (Piecewise((1.0, 4.0), (30.0, 10.0)), 40.0),
        (Piecewise((2.0, 2.0), (30.0, 10.0)), None),
        (Mmpp((1.0, 9.0), (20.0, 5.0)), 25.0),
    ],
)
def test_a_rate_that_changes_has_a_period_and_one_that_stays_has_none(arrivals: Arrivals, period: float | None) -> None:
    assert period_s(replace(PLAIN, arrivals=arrivals)) == period


def test_shifts_repeat_after_their_cycle_and_the_longest_period_counts() -> None:
    shifted = replace(PLAIN, shifts=(Shift(50.0, None, 2.0),), cycle_s=100.0)
    assert period_s(shifted) == 100.0
    assert period_s(replace(shifted, arrivals=Diurnal(2.0, 0.5, 600.0))) == 600.0
    assert period_s(replace(shifted, cycle_s=None)) is None


def test_only_a_run_shorter_than_a_period_is_told_of() -> None:
    daily = replace(PLAIN, arrivals=Diurnal(2.0))
    told = part_of_period(daily, 864.0)
    assert told is not None and "see 1 % of the 8.64e+04 s" in told
    assert part_of_period(daily, 86_400.0) is None
    assert part_of_period(PLAIN, 1.0) is None
