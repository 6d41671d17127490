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

FloatArray = NDArray[np.float64]

STEPS = 8
"""Points at which delays are tabulated."""
SHARES = (np.arange(STEPS + 1) / STEPS) ** 2
"""Shares of the budget at which delays are tabulated: even in their square roots."""
WIDTHS = np.diff(SHARES)
EDGES = (0.0, 0.3, 0.6, 0.8, 0.92, 0.98, 1.0)
WEIGHTS = np.diff(EDGES)


def shared_batch(budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> Batch:
    """Iterations of `SHARES` of the budget but the first beside decoders, shape (n, j·steps).

    Args:
        budget: prompt tokens of a full iteration, shape (n, j).
        sequences: decoders beside them, shape (n, j).
        lengths: of the requests.
    """
    tokens = (budget[:, :, None] * SHARES[1:]).reshape(len(budget), -1)
    beside = np.repeat(sequences, STEPS, axis=1)
    prompts = np.maximum(tokens / lengths.prompt, np.minimum(tokens, 1.0))
    return Batch(
        prefill_tokens=tokens,
        prefill_sequences=prompts,
        prefill_pairs=tokens * np.minimum(tokens / 2.0, lengths.residual_prompt),
        prefill_context_tokens=tokens,
        decode_sequences=beside,
        decode_context_tokens=beside * lengths.context,
        emitted_tokens=beside * lengths.positions + prompts,
        tokens_per_sequence=lengths.positions,
    )


def delay_table(times_s: FloatArray, step_s: FloatArray) -> FloatArray:
    """Delay of decoders by `SHARES` of the budget, shape (n, j, steps + 1).

    Args:
        times_s: of the iterations of `shared_batch`.
        step_s: decode-only iteration of the decoders, shape (n, j).
    """
    n, j = step_s.shape
    delay = np.zeros((n, j, STEPS + 1))
    np.maximum(times_s.reshape(n, j, STEPS) - step_s[:, :, None], 0.0, out=delay[:, :, 1:])
    return delay


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


@dataclass(frozen=True)
class Lines:
    """A table of delays as the lines between its points: `at + slope·share`, shape (n, m, steps) each."""

    at: FloatArray
    slope: FloatArray


def lines_of(delay_s: FloatArray) -> Lines:
    """Lines of a table of delays, shape (n, m, steps + 1)."""
    slope = (delay_s[..., 1:] - delay_s[..., :-1]) / WIDTHS
    return Lines(delay_s[..., :-1] - SHARES[:-1] * slope, slope)


def clump_of(
    per_iteration: FloatArray, delays: Lines, budget: FloatArray, lengths: LengthMoments, arrival_scv: float
) -> Clump:
    """Clumps of prompts of which `per_iteration` come on average in an iteration.

    Counts in an iteration that has any have `E[N²] = K·(I + u)`, exact for Poisson arrivals (`I` = 1).

    Args:
        per_iteration: `u`, shape (n, m).
        delays: lines of the table.
        budget: prompt tokens of a full iteration, shape (n, m).
        lengths: of the requests.
        arrival_scv: squared coefficient of variation of the gaps.
    """
    u = per_iteration
    size = packing_of(u, None, arrival_scv)
    # I + u
    spread = u + 1.0 if arrival_scv == 1.0 else u + 1.0 + (arrival_scv - 1.0) * np.minimum(u, 1.0)
    mean = size * lengths.prompt
    alike = mean * mean
    square = size * (lengths.prompt2 - lengths.prompt**2 + spread * lengths.prompt**2)
    shape = alike / np.maximum(square - alike, 1e-9 * alike)
    share = gamma_slices(mean / budget, shape, EDGES)
    delay = _delay(share, delays)
    return Clump((delay @ WEIGHTS) / size, (delay**2 @ WEIGHTS) / size, size)


def _delay(share: FloatArray, delays: Lines) -> FloatArray:
    """Delay by clumps of a share of the budget, (n, m, slices)."""
    within = np.minimum(share, 1.0)
    # Of a design that cannot serve any place will do: NaN stays in its delays.
    left = np.minimum(np.fmax(STEPS * np.sqrt(within), 0.0).astype(np.int64), STEPS - 1)
    n, m, steps = delays.at.shape
    left += row_starts(n * m, steps).reshape(n, m, 1)
    within *= delays.slope.take(left)
    within += delays.at.take(left)
    within *= np.maximum(share, 1.0)
    return within
