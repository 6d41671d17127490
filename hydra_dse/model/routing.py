"""Which experts of a mixture the tokens of an iteration choose.

A router takes `top_k` different experts per token.  Expert `e` has popularity `p_e` (uniform, Zipf or given shares);
experts are drawn one after another with probability in proportion to the popularity of those left (Plackett-Luce).
That equals the first `k` of independent exponential clocks with rates `p_e`.  A set `S` of experts is chosen from at
all if its first clock rings before `k` of the others have (its first ring is exponential with rate `p_S`, the sum of
the `p_e` in `S`):

    P(S) = ∫ p_S exp(-p_S t) P(fewer than k clocks outside S by t) dt,

where the number of clocks that have rung is a Poisson-binomial count.  The integral is taken by Gauss-Legendre
quadrature.  Tokens choose independently of each other, so `T` tokens touch `Σ_e 1 − (1 − P({e}))^T` distinct experts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FloatArray: TypeAlias = "NDArray[np.float64]"

TOLERANCE = 1e-9
"""Points of the quadrature are doubled until no probability changes by more."""
_FIRST_POINTS, _MOST_POINTS = 32, 1024


@dataclass(frozen=True)
class Routing:
    """Mixture-of-experts routing: `top_k` different experts of `experts` per token.

    Attributes:
        skew: Zipf exponent of the popularity, 0 = uniform; the first expert is the most popular.
        shares: popularity of each expert (any positive scale) in place of the Zipf law, empty = none.
    """

    experts: int
    top_k: int
    skew: float = 0.0
    shares: tuple[float, ...] = ()

    @property
    def uniform(self) -> bool:
        """Whether all experts are equally popular."""
        return self.skew == 0 and not self.shares

    @cached_property
    def popularity(self) -> FloatArray:
        """Probability of each expert in the first draw, shape (experts,)."""
        if self.shares:
            weights = np.array(self.shares, dtype=np.float64)
        else:
            weights = np.arange(1, self.experts + 1, dtype=np.float64) ** -self.skew
        return np.asarray(weights / weights.sum())

    @cached_property
    def inclusion(self) -> FloatArray:
        """Probability that a token uses each expert, shape (experts,); sums to `top_k`."""
        if self.uniform:
            return np.full(self.experts, min(1.0, self.top_k / self.experts))
        return self.hits(np.arange(self.experts))

    def hits(self, set_of: NDArray[np.int64]) -> FloatArray:
        """Probability that a token uses at least one expert of each set.

        Args:
            set_of: shape (experts,), number of the set that each expert is in, −1 = in none.

        Returns:
            Shape (sets,).
        """
        return _hits(self, tuple(np.asarray(set_of).tolist()))

    def distinct(self, tokens: FloatArray | float) -> FloatArray:
        """Expected number of distinct experts that `tokens` tokens touch: `Σ_e 1 − (1 − q_e)^tokens`."""
        if self.uniform:
            # All terms are equal: one power instead of one per expert.
            share = min(1.0, self.top_k / self.experts)
            return np.asarray(self.experts * (1.0 - (1.0 - share) ** np.asarray(tokens, dtype=np.float64)))
        hit, times = self._grouped
        count = np.asarray(tokens, dtype=np.float64)[..., None]
        return np.asarray((times * (1.0 - (1.0 - hit) ** count)).sum(axis=-1))

    @cached_property
    def _grouped(self) -> tuple[FloatArray, FloatArray]:
        """Distinct inclusion probabilities and how many experts have each."""
        hit, times = np.unique(np.round(self.inclusion, 12), return_counts=True)
        return np.minimum(hit, 1.0), times.astype(np.float64)


@lru_cache(maxsize=512)
def _hits(routing: Routing, set_of: tuple[int, ...]) -> FloatArray:
    points = _FIRST_POINTS
    found = _integrate(routing, np.array(set_of, dtype=np.int64), points)
    while points < _MOST_POINTS:
        points *= 2
        finer = _integrate(routing, np.array(set_of, dtype=np.int64), points)
        if np.abs(finer - found).max(initial=0.0) < TOLERANCE:
            return finer
        found = finer
    return found


def _integrate(routing: Routing, set_of: NDArray[np.int64], points: int) -> FloatArray:
    popularity, sets = routing.popularity, int(set_of.max(initial=-1)) + 1
    used = popularity > 0
    rate = np.bincount(set_of[set_of >= 0], weights=popularity[set_of >= 0], minlength=sets)
    if int(used.sum()) <= routing.top_k:
        return np.asarray((rate > 0).astype(np.float64))
    x, weight = np.polynomial.legendre.leggauss(points)
    x, weight = (x + 1.0) / 2.0, weight / 2.0
    # From (0, 1) to (0, ∞), with the middle where about `top_k` clocks have rung.
    scale = _typical_time(popularity, routing.top_k)
    time = scale * x / (1.0 - x)
    step = weight * scale / (1.0 - x) ** 2
    rung = _counts_outside(popularity[used], set_of[used], sets, routing.top_k, time).sum(axis=-1)
    density = rate[:, None] * np.exp(-rate[:, None] * time)
    return np.asarray(np.clip((density * rung) @ step, 0.0, 1.0))


def _counts_outside(
    popularity: FloatArray, set_of: NDArray[np.int64], sets: int, top_k: int, time: FloatArray
) -> FloatArray:
    """P(exactly n clocks outside a set rang by a time), shape (sets, times, top_k), for n < top_k."""
    counts = np.zeros((sets, len(time), top_k))
    counts[..., 0] = 1.0
    rang = 1.0 - np.exp(-popularity[:, None] * time)
    for expert, number in enumerate(set_of.tolist()):
        kept = counts[number].copy() if number >= 0 else None
        moved = counts * rang[expert][None, :, None]
        counts -= moved
        counts[..., 1:] += moved[..., :-1]
        if kept is not None:
            counts[number] = kept
    return counts


def _typical_time(popularity: FloatArray, top_k: int) -> float:
    """Time by which `top_k` clocks have rung on average (Rosén 1972), by bisection."""
    low, high = 0.0, float(top_k)
    while (1.0 - np.exp(-popularity * high)).sum() < top_k and high < 1e12:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        if (1.0 - np.exp(-popularity * middle)).sum() < top_k:
            low = middle
        else:
            high = middle
    return high
