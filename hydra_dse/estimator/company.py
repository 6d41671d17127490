"""Prompts that share an iteration: how many, and what those packed behind one cost it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.gamma import gamma_cdf
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.renewal import LEAST_SCV, following

FloatArray = NDArray[np.float64]

PIECE = 16_384
"""Elements that stay in cache."""


def gap_within(share: FloatArray, scv: float) -> FloatArray:
    """Probability that a gamma gap is at most `share` of its mean."""
    if abs(scv - 1.0) < 1e-12:
        return np.asarray(-np.expm1(-share))
    shape = 1.0 / max(scv, 1e-3)
    return np.asarray(gamma_cdf(shape, shape * share))


def packing_of(arrivals: FloatArray, most: FloatArray | None, scv: float) -> FloatArray:
    """Mean prompts in an iteration that has any, when `u = arrivals` come per iteration.

    `1/(1 − A)`, A the probability that the next one comes before an iteration ends that began at a random instant
    of the gap: `A = F(u) − F₁(u)/u` with F the gamma distribution of a gap of mean 1, F₁ its partial mean.  For
    Poisson arrivals this is `u/(1 − e^{−u})`, the mean of a Poisson number given that it is not 0.
    """
    u = np.maximum(arrivals, 1e-9)
    if abs(scv - 1.0) < 1e-12:
        packing = np.maximum(u / -np.expm1(-u), 1.0)
        return packing if most is None else np.minimum(packing, most)
    shape = 1.0 / max(scv, 1e-3)
    alone = 1.0 - gamma_cdf(shape, shape * u) + gamma_cdf(shape + 1.0, shape * u) / u
    packing = np.maximum(1.0 / np.maximum(alone, 1e-3), 1.0)
    return packing if most is None else np.minimum(packing, most)


def started_packing(arrivals: FloatArray, most: FloatArray, scv: float) -> FloatArray:
    """The same of an engine that starts at once where it is idle: what came in the last iteration, one if none did.

    `m(u) + P(none)`, both seen from an arrival; for Poisson arrivals `u + e^{−u}`.
    """
    u = np.maximum(arrivals, 1e-9)
    some = max(scv, LEAST_SCV)
    return np.asarray(bounded(following(u, some) + 1.0 - gap_within(u, some), 1.0, most))


@dataclass(frozen=True)
class Company:
    """Prompts packed behind one into its last iteration, by its size, shape (..., bins).

    Attributes:
        chance: that there are any.
        extra_s: mean extra time for them, given any.
    """

    chance: FloatArray
    extra_s: FloatArray

    def mean_s(self, bin_weight: FloatArray) -> FloatArray:
        """Mean extra time over the sizes, shape (...)."""
        return np.asarray((self.chance * self.extra_s) @ bin_weight)


@dataclass(frozen=True)
class Packer:
    """What fills up the iterations of prompts.

    Attributes:
        rate: arrivals per second, shape (n, j).
        times: of prompts.
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
    """

    rate: FloatArray
    times: PrefillTimes
    lengths: LengthMoments
    arrival_scv: float

    @property
    def bin_weight(self) -> FloatArray:
        """Probability of each size."""
        return self.lengths.prompt_bins.weight

    def behind(self, wait_s: FloatArray) -> Company:
        """Company of prompts that waited `wait_s`, shape (n, j[, slices]), of each size.

        Who comes while a prompt waits, or in its iterations before the last, is packed behind it while there is room.
        Their work is about exponential, given any; the room is uniform up to a full iteration.
        """
        times = self.times
        chunks, deep = times.alone_s - times.last_s, wait_s.ndim == 3
        if deep:
            chunks = chunks[:, :, None]
        shape = np.broadcast_shapes((*wait_s.shape, 1), chunks.shape)
        rate, token_s, budget = (_wide(x, len(shape)) for x in (self.rate, times.token_s, times.budget))
        chance, extra = np.empty(shape), np.empty(shape)
        # Sizes of a single iteration have the same company: the last of them stands for all.
        alike = _leading_without(chunks)
        step = max(1, PIECE // max(1, int(np.prod(shape[1:]))))
        for start in range(0, shape[0], step):
            rows = slice(start, start + step)
            u = np.maximum(rate[rows] * (wait_s[rows, ..., None] + chunks[rows, ..., alike - 1 :]), 1e-9)
            some = -np.expm1(-u)
            work = self.lengths.prompt * token_s[rows] * u / some
            ratio = token_s[rows] * budget[rows] / work
            met = some if abs(self.arrival_scv - 1.0) < 1e-12 else gap_within(u, self.arrival_scv)
            more = work * (1.0 + np.expm1(-ratio) / ratio)
            for whole, found in ((chance, met), (extra, more)):
                whole[rows, ..., :alike] = found[..., :1]
                whole[rows, ..., alike:] = found[..., 1:]
        return Company(chance, extra)


def _leading_without(chunks: FloatArray) -> int:
    """Leading sizes, one at least, that have no iteration before the last in any design."""
    some = np.flatnonzero(chunks.reshape(-1, chunks.shape[-1]).any(axis=0))
    return max(1, int(some[0]) if len(some) else chunks.shape[-1])


def _wide(values: FloatArray, axes: int) -> FloatArray:
    """Append axes of length 1 up to a number of axes."""
    return values.reshape(*values.shape, *(1,) * (axes - values.ndim))
