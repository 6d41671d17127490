"""How many requests follow one: the renewal function of gamma gaps, and that of arrivals in two phases.

An arrival of a bursty stream is likely to be in a burst: within `u` mean gaps after it come `m(u) = Σ_n P(n/c², u/c²)`
more (P the regularised incomplete gamma function: the n-th gap ends by then), `u` for Poisson arrivals, up to
`(c² − 1)/2` beyond `u` in the long run.  After an arrival of an MMPP the rate decays to its mean at the phase rate:
`m(u) = u + (I − 1)/2·(1 − e^{−ru})`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from hydra_dse.estimator.phases import Phases

FloatArray = NDArray[np.float64]

LEAST_SCV, MOST_SCV = 0.05, 40.0
NEAR, FAR, POINTS = 1e-3, 64.0, 48


def following(gaps: FloatArray, scv: float, phases: Phases | None = None) -> FloatArray:
    """Mean number of arrivals within `gaps` mean gaps after an arrival, the shape of `gaps`."""
    if phases is not None:
        return np.asarray(gaps + (phases.dispersion - 1.0) / 2.0 * -np.expm1(-phases.changes * gaps))
    if abs(scv - 1.0) < 1e-12:
        return gaps
    beyond = np.interp(np.log(np.maximum(gaps, NEAR)), *_beyond(round(min(max(scv, LEAST_SCV), MOST_SCV), 6)))
    return np.maximum(gaps + beyond * np.minimum(gaps / NEAR, 1.0), 0.0)


@lru_cache(maxsize=64)
def _beyond(scv: float) -> tuple[FloatArray, FloatArray]:
    """`m(u) − u` at logarithms of `u`."""
    shape = 1.0 / scv
    gaps = np.geomspace(NEAR, FAR, POINTS)
    most = int(np.ceil((FAR * shape + 12.0 * np.sqrt(FAR * shape) + 40.0) / shape))
    count = np.arange(1.0, most + 1.0)[:, None]
    return np.log(gaps), np.asarray(gammainc(count * shape, gaps * shape).sum(axis=0) - gaps)
