"""A prompt of a colocated pool with several batches in flight: each batch has an engine of its own on the same dies.

A prompt runs whole on one engine, beside that one's share of the decoders, while the other engines go on.  How much two
engines slow each other shows in two prompts at once against one: not at all where each leaves the dies idle for as long
as the other one needs them, to half where both want all of one die, memory or link.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.iteration import PrefillTimes

FloatArray = NDArray[np.float64]


def own_s(prompts: PrefillTimes, weight: FloatArray, beside: FloatArray, engines: FloatArray) -> FloatArray:
    """Time of a prompt on its engine, shape (n, j, bins).

    Args:
        prompts: times as of one pool; the first column is beside no decoders, where a prompt has one engine.
        weight: of the size bins.
        beside: decoding sequences of the pool in each column, (n, j).
        engines: of each design, (n,).
    """
    alone = prompts.alone_s[:, :1]
    saved = prompts.shared_s[:, :1] / np.maximum(alone @ weight, 1e-300)
    slower = np.clip(1.0 - saved, 0.0, 1.0)
    others = (engines[:, None] - 1.0) * _active(beside, engines)
    found = alone * (1.0 + others * slower)[:, :, None]
    return np.where(engines[:, None, None] > 1.0, np.maximum(found, prompts.alone_s), prompts.alone_s)


def until_one_ends(step_s: FloatArray, beside: FloatArray, engines: FloatArray) -> FloatArray:
    """Mean time until an engine can take a prompt, of iterations of `step_s`, shape (n, j): 0 where one is idle."""
    several = engines[:, None]
    every = np.where(several > 1.0, _active(beside, engines) ** several, 1.0)
    return np.asarray(step_s * every / (several + 1.0))


def _active(beside: FloatArray, engines: FloatArray) -> FloatArray:
    """Probability that an engine has decoders, which lie on the engines at random, (n, j)."""
    return np.asarray(1.0 - (1.0 - 1.0 / engines[:, None]) ** beside)
