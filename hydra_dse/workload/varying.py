"""Arrival rates that change in time: steps, a daily wave, and the warp that shift events use.

A process of unit rate is run through the inverse of the cumulative intensity `Λ(t) = ∫λ(u)du`: with exponential
unit gaps the result is the inhomogeneous Poisson process of intensity λ; gamma gaps keep their burstiness locally.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.arrivals import Renewal, invert
from hydra_dse.workload.nouns import ArrivalStatistics, FloatArray

_DAY_POINTS = 1440


@dataclass(frozen=True)
class Piecewise:
    """Rates that hold for given times, one after the other and then from the start again.

    Attributes:
        rates_per_s: rate of each step; at least one is above 0.
        lengths_s: how long each step lasts.
        cv: burstiness of the unit process.
    """

    rates_per_s: tuple[float, ...]
    lengths_s: tuple[float, ...]
    cv: float = 1.0

    def __post_init__(self) -> None:
        if len(self.rates_per_s) != len(self.lengths_s) or not self.rates_per_s:
            raise InputError("a piecewise rate needs as many rates as lengths, at least one")
        if min(self.rates_per_s) < 0 or max(self.rates_per_s) <= 0 or min(self.lengths_s) <= 0:
            raise InputError("a piecewise rate needs lengths above 0, and rates of 0 or more with one above 0")

    @property
    def rate_per_s(self) -> float:
        """Mean rate over a cycle."""
        return float(np.dot(self.rates_per_s, self.lengths_s) / sum(self.lengths_s))

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s from the start of the first step."""
        target = np.cumsum(Renewal(1.0, self.cv).unit_gaps(count, rng))
        ends = np.concatenate([[0.0], np.cumsum(self.lengths_s)])
        mass = np.concatenate([[0.0], np.cumsum(np.multiply(self.rates_per_s, self.lengths_s))])
        cycles, rest = np.divmod(target, mass[-1])
        return np.asarray(cycles * ends[-1] + invert(rest, ends, mass))

    def statistics(self) -> ArrivalStatistics:
        """Mean rate, and the CV of the gaps where steps are long against gaps.

        A share `λᵢTᵢ/Σ` of gaps has mean `1/λᵢ` and second moment `(1 + cv²)/λᵢ²`.
        """
        rates, lengths = np.asarray(self.rates_per_s), np.asarray(self.lengths_s)
        active = rates > 0
        share = rates[active] * lengths[active] / np.dot(rates, lengths)
        mean = float(np.dot(share, 1 / rates[active]))
        second = float(np.dot(share, (1 + self.cv**2) / rates[active] ** 2))
        return ArrivalStatistics(self.rate_per_s, float(np.sqrt(max(second / mean**2 - 1, 0.0))))

    def with_rate(self, rate_per_s: float) -> Piecewise:
        """The same steps with all rates scaled; their times stay, as a day keeps its length."""
        factor = rate_per_s / self.rate_per_s
        return replace(self, rates_per_s=tuple(rate * factor for rate in self.rates_per_s))


@dataclass(frozen=True)
class Diurnal:
    """A sinusoidal rate `mean·(1 + amplitude·sin(2πt/period))`.

    Attributes:
        rate_per_s: mean rate.
        amplitude: share of the mean, 0 to 1.
        period_s: length of a cycle.
        phase_s: time of the cycle at which the run starts.
        cv: burstiness of the unit process.
    """

    rate_per_s: float
    amplitude: float = 0.5
    period_s: float = 86400.0
    phase_s: float = 0.0
    cv: float = 1.0

    def __post_init__(self) -> None:
        if not (self.rate_per_s > 0 and 0 <= self.amplitude <= 1 and self.period_s > 0):
            raise InputError("a diurnal rate needs a rate and a period above 0 and an amplitude between 0 and 1")

    def steps(self) -> Piecewise:
        """The wave as one step a minute of its day: the mass of each step is exact."""
        edges = self.phase_s + np.linspace(0.0, self.period_s, _DAY_POINTS + 1)
        angle = 2 * np.pi * edges / self.period_s
        mass = self.rate_per_s * (edges - self.amplitude * self.period_s / (2 * np.pi) * np.cos(angle))
        width = self.period_s / _DAY_POINTS
        rates = np.maximum(np.diff(mass) / width, 0.0)
        return Piecewise(tuple(rates.tolist()), (width,) * _DAY_POINTS, self.cv)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s."""
        return self.steps().sample(count, rng)

    def statistics(self) -> ArrivalStatistics:
        """Mean rate, and the CV of the gaps where the period is long against gaps."""
        return replace(self.steps().statistics(), rate_per_s=self.rate_per_s)

    def with_rate(self, rate_per_s: float) -> Diurnal:
        """The same wave at another mean."""
        return replace(self, rate_per_s=rate_per_s)
