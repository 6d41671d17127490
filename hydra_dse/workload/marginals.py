"""Length distributions of one quantity (prompt or output tokens), given by their inverse CDF.

`Quantiles` joins published percentiles by power curves whose common exponent is chosen so that the published mean
holds too.  `Lognormal` has the stated mean and CV after its bounds are applied.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.nouns import FloatArray

MAX_TOKENS = 10_000_000
"""Most tokens of a prompt or an output; ten times the longest context that is served today."""
_NODES, _PANELS = 400, 20
_LEAST_MASS = 1e-6


class Marginal(Protocol):
    """A distribution of token counts by its inverse CDF."""

    def inverse(self, uniform: FloatArray) -> FloatArray:
        """Token count (not rounded) at each probability in (0, 1)."""


@dataclass(frozen=True)
class Constant:
    """Always the same length."""

    tokens: int

    def __post_init__(self) -> None:
        if not 1 <= self.tokens <= MAX_TOKENS:
            raise InputError(f"a length must be between 1 and {MAX_TOKENS} tokens, got {self.tokens!r}")

    def inverse(self, uniform: FloatArray) -> FloatArray:
        """The one length."""
        return np.full(np.shape(uniform), float(self.tokens))


@dataclass(frozen=True)
class Lognormal:
    """Lognormal lengths conditioned to lie between bounds; mean and CV are those of the bounded lengths."""

    mean: float
    cv: float
    minimum: float = 1.0
    maximum: float | None = None

    def __post_init__(self) -> None:
        top = MAX_TOKENS if self.maximum is None else self.maximum
        if not (self.cv > 0 and self.minimum < self.mean < top <= MAX_TOKENS and self.minimum >= 1):
            raise InputError(
                f"lognormal lengths need cv > 0 and 1 <= minimum < mean < maximum, got mean {self.mean:g}, "
                f"cv {self.cv:g}, minimum {self.minimum:g}, maximum {self.maximum}"
            )
        _parent(self)

    def inverse(self, uniform: FloatArray) -> FloatArray:
        """Conditional inverse CDF."""
        from scipy.special import ndtri  # imported late: 0.3 s that most commands do not need

        location, scale, low, high = _parent(self)
        normal = ndtri(low + np.asarray(uniform) * (high - low))
        return np.clip(np.exp(location + scale * normal), self.minimum, self.maximum)


@functools.lru_cache(maxsize=256)
def _parent(target: Lognormal) -> tuple[float, float, float, float]:
    """Parameters of the unbounded normal of the logarithm, and its probabilities at the bounds.

    Fixed point: the parent's mean and CV are moved by the ratios that the bounded moments miss.
    """
    mean, cv = target.mean, target.cv
    normal = NormalDist()
    for _ in range(400):
        scale = math.sqrt(math.log1p(min(cv, 1e3) ** 2))
        location = math.log(mean) - scale**2 / 2
        low = normal.cdf((math.log(target.minimum) - location) / scale)
        high = 1.0 if target.maximum is None else normal.cdf((math.log(target.maximum) - location) / scale)
        if high - low < _LEAST_MASS:
            break
        bounded_mean, bounded_cv = _bounded_moments(location, scale, target)
        if abs(bounded_mean / target.mean - 1) < 1e-6 and abs(bounded_cv / target.cv - 1) < 1e-6:
            return location, scale, low, high
        mean *= target.mean / bounded_mean
        cv *= target.cv / bounded_cv
    raise InputError(
        f"no lognormal between {target.minimum:g} and {target.maximum or math.inf:g} tokens has mean {target.mean:g} "
        f"and cv {target.cv:g}; lower the cv or widen the bounds"
    )


@functools.cache
def _rule() -> tuple[FloatArray, FloatArray]:
    """Nodes and weights of a Gauss-Legendre rule on 20 panels, which needs no large eigenvalue problem."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES // _PANELS)
    starts = np.linspace(-1.0, 1.0, _PANELS + 1)[:-1, None]
    return (starts + (nodes + 1) / _PANELS).ravel(), np.tile(weights / _PANELS, _PANELS)


