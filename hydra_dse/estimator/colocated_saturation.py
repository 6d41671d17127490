"""The highest rate of a colocated pool: a prompt waits for every slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded
from hydra_dse.estimator.colocated_tables import Tables
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.nodes import gather
from hydra_dse.estimator.prompt_impact import delays, impact_of

FloatArray = NDArray[np.float64]
SEARCH_STEPS = 24
"""Of bisection: to 2⁻²⁴ of the way between two batches of the tables."""


@dataclass(frozen=True)
class Saturation:
    """A pool in which a prompt waits for every slot, each of shape (n,).

    Attributes:
        rate_per_s: requests per second.
        prompts: share of time by which prompts delay the decoders.
        prompt_scv: squared coefficient of variation of the delay by one prompt.
    """

    rate_per_s: FloatArray
    prompts: FloatArray
    prompt_scv: FloatArray


def saturation_of(tables: Tables, lengths: LengthMoments) -> Saturation:
    """Requests per second when a prompt waits for every slot: `1/X = E[d]·d(b)/b + e(b)`.

    Iterations with prompts take longer, which e counts.
    """
    if lengths.decoding_share <= 0.0:
        rate = tables.prompts.prompts_per_s(lengths)
        return Saturation(rate, np.ones_like(rate), np.full_like(rate, lengths.prompt2 / lengths.prompt**2 - 1.0))
    decode = lengths.decoding_share * lengths.decode
    batch = tables.top if tables.prefill_first else _decoding_at_saturation(tables, lengths, decode)
    impact = impact_of(tables, batch[:, None], lengths)
    impact = replace(impact, step_s=tables.nodes.time_at_each(tables.step_s, np.maximum(batch, 1.0))[:, None])
    gap = (batch / decode)[:, None]
    # What a prompt does depends on how many come in an iteration, not on how long iterations are.
    found = delays(impact, gap / impact.step_s, lengths, tables.prefill_first, per_gap=gap)
    rate = 1.0 / (decode * impact.step_s[:, 0] / batch + found.each_s[:, 0])
    each = np.maximum(found.each_s[:, 0], 1e-300)
    share = bounded(rate * each, 0.0, 1.0)
    return Saturation(rate, share, np.maximum(found.square[:, 0] / each**2 - 1.0, 0.0))


def _decoding_at_saturation(tables: Tables, lengths: LengthMoments, decode: float) -> FloatArray:
    """Decoding sequences of a chunked pool in which a prompt waits for every slot, shape (n,).

    A slot is taken for `E[d]` iterations in which it decodes and for `m` in which it does not: those of its prompt, and
    those for which the prompt waits for others that leave no budget, `b·(E[d] + m(b)) = B·E[d]`.  In an iteration come
    `b/E[d]` prompts, `T` tokens of variance `σ²`, to a budget of `C − b`: the work found ahead is that of
    Pollaczek–Khinchine, `σ²/2(C − b − E[T])` tokens, found by a share of them that grows with the load of the budget.
    """
    own = tables.prompts.iterations @ lengths.prompt_bins.weight
    whole = tables.limit * decode

    def short(batch: FloatArray, budget: FloatArray, own: FloatArray, whole: FloatArray) -> NDArray[np.bool_]:
        tokens = batch / decode * lengths.prompt
        ahead = batch / decode * lengths.prompt2 / (2.0 * np.maximum(budget - tokens, 1e-3 * budget))
        return np.asarray(batch * (decode + own + ahead / budget * np.minimum(tokens / budget, 1.0)) < whole)

    # Between two of the j batches all that is interpolated lies on a line, so that one search needs no look-up.
    grid, budgets = tables.beside, tables.prompts.budget
    inside = short(grid[:, 1:-1], budgets[:, 1:-1], own[:, 1:-1], whole[:, None])
    left = inside.cumprod(axis=1).sum(axis=1)[:, None]
    (first, last), (near, far), (few, more) = (
        (gather(values, left)[:, 0], gather(values, left + 1)[:, 0]) for values in (grid, budgets, own)
    )
    low, high = np.minimum(first, tables.top), np.minimum(last, tables.top)
    span = np.maximum(last - first, 1e-12)
    if len(low) == 1:
        ends = (first, span, low, high, near, far, few, more, whole)
        return np.array([_decoding_of_one([float(end[0]) for end in ends], decode, lengths)])
    for _ in range(SEARCH_STEPS):
        batch = (low + high) / 2.0
        share = (batch - first) / span
        less = short(batch, near + share * (far - near), few + share * (more - few), whole)
        low, high = np.where(less, batch, low), np.where(less, high, batch)
    return np.maximum(low, 1e-3)


def _decoding_of_one(ends: Sequence[float], decode: float, lengths: LengthMoments) -> float:
    """The search of `_decoding_at_saturation` for a single design, in plain numbers: a tenth of the time."""
    first, span, low, high, near, far, few, more, whole = ends
    prompt, square, rise, gain = lengths.prompt, lengths.prompt2, far - near, more - few
    for _ in range(SEARCH_STEPS):
        batch = (low + high) / 2.0
        share = (batch - first) / span
        budget = near + share * rise
        tokens = batch / decode * prompt
        ahead = batch / decode * square / (2.0 * max(budget - tokens, 1e-3 * budget))
        if batch * (decode + (few + share * gain) + ahead / budget * min(tokens / budget, 1.0)) < whole:
            low = batch
        else:
            high = batch
    return max(low, 1e-3)
