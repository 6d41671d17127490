"""Prompts that come in one iteration run in the next, together: how long they delay the decoders beside them.

Chunked iterations take the prompt tokens that came, `T`, beside `b` decoders in `t(b, T)`, which bends: what memory
takes hides the first tokens.  A clump is what came in one iteration, given that something did: `K` prompts on average,
taken as gamma-distributed tokens.  It delays the decoders by `t(b, T) − t(b, 0)`, beyond the budget `C` by `T/C` full
iterations.  A mean prompt alone says too much where two hide together, and too little where two no longer do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.company import packing_of
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.nodes import row_starts
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import PoolModel

FloatArray = NDArray[np.float64]

STEPS = 8
SHARES = (np.arange(STEPS + 1) / STEPS) ** 2
"""Shares of the budget at which delays are tabulated: even in their square roots."""
WIDTHS = np.diff(SHARES)
EDGES = (0.0, 0.3, 0.6, 0.8, 0.92, 0.98, 1.0)
WEIGHTS = np.diff(EDGES)


def delay_table(
    pool: PoolModel, budget: FloatArray, sequences: FloatArray, step_s: FloatArray, lengths: LengthMoments
) -> FloatArray:
    """Delay of `sequences` decoders, whose own iteration takes `step_s`, by `SHARES` of the budget, (n, j, steps + 1).

    Args:
        pool: model of the pool.
        budget: prompt tokens of a full iteration, shape (n, j).
        sequences: decoders beside them, shape (n, j).
        step_s: decode-only iteration, shape (n, j).
        lengths: of the requests.
    """
    n, j = budget.shape
    tokens = (budget[:, :, None] * SHARES[1:]).reshape(n, -1)
    beside = np.repeat(sequences, STEPS, axis=1)
    prompts = np.maximum(tokens / lengths.prompt, np.minimum(tokens, 1.0))
    batch = Batch(
        prefill_tokens=tokens,
        prefill_sequences=prompts,
        prefill_pairs=tokens * np.minimum(tokens / 2.0, lengths.residual_prompt),
        prefill_context_tokens=tokens,
        decode_sequences=beside,
        decode_context_tokens=beside * lengths.context,
        emitted_tokens=beside * lengths.positions + prompts,
        tokens_per_sequence=lengths.positions,
    )
    times = np.asarray(pool.time_s(batch), dtype=float).reshape(n, j, STEPS)
    delay = np.maximum(times - step_s[:, :, None], 0.0)
    return np.concatenate((np.zeros((n, j, 1)), delay), axis=2)


@dataclass(frozen=True)
class Clump:
    """What one prompt does to the decoders, mean over clumps, each of shape (n, m).

    Attributes:
        each_s: mean delay per prompt.
        square: second moment of a clump's delay, per prompt.
        size: prompts of a clump.
    """

    each_s: FloatArray
    square: FloatArray
    size: FloatArray


def clump_of(
    per_iteration: FloatArray, delay_s: FloatArray, budget: FloatArray, lengths: LengthMoments, arrival_scv: float
) -> Clump:
    """Clumps of prompts of which `per_iteration` come on average in an iteration.

    Counts in an iteration that has any have `E[N²] = K·(I + u)`, exact for Poisson arrivals (`I` = 1).

    Args:
        per_iteration: `u`, shape (n, m).
        delay_s: table of delays, shape (n, m, steps + 1).
        budget: prompt tokens of a full iteration, shape (n, m).
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
    """
    u = per_iteration
    size = packing_of(u, np.full_like(u, np.inf), arrival_scv)
    dispersion = 1.0 + (arrival_scv - 1.0) * np.minimum(u, 1.0)
    mean = size * lengths.prompt
    square = size * (lengths.prompt2 - lengths.prompt**2) + size * (dispersion + u) * lengths.prompt**2
    shape = mean**2 / np.maximum(square - mean**2, 1e-9 * mean**2)
    tokens = gamma_slices(mean, shape, EDGES)
    delay = _delay(tokens / budget[..., None], delay_s)
    return Clump((delay @ WEIGHTS) / size, (delay**2 @ WEIGHTS) / size, size)


def _delay(share: FloatArray, delay_s: FloatArray) -> FloatArray:
    """Delay by clumps of a share of the budget, (n, m, slices)."""
    within = np.minimum(share, 1.0)
    # Of a design that cannot serve any place will do: NaN stays in its delays.
    left = np.minimum(np.fmax(STEPS * np.sqrt(within), 0.0).astype(np.int64), STEPS - 1)
    n, m, points = delay_s.shape
    flat, at = delay_s.reshape(-1), left + row_starts(n * m, points).reshape(n, m, 1)
    low, high = flat.take(at), flat.take(at + 1)
    inside = low + (within - SHARES.take(left)) / WIDTHS.take(left) * (high - low)
    return np.asarray(inside * np.maximum(share, 1.0))