def _bounded_moments(location: float, scale: float, target: Lognormal) -> tuple[float, float]:
    """Mean and CV of the lognormal conditioned to the bounds, by quadrature over the normal variable.

    The closed form subtracts probabilities that agree to many digits where the bounds cut deep into a tail.
    """
    low = (math.log(target.minimum) - location) / scale
    high = math.inf if target.maximum is None else (math.log(target.maximum) - location) / scale
    # Beyond these normals neither the density nor its first two moments hold anything.
    low, high = max(low, -12.0), min(high, 12.0 + 2 * scale)
    nodes, weights = _rule()
    normal = low + (high - low) * (nodes + 1) / 2
    weights = weights * np.exp(-(normal**2 - np.min(normal**2)) / 2)
    tokens = np.exp(location + scale * normal)
    first = float(weights @ tokens / weights.sum())
    second = float(weights @ tokens**2 / weights.sum())
    return first, math.sqrt(max(second / first**2 - 1, 1e-12))


@dataclass(frozen=True)
class Quantiles:
    """Published percentiles and mean.

    Attributes:
        levels: ascending probabilities from 0 to 1.
        tokens: length at each level (minimum first, maximum last).
        mean: published mean; None joins the percentiles by straight lines.
    """

    levels: tuple[float, ...]
    tokens: tuple[float, ...]
    mean: float | None = None

    def __post_init__(self) -> None:
        levels, tokens = self.levels, self.tokens
        if len(levels) != len(tokens) or len(levels) < 2 or levels[0] != 0 or levels[-1] != 1:
            raise InputError("quantiles need as many lengths as levels, from level 0 (minimum) to 1 (maximum)")
        if any(b <= a for a, b in itertools.pairwise(levels)):
            raise InputError(f"quantile levels must ascend, got {levels}")
        if tokens[0] < 1 or tokens[-1] > MAX_TOKENS or any(b < a for a, b in itertools.pairwise(tokens)):
            raise InputError(f"quantile lengths must not descend and start at 1 token or more, got {tokens}")
        if self.mean is not None:
            self._check_mean(self.mean)

    def _check_mean(self, mean: float) -> None:
        widths = [b - a for a, b in itertools.pairwise(self.levels)]
        low, high = (math.fsum(map(operator.mul, widths, ends)) for ends in (self.tokens[:-1], self.tokens[1:]))
        if not (low < mean < high or low == high == mean):
            raise InputError(f"the mean must lie between {low:g} and {high:g} for these quantiles, got {mean:g}")

    def _mean_of(self, exponent: float) -> float:
        widths, rise = np.diff(self.levels), np.diff(self.tokens)
        return float(np.dot(widths, np.asarray(self.tokens[:-1]) + rise / (exponent + 1)))

    @property
    def exponent(self) -> float:
        """The power of every segment `a + (b − a)·v^k`: `k + 1 = Σ w·(b − a) / (mean − Σ w·a)`."""
        if self.mean is None or self.tokens[0] == self.tokens[-1]:
            return 1.0
        floor = self._mean_of(math.inf)
        above = self.mean - floor
        return (self._mean_of(0.0) - floor) / above - 1 if above > 0 else math.inf

    def inverse(self, uniform: FloatArray) -> FloatArray:
        """Inverse CDF: exact at every level, with the stated mean."""
        levels, tokens = np.asarray(self.levels), np.asarray(self.tokens)
        uniform = np.asarray(uniform, dtype=np.float64)
        index = np.clip(np.searchsorted(levels, uniform, side="right") - 1, 0, len(levels) - 2)
        share = np.clip((uniform - levels[index]) / (levels[index + 1] - levels[index]), 0.0, 1.0)
        return np.asarray(tokens[index] + (tokens[index + 1] - tokens[index]) * share**self.exponent)
