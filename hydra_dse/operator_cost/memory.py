"""Time that reads and writes keep a memory site busy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.mapping import MemorySite

FloatArray = NDArray[np.float64]


def site_seconds_per_byte(fetch: FloatArray, bandwidth: FloatArray) -> FloatArray:
    """Return the busy seconds of each site per byte of an operand.

    Args:
        fetch: shape (sites, dies), bytes from each site to each die per byte of the operand.
        bandwidth: shape (sites, dies), bytes per second that the accesses of each die reach.
    """
    return np.asarray((fetch / bandwidth).sum(axis=1))


def site_bandwidth(sites: Sequence[MemorySite], link_bytes_per_s: FloatArray, efficiency: FloatArray) -> FloatArray:
    """Return the bandwidth that the accesses of each die reach at each site, shape (sites, dies).

    Args:
        sites: memory sites.
        link_bytes_per_s: shape (sites,), what the links of each carry together (infinite for the memory of a die).
        efficiency: shape (dies,), share of the interface peak that each die's access pattern reaches.
    """
    peak = np.array([site.peak_bandwidth_bytes_per_s for site in sites])
    most = np.minimum([site.bandwidth_bytes_per_s for site in sites], link_bytes_per_s)
    return np.asarray(np.minimum(most[:, None], peak[:, None] * efficiency))
