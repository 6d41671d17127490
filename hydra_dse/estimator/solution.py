"""What a solver of one serving policy hands to the outputs: arrays over designs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.mixture import Mixture
from hydra_dse.model.operators import Batch

FloatArray = NDArray[np.float64]

JUST_BELOW = 0.998
"""Share of its saturation rate up to which a design is solved: at the rate itself queues have no mean."""


@dataclass(frozen=True)
class Intake:
    """How requests leave a backlog, each of shape (n,).

    Attributes:
        prompts_per_s: highest rate of prompts alone.
        slots: sequences in service at most.
        places: requests that may wait between prompt and decode.
    """

    prompts_per_s: FloatArray
    slots: FloatArray
    places: FloatArray


@dataclass(frozen=True)
class Work:
    """Iterations of one pool: `rate_per_s` of each batch, shapes (n, m)."""

    pool: str
    batch: Batch
    rate_per_s: FloatArray


@dataclass(frozen=True)
class Latency:
    """Means, shape (n,), and, where asked for, the distribution of one latency."""

    mean_s: FloatArray
    spread: Mixture | None = None


@dataclass(frozen=True)
class Solution:
    """Stationary figures of designs under one load, each of shape (n,).

    Attributes:
        served_per_s: rate at which the state was solved: the offered one, or just below saturation if that is less.
        scheduled_mean_s: first token − first scheduling.
        batch_mean: decoding sequences.
        kv_tokens, sequences: tokens and sequences that hold memory.
        preemptions: recompute preemptions per request.
        work: iterations of all pools.
        rejected: share of arrivals that are refused; None where none is.
        left_s: prompt work at the end of a piece of time, and left: requests that wait for it, shape (n,).
    """

    saturation_per_s: FloatArray
    served_per_s: FloatArray
    ttft: Latency
    scheduled_mean_s: FloatArray
    tpot: Latency
    tbt: Latency
    e2e: Latency
    batch_mean: FloatArray
    kv_tokens: FloatArray
    sequences: FloatArray
    preemptions: FloatArray
    work: tuple[Work, ...]
    rejected: FloatArray | None = None
    left_s: FloatArray | None = None
    left: FloatArray | None = None
