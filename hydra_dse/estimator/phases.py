"""Arrivals in two phases (MMPP) as a queue sees them: as variable as the phases that last as long as it remembers.

The limit of the index of dispersion, `I = 1 + 2·π₁π₂(λ₁ − λ₂)²/(λ̄·r)` with `r` the sum of the phase rates, is seen by
a queue that remembers many phases.  Rates of phases correlate over `1/r`:
- the number in service of life `T` has the peakedness of `1 + (I − 1)·rT/(1 + rT)` (exponential lives: exact);
- a queue of one server is solved in both phases (`two_phases`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrivals import effective_scv
from hydra_dse.estimator.two_phases import flows_of, waiting
from hydra_dse.workload.nouns import ArrivalStatistics

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Phases:
    """Phases free of a time scale: the same process at any mean rate.

    Attributes:
        relative: rate of each phase over the mean rate, shape (2,), or (n, 2) by design.
        share: of time in each phase, shape (2,).
        changes: phase rate `r` per arrival.
        dispersion: limit of the index of dispersion for counts.
    """

    relative: FloatArray
    share: FloatArray
    changes: float
    dispersion: float

    def scv_in(self, rate: FloatArray, life_s: FloatArray) -> FloatArray:
        """Squared coefficient of variation that counts within a life show."""
        phases = rate * self.changes * life_s
        return np.asarray(1.0 + (self.dispersion - 1.0) * phases / (1.0 + phases))

    def loads(self, rate: FloatArray, load: FloatArray, diffusion: FloatArray) -> FloatArray:
        """Load of the M/G/1 queue that is as long as the queue of each phase, shape (…, 2).

        Args:
            rate: arrivals per second.
            load: of the server.
            diffusion: `λE[S²]`, all of one shape.
        """
        shape = load.shape
        rate, load, diffusion = (np.broadcast_to(x, shape).ravel() for x in (rate, load, diffusion))
        # Service that varies by c² is exponential service of customers (1 + c²)/2 times as large.
        larger = np.maximum(diffusion * rate / (2.0 * load**2), 1e-9)
        relative = np.broadcast_to(self.relative, (len(rate), 2))
        flows = flows_of(rate / larger, np.clip(load, 1e-9, 1.0 - 1e-6), relative, self.share, self.changes * larger)
        ahead = waiting(flows)
        return np.asarray((ahead / (1.0 + ahead)).reshape(*shape, 2))

    def bounded(self, most: FloatArray, longer: float) -> Phases:
        """Phases behind a server: of at most so many times the mean rate, shape (n,), the mean kept.

        Args:
            most: bound of the rate of a phase over the mean rate, at least 1.
            longer: phases per arrival grow by this factor.
        """
        cut = np.minimum(self.relative, most[:, None])
        left = np.maximum(1.0 - (cut * self.share).sum(axis=1, keepdims=True), 0.0)
        room = np.where(cut < self.relative, 0.0, self.share)
        cut = cut + np.where(room > 0.0, left / np.maximum(room.sum(axis=1, keepdims=True), 1e-12), 0.0)
        return replace(self, relative=cut, changes=self.changes * longer)

    @property
    def met(self) -> FloatArray:
        """Share of arrivals in each phase."""
        return self.share * self.relative

    def scv_before(self, rate: FloatArray, load: FloatArray, service_s: FloatArray, scv: FloatArray) -> FloatArray:
        """Squared coefficient of variation of renewal arrivals with the same mean queue, shape (n,)."""
        below = np.clip(load, 1e-9, 1.0 - 1e-6)
        loads = self.loads(rate, below, rate * service_s**2 * (1.0 + scv))
        queue = (loads / np.maximum(1.0 - loads, 1e-12)) @ self.met
        found = (1.0 - below) / below * (1.0 + scv) * queue - scv
        return np.asarray(np.clip(found, 1.0, max(self.dispersion, 1.0)))


def phases_of(arrivals: ArrivalStatistics) -> Phases | None:
    """The phases of an MMPP; None for renewal arrivals."""
    if len(arrivals.phases) != 2:
        return None
    (rate1, stay1), (rate2, stay2) = arrivals.phases
    share = np.array([stay1, stay2]) / (stay1 + stay2)
    rates = np.array([rate1, rate2])
    mean, leaving = float(rates @ share), 1.0 / stay1 + 1.0 / stay2
    dispersion = 1.0 + 2.0 * share[0] * share[1] * (rate1 - rate2) ** 2 / (mean * leaving)
    return Phases(rates / mean, share, leaving / mean, float(dispersion))


def scv_beside(phases: Phases | None, arrivals: ArrivalStatistics) -> float:
    """Squared coefficient of variation of the gaps beside phases: arrivals of a phase are Poisson."""
    return effective_scv(arrivals) if phases is None else 1.0
