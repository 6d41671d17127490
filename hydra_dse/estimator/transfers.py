"""Hand-offs between the memories of two pools: how long one takes beside others, and how many fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]


def transfer_s(profile: ServiceProfile, lengths: LengthMoments) -> FloatArray:
    """Mean time of a transfer that is alone on its way, shape (n,): that of the busiest memory or link."""
    return _alone_s(profile, lengths.stored)


def _alone_s(profile: ServiceProfile, prompt: float) -> FloatArray:
    return np.asarray(profile.handoff_s_per_token * prompt + profile.handoff_s_per_sequence)


def handed_over_s(
    profile: ServiceProfile,
    lengths: LengthMoments,
    joining_per_s: FloatArray,
    prompt: float | None = None,
    burst: FloatArray | float = 1.0,
) -> FloatArray:
    """Mean time from the end of the prompt until the other pool has its caches, shape (n,).

    Of prompts of a length, where one is given: beside others a transfer takes longer in proportion to its size.

    Latency, then the transfer beside others: transfers share the busiest resource evenly, a queue with processor
    sharing, whose mean `S·(1 + b·ρ/(1 − ρ))` does not depend on the distribution of sizes where they come at random
    (b = 1); `burst` is `b = (c_a² + 1)/2` of the gaps otherwise, as for the wait of a single server.  No more than
    `max_batch` are on their way, since prefill pauses when so many requests are between the pools.
    """
    alone = transfer_s(profile, lengths)
    mine = alone if prompt is None else _alone_s(profile, prompt)
    if profile.handoff is None:
        return mine
    most = np.maximum(profile.max_batch, 1.0)
    left = np.maximum(1.0 - joining_per_s * alone, 1.0 / most)
    return np.asarray(profile.handoff.latency_s + mine * np.minimum(1.0 + burst * (1.0 / left - 1.0), most))


def handed_over_per_s(profile: ServiceProfile, lengths: LengthMoments) -> FloatArray:
    """Requests per second that the way between the pools carries at most, shape (n,); infinite for a pointer."""
    busy = transfer_s(profile, lengths) * max(lengths.decoding_share, 1e-9)
    if profile.handoff is None:
        return np.full_like(busy, np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / busy)
