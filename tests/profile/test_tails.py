from __future__ import annotations

import numpy as np
import pytest

from hydra_dse.profile.tails import tails_of
from hydra_dse.rng import derive


@pytest.mark.parametrize("rows", [slice(1, 5), np.array([4, 0, 0, 3])])
def test_times_rise_to_the_largest_of_the_bounds_of_each_design(rows: slice | np.ndarray) -> None:
    rng = derive(3, "tails")
    size, operators, features, columns = 6, 3, 4, 5
    # Row, operator: one bound, two bounds of the same operator, none.
    found = [(place, np.flatnonzero(rng.integers(0, 2, size)), None) for place in (2, 0, 0, 1)]
    found = [(place, mine, rng.uniform(0, 1, (len(mine), features))) for place, mine, _ in found]
    index = np.arange(size)[rows]
    times, values = (
        rng.uniform(0, 1, (len(index), operators, columns)),
        rng.uniform(0, 1, (len(index), features, columns)),
    )
    wanted = times.copy()
    for place, mine, forms in found:
        for row, form in zip(mine, forms, strict=True):
            for design in np.flatnonzero(index == row):
                wanted[design, place] = np.maximum(wanted[design, place], form @ values[design])
    tails_of(size, features, found).raise_to(times, values, rows)
    assert times == pytest.approx(wanted, rel=1e-12)


def test_no_bounds_leave_times_as_they_are() -> None:
    times = np.ones((2, 3, 4))
    tails_of(2, 5, []).raise_to(times, np.ones((2, 5, 4)), slice(0, 2))
    assert (times == 1.0).all()
