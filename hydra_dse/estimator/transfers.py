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
    profile: ServiceProfile, lengths: LengthMoments, joining_per_s: FloatArray, prompt: float | None = None
) -> FloatArray:
    """Mean time from the end of the prompt until the other pool has its caches, shape (n,).

    Of prompts of a length, where one is given: beside others a transfer takes longer in proportion to its size.

    Latency, then the transfer beside others: transfers share the busiest resource evenly, an M/G/1 queue with
    processor sharing, whose mean `S / (1 − ρ)` does not depend on the distribution of sizes.  No more than
    `max_batch` are on their way, since prefill pauses when so many requests are between the pools.
    """
    alone = transfer_s(profile, lengths)
    mine = alone if prompt is None else _alone_s(profile, prompt)
    if profile.handoff is None:
        return mine
    left = np.maximum(1.0 - joining_per_s * alone, 1.0 / np.maximum(profile.max_batch, 1.0))
    return np.asarray(profile.handoff.latency_s + mine / left)


def handed_over_per_s(profile: ServiceProfile, lengths: LengthMoments) -> FloatArray:
    """Requests per second that the way between the pools carries at most, shape (n,); infinite for a pointer."""
    busy = transfer_s(profile, lengths) * max(lengths.decoding_share, 1e-9)
    if profile.handoff is None:
        return np.full_like(busy, np.inf)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / busy)
