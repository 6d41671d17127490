"""Packages slowed to their limits of temperature and power.

Temperature follows the mean power: packages take seconds to warm up, iterations milliseconds.  A package that would
exceed a limit slows down as a whole: iterations take `stretch` times as long for the same energy, so that at
saturation, where it always works, its dynamic power falls to `1/stretch`.  Hence

- its saturation is the share of the rate at full speed whose dynamic power the limits sustain (`HeatModel.sustained`);
- at a rate that it sustains it is slowed no further than its mean power asks: not at all where that is within limits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.heat import HeatModel, spent_w
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.solution import Intake, Solution
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.profile.slowed import slowed

if TYPE_CHECKING:
    from hydra_dse.estimator.solvers import Solver

FloatArray = NDArray[np.float64]

NEAR_SATURATION = 0.98
"""Share of the saturation rate at which the power of a saturated design is taken."""
BISECTIONS = 8
"""Of the rate at which a limit is met: to 1/256 of the way."""
SLOWEST = 1e-3
"""Least share of full speed."""


@dataclass(frozen=True)
class Throttled:
    """A solver of slowed designs whose saturation is what their limits sustain, slowed further as that needs.

    Attributes:
        solver: of the designs at the speed of the offered rate.
        highest_per_s: rate that the limits sustain; infinite where saturation comes first, shape (n,).
        full_per_s: saturation at full speed, shape (n,).
    """

    solver: Solver
    highest_per_s: FloatArray
    full_per_s: FloatArray

    @property
    def saturation_per_s(self) -> FloatArray:
        """The lower of both, shape (n,)."""
        return np.asarray(np.fmin(self.full_per_s, self.highest_per_s))

    @property
    def intake(self) -> Intake:
        """As of the solver."""
        return self.solver.intake

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """As of the solver, with the saturation that the limits leave."""
        found = self.solver.at(rate, arrival_scv, percentiles, transient, phases)
        return replace(found, saturation_per_s=self.saturation_per_s)


@dataclass(frozen=True)
class Limits:
    """Slows designs to the limits of their packages.

    Attributes:
        heat: of the designs.
        profile: of the designs at full speed.
        solver: of that profile.
        make: a solver of any profile.
        scv, phases: of the arrivals.
    """

    heat: HeatModel
    profile: ServiceProfile
    solver: Solver
    make: Callable[[ServiceProfile], Solver]
    scv: float
    phases: Phases | None

    def throttled(self, rate: FloatArray) -> Throttled:
        """Return the solver of the designs as fast as their limits let them run at the offered rate."""
        full = self.solver.saturation_per_s
        near = np.where(np.isfinite(full), full, 1.0) * NEAR_SATURATION
        share = self.heat.sustained(self.profile, full, self._at(self.solver, near))
        limited = share < 1.0
        highest = np.where(limited, share * near, np.inf)
        most = np.where(limited, 1.0 / np.maximum(share, SLOWEST), 1.0)
        stretch = np.where(rate >= highest, most, 1.0)
        left = limited & (rate < highest)
        if left.any():
            left &= ~self._hold(self.solver, rate)
            stretch = np.where(left, self._least(rate, np.where(left, most, 1.0)), stretch)
        return Throttled(self._slowed(stretch), highest, full)

    def highest(self, throttled: Throttled, find: Callable[[Solver], FloatArray]) -> FloatArray:
        """Return the highest rate that keeps the SLOs.

        At full speed where that rate is within limits, else as slow as at saturation, which is never too fast.
        """
        found = find(self.solver)
        limited = np.isfinite(throttled.highest_per_s) & np.isfinite(found)
        if not limited.any():
            return found
        beyond = limited & ~self._hold(self.solver, found)
        if not beyond.any():
            return found
        share = throttled.highest_per_s / (throttled.full_per_s * NEAR_SATURATION)
        slow = self._slowed(np.where(beyond, 1.0 / np.maximum(share, SLOWEST), 1.0))
        return np.where(beyond, np.minimum(find(slow), throttled.highest_per_s), found)

    def _slowed(self, stretch: FloatArray) -> Solver:
        return self.make(slowed(self.profile, stretch)) if (stretch > 1.0).any() else self.solver

    def _least(self, rate: FloatArray, most: FloatArray) -> FloatArray:
        """The least stretch, up to `most`, at which limits hold at the offered rate."""
        low, high = np.ones_like(most), most.copy()
        for _ in range(BISECTIONS):
            middle = (low + high) / 2.0
            holds = self._hold(self._slowed(middle), rate)
            low, high = np.where(holds, low, middle), np.where(holds, middle, high)
        return high

    def _hold(self, solver: Solver, rate: FloatArray) -> NDArray[np.bool_]:
        return self.heat.state(spent_w(self.profile, self._at(solver, rate)))[1]

    def _at(self, solver: Solver, rate: FloatArray) -> Solution:
        return solver.at(rate, self.scv, False, phases=self.phases)
