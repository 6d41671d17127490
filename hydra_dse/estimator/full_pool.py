"""What a limit of slots changes for the decoders of a colocated pool.

A prompt enters when a slot is free.  With `L` slots taken one falls free first, so that it delays `L − 1` others, and
of a burst only those follow a request at once for which slots are free; the rest come as others end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.prompt_impact import Delays

FloatArray = NDArray[np.float64]


def taken(batch: FloatArray, limit: FloatArray) -> FloatArray:
    """1 at nodes where all slots are taken, 0 where one is free, (n, k).

    Args:
        batch: sequences in service at the nodes, (n, k).
        limit: slots, (n,).
    """
    return np.asarray(bounded(batch - limit[:, None] + 1.0, 0.0, 1.0))


def met(rate: FloatArray, alone_s: FloatArray, batch: FloatArray, limit: FloatArray) -> FloatArray:
    """Prompts per second that delay one decoder at each node, (n, k).

    In a full pool of `L` slots a prompt delays `L − 1` of the `L − λt` decoders, `t` its own time; in another, which
    it enters as it comes, all.

    Args:
        rate: arrivals per second, (n,).
        alone_s: time of a prompt at the nodes, (n, k).
        batch: as in `taken`.
        limit: as in `taken`.
    """
    slots = limit[:, None]
    prefilling = np.minimum(rate[:, None] * alone_s, 1.0)
    share = np.maximum(slots - 1.0, 0.0) / np.maximum(slots - prefilling, 1e-9)
    return np.asarray(rate[:, None] * (1.0 - taken(batch, limit) * (1.0 - np.minimum(share, 1.0))))


def that_enter(
    followers: FloatArray, state: PoolState, batch: FloatArray, limit: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Of a mean number of followers those for which a slot is free, mean and square beyond its own, (n,).

    `E[min(N, F)]` with `N` geometric and `F` the slots that a request leaves free.

    Args:
        followers: mean of `N`, (n,).
        state: of the pool.
        batch: as in `taken`.
        limit: as in `taken`.
    """
    slots = limit[:, None]
    free = np.maximum(slots - 1.0 - side_by_side(np.zeros_like(slots), batch), 0.0)
    more = followers[:, None]
    ratio = more / (1.0 + more)
    left = ratio**free
    mean = (state.at_nodes * more * (1.0 - left)).sum(axis=1)
    # E[min(N, F)²] = Σ_{k ≤ F} (2k − 1) r^k
    square = more * (1.0 + 2.0 * more) * (1.0 - left) - 2.0 * more * free * left
    return mean, np.maximum((state.at_nodes * square).sum(axis=1) - mean**2, 0.0)


def delay_variance(
    rate: FloatArray,
    full: FloatArray,
    found: Delays,
    plain_s: FloatArray,
    arrival_scv: float,
    ends_scv: float,
) -> FloatArray:
    """Variance per time of the delays by prompts, as if more came during each (which a solver adds), (n, k).

    The number of regular arrivals does not vary, their sizes do.  Into a full pool prompts come as others end, whose
    number varies as their outputs do, and none comes while one runs.

    Args:
        rate: prompts per second that delay a decoder, (n, k).
        full: as `taken`.
        found: delays by prompts.
        plain_s: iteration without them, (n, k).
        arrival_scv: squared coefficient of variation of the gaps.
        ends_scv: that of the outputs.
    """
    alike = found.each_s**2
    free = found.square - (1.0 - min(arrival_scv, 1.0)) * alike
    ends = (found.square + (ends_scv - 1.0) * alike) * (plain_s / found.step_s) ** 2
    return np.asarray(rate * np.maximum((1.0 - full) * free + full * ends, 0.0))
