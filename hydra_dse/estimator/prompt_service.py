"""Time that an engine spends on a prompt: alone, and packed with others into iterations up to a budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.company import packing_of, started_packing
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments

FloatArray = NDArray[np.float64]


def packed_service(
    rate: FloatArray, times: PrefillTimes, lengths: LengthMoments, arrival_scv: float, own_engine: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Service time per prompt and size bin, shape (n, j, bins), packing, and share in full iterations.

    Prompts that come during an iteration share the next one (`packing_of`); a share ω of prompts finds enough
    company to fill the budget.

    Args:
        rate: prompts per second, shape (n, j).
        times: of prompts alone and packed.
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
        own_engine: whether prompts have an engine of their own, which starts as soon as one comes.
    """
    weight = lengths.prompt_bins.weight
    alone = times.alone_s @ weight
    packed = lengths.prompt * times.token_s
    packing = np.ones_like(alone)
    for _ in range(4):
        each = np.maximum(alone - times.shared_s * (1.0 - 1.0 / packing), packed)
        u = rate * np.minimum(packing * each, times.full_s)
        room = np.maximum(times.budget / lengths.prompt, 1.0)
        packing = (started_packing if own_engine else packing_of)(u, room, arrival_scv)
    full = bounded(rate * packed, 0.0, 1.0)
    if own_engine:
        full = full * bounded(packing * lengths.prompt / times.budget, 0.0, 1.0)
    light = light_service(times, packing, lengths)
    heavy = lengths.prompt_bins.size * times.token_s[..., None]
    return (1.0 - full[..., None]) * light + full[..., None] * heavy, packing, full


def light_service(times: PrefillTimes, packing: FloatArray, lengths: LengthMoments) -> FloatArray:
    """Service time per prompt and size bin outside full iterations."""
    alone, packed = times.alone_s @ lengths.prompt_bins.weight, lengths.prompt * times.token_s
    saved = np.minimum(times.shared_s * (1.0 - 1.0 / packing), np.maximum(alone - packed, 0.0))
    return np.asarray(times.alone_s - saved[..., None])
