"""How many sequences fit into the memory that KV and recurrent state share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Memory:
    """Bytes of sequences, each of shape (n,).

    Attributes:
        decoding: held by a decoding sequence, mean over its life, blocks rounded up.
        waiting: held by a sequence whose prompt is stored.
        runnable: mean number of decoding sequences that fit.
        spread: standard deviation of that number.
    """

    decoding: FloatArray
    waiting: FloatArray
    runnable: FloatArray
    spread: FloatArray

    def limited(self, limit: FloatArray) -> FloatArray:
        """`E[min(limit, R)]` for R normal."""
        z = (limit - self.runnable) / self.spread
        lost = (limit - self.runnable) * ndtr(z) + self.spread * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
        return np.asarray(bounded(limit - lost, np.minimum(1.0, limit), limit))

    def binds(self, limit: FloatArray) -> FloatArray:
        """Probability that memory, not the limit, bounds the sequences."""
        return np.asarray(ndtr((limit - self.runnable) / self.spread))


def memory_of(profile: ServiceProfile, lengths: LengthMoments, in_progress: FloatArray) -> Memory:
    """Memory of each design when `in_progress` prompts hold theirs beside the decoding sequences.

    The number that fits is a renewal count: variance `M(h₂ − h²)/h³` for bytes `h` of a sequence in flight.  While
    the first prompt in line waits for memory, the space it needs stands free in part: half its size-biased mean.
    """
    kv, state = profile.kv_bytes_per_token, profile.state_bytes_per_sequence
    rounding = (profile.block_tokens - 1.0) / 2.0
    decoding = np.maximum(state + kv * (lengths.context + rounding), 1e-9)
    waiting = state + kv * (lengths.stored + rounding)
    square = (state + kv * rounding) ** 2 + 2.0 * (state + kv * rounding) * kv * lengths.stored
    wasted = (square + kv**2 * lengths.stored2) / (2.0 * np.maximum(waiting, 1e-9))
    free = np.maximum(profile.cache_bytes - wasted - in_progress * waiting, 0.0)
    variance = kv**2 * max(lengths.held2 - lengths.context**2, 0.0)
    runnable = free / decoding
    spread = np.sqrt(np.maximum(free * variance / decoding**3, 0.0)) + 1e-6 * (1.0 + runnable)
    return Memory(decoding, waiting, runnable, spread)
