"""Time that reads and writes keep a memory site busy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def site_seconds_per_byte(fetch: FloatArray, bandwidth: FloatArray, efficiency: FloatArray) -> FloatArray:
    """Return the busy seconds of each site per byte of an operand.

    Args:
        fetch: shape (sites, dies), bytes from each site to each die per byte of the operand.
        bandwidth: shape (sites,), bytes per second of each site (of a leaf stack: no more than its links carry).
        efficiency: shape (dies,), share of the bandwidth that each die's access pattern reaches.
    """
    return np.asarray((fetch / efficiency).sum(axis=1) / bandwidth)
