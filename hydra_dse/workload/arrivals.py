"""Stationary arrival processes: deterministic, Poisson, gamma renewal and two-state MMPP.

Every process knows its mean rate and the coefficient of variation (CV) of its gaps in the long run, and can be
time-scaled to another rate: a faster copy of the same burstiness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import ArrivalStatistics, FloatArray


def _positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise InputError(f"{name} must be a finite number above zero, got {value!r}")


@dataclass(frozen=True)
class Deterministic:
    """One request every `1 / rate_per_s` seconds, the first at 0."""

    rate_per_s: float

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s."""
        return np.arange(count, dtype=np.float64) / self.rate_per_s

    def statistics(self) -> ArrivalStatistics:
        """CV 0."""
        return ArrivalStatistics(self.rate_per_s, cv=0.0)

    def with_rate(self, rate_per_s: float) -> Deterministic:
        """Another interval."""
        return replace(self, rate_per_s=rate_per_s)


@dataclass(frozen=True)
class Renewal:
    """Independent gamma gaps of a given CV; CV 1 is the Poisson process."""

    rate_per_s: float
    cv: float = 1.0

    def __post_init__(self) -> None:
        _positive("rate_per_s", self.rate_per_s)
        _positive("cv", self.cv)

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s; the first comes one gap after 0."""
        return np.asarray(np.cumsum(self.unit_gaps(count, rng)) / self.rate_per_s)

    def unit_gaps(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Gaps of mean 1."""
        if self.cv == 1.0:
            return rng.standard_exponential(count)
        shape = self.cv**-2
        return rng.gamma(shape, 1 / shape, count)

    def statistics(self) -> ArrivalStatistics:
        """Its own parameters."""
        return ArrivalStatistics(self.rate_per_s, cv=self.cv)

    def with_rate(self, rate_per_s: float) -> Renewal:
        """The same CV at another rate."""
        return replace(self, rate_per_s=rate_per_s)


def poisson(rate_per_s: float) -> Renewal:
    """Poisson arrivals."""
    return Renewal(rate_per_s, 1.0)


@dataclass(frozen=True)
class Mmpp:
    """Two-state Markov-modulated Poisson process.

    Attributes:
        rates_per_s: arrival rate in each state (one of them may be 0).
        sojourns_s: mean time in each state.
    """

    rates_per_s: tuple[float, float]
    sojourns_s: tuple[float, float]

    def __post_init__(self) -> None:
        _positive("sojourns_s", min(self.sojourns_s))
        _positive("the larger of rates_per_s", max(self.rates_per_s))
        if min(self.rates_per_s) < 0:
            raise InputError(f"rates_per_s must not be negative, got {self.rates_per_s!r}")

    @property
    def rate_per_s(self) -> float:
        """Long-run mean rate."""
        (r1, r2), (s1, s2) = self.rates_per_s, self.sojourns_s
        return (r1 * s1 + r2 * s2) / (s1 + s2)

    @property
    def cv(self) -> float:
        """Exact CV of the stationary gaps.

        With `D0 = Q − diag(λ)`, `M = (−D0)⁻¹` and the phase at arrivals `φ ∝ π·diag(λ)`: `E[X] = φM1`,
        `E[X²] = 2φM²1` (Fischer and Meier-Hellstern, "The MMPP cookbook", 1993, eq. 14).
        """
        (r1, r2), (s1, s2) = self.rates_per_s, self.sojourns_s
        a, b = 1 / s1, 1 / s2
        determinant = (r1 + a) * (r2 + b) - a * b
        inverse = np.array([[r2 + b, a], [b, r1 + a]]) / determinant
        phase = np.array([r1 * s1, r2 * s2])
        phase = phase / phase.sum()
        step = inverse @ np.ones(2)
        mean = float(phase @ step)
        second = 2 * float(phase @ inverse @ step)
        return float(np.sqrt(max(second / mean**2 - 1, 0.0)))

    def sample(self, count: int, rng: np.random.Generator) -> FloatArray:
        """Arrival times in s; the state at 0 is drawn from its stationary distribution."""
        target = np.cumsum(rng.standard_exponential(count))
        first = int(rng.random() * sum(self.sojourns_s) >= self.sojourns_s[0])
        ends, mass = np.zeros(1), np.zeros(1)
        while mass[-1] < target[-1]:
            size = 2 * (16 + int(1.2 * (target[-1] - mass[-1]) / (self.rate_per_s * sum(self.sojourns_s))))
            state = (first + np.arange(size)) % 2  # an even block keeps the alternation over blocks
            length = rng.standard_exponential(size) * np.asarray(self.sojourns_s)[state]
            ends = np.concatenate([ends, ends[-1] + np.cumsum(length)])
            mass = np.concatenate([mass, mass[-1] + np.cumsum(length * np.asarray(self.rates_per_s)[state])])
        return invert(target, ends, mass)

    def statistics(self) -> ArrivalStatistics:
        """Rate, CV and the two phases."""
        phases = tuple(zip(self.rates_per_s, self.sojourns_s, strict=True))
        return ArrivalStatistics(self.rate_per_s, self.cv, phases)

    def with_rate(self, rate_per_s: float) -> Mmpp:
        """The same process in faster time: rates times a factor, sojourns divided by it."""
        factor = rate_per_s / self.rate_per_s
        _positive("rate_per_s", factor)
        (r1, r2), (s1, s2) = self.rates_per_s, self.sojourns_s
        return Mmpp((r1 * factor, r2 * factor), (s1 / factor, s2 / factor))


def invert(target: FloatArray, times_s: FloatArray, mass: FloatArray) -> FloatArray:
    """Times at which a piecewise-linear cumulative intensity reaches `target`.

    Where the intensity is 0 the mass stands still: a target at that level is met at the start of the gap.
    """
    index = np.clip(np.searchsorted(mass, target, side="left"), 1, len(mass) - 1)
    span = mass[index] - mass[index - 1]
    share = np.divide(target - mass[index - 1], span, out=np.zeros_like(target), where=span > 0)
    return np.asarray(times_s[index - 1] + share * (times_s[index] - times_s[index - 1]))
