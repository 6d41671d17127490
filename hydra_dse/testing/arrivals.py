"""Contract of arrival processes: what the estimator is told is what simulations get."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.rng import derive
from hydra_dse.workload.nouns import Arrivals

RUNS, GAPS = 24, 4000
STANDARD_ERRORS = 5.0
"""A true process fails a test of a mean with a probability below 1e-5 (t distribution, 23 degrees of freedom)."""
BIAS = 0.03
"""A finite run shows too low a CV of its gaps."""


class ArrivalContract:
    """Tests of an `Arrivals`; override `process`."""

    def process(self) -> Arrivals:
        """A process of this kind, new for every test."""
        raise NotImplementedError

    def _gaps(self) -> NDArray[np.float64]:
        """Gaps of independent runs, shape (`RUNS`, `GAPS`)."""
        process = self.process()
        return np.array([np.diff(process.sample(GAPS + 1, derive(run, "contract"))) for run in range(RUNS)])

    def test_times_are_as_many_as_asked_and_ascend_from_zero(self) -> None:
        times = self.process().sample(500, derive(0, "contract"))
        assert times.shape == (500,)
        assert times[0] >= 0
        assert (np.diff(times) >= 0).all()

    def test_the_same_stream_gives_the_same_times(self) -> None:
        first, second = (self.process().sample(200, derive(3, "contract")) for _ in range(2))
        assert np.array_equal(first, second)

    def test_the_mean_gap_is_that_of_the_stated_rate(self) -> None:
        means = self._gaps().mean(axis=1)
        error = means.std(ddof=1) / np.sqrt(RUNS)
        stated = 1.0 / self.process().statistics().rate_per_s
        assert abs(means.mean() - stated) <= STANDARD_ERRORS * error + 1e-9 * stated

    def test_the_variation_of_the_gaps_is_the_stated_one(self) -> None:
        gaps = self._gaps()
        each = gaps.std(axis=1) / gaps.mean(axis=1)
        error = each.std(ddof=1) / np.sqrt(RUNS)
        stated = self.process().statistics().cv
        assert abs(each.mean() - stated) <= STANDARD_ERRORS * error + BIAS * stated + 1e-9

    def test_another_rate_keeps_the_variation(self) -> None:
        old = self.process().statistics()
        new = self.process().with_rate(2.5 * old.rate_per_s).statistics()
        assert np.isclose(new.rate_per_s, 2.5 * old.rate_per_s, rtol=1e-9)
        assert np.isclose(new.cv, old.cv, rtol=1e-9)
