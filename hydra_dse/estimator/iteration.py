"""The batches of typical iterations, and tables of their times.

A decode iteration of `b` sequences reads `b` mean contexts.  An iteration packed to the token budget `C` cuts one
prompt at each end: it holds `C/E[p] + 1` pieces, `C·E[p²]/2E[p]` causal pairs, and its pieces end at positions
that sum to `C + E[p²]/2E[p]` (renewal theory: the cut prompt is size-biased, the cut uniform in it).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.whole import packed_whole
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import PoolModel

FloatArray = NDArray[np.float64]


def decode_batch(sequences: FloatArray, lengths: LengthMoments) -> Batch:
    """An iteration in which `sequences` decode and nothing else runs."""
    return packed_batch(np.zeros_like(sequences), sequences, lengths)


def packed_batch(tokens: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> Batch:
    """An iteration with a full share of `tokens` prompt tokens beside `sequences` decoding sequences."""
    prompts = tokens / lengths.prompt
    some = np.minimum(tokens, 1.0)
    return Batch(
        prefill_tokens=tokens,
        prefill_sequences=np.minimum(prompts + some, np.maximum(tokens, some)),
        prefill_pairs=tokens * (lengths.residual_prompt + lengths.ahead_of_token),
        prefill_context_tokens=tokens + some * lengths.residual_prompt + (prompts + some) * lengths.ahead,
        decode_sequences=sequences,
        decode_context_tokens=sequences * lengths.context,
        emitted_tokens=sequences + prompts,
    )


def chunk_batch(
    chunk: FloatArray, prior: FloatArray, ends: FloatArray, sequences: FloatArray, lengths: LengthMoments
) -> Batch:
    """One prompt's chunk after `prior` tokens of it; `ends` is 1 where the prompt ends here."""
    return Batch(
        prefill_tokens=chunk,
        prefill_sequences=np.minimum(chunk, 1.0),
        prefill_pairs=chunk * (prior + chunk / 2.0),
        prefill_context_tokens=prior + chunk,
        decode_sequences=sequences,
        decode_context_tokens=sequences * lengths.context,
        emitted_tokens=sequences + ends,
    )


@dataclass(frozen=True)
class PrefillTimes:
    """Times of prompts beside `b` decoding sequences, at the pool's own speed.  Shapes (n, j[, bins]).

    Attributes:
        alone_s: a prompt of each size bin that has the budget to itself.
        iterations: iterations it takes.
        last_s: the iteration in which it ends.
        full_s: an iteration packed to the budget.
        shared_s: cost of an iteration that two prompts share instead of running one each.
        budget: prompt tokens of a full iteration.
    """

    alone_s: FloatArray
    iterations: FloatArray
    last_s: FloatArray
    full_s: FloatArray
    shared_s: FloatArray
    budget: FloatArray

    @property
    def token_s(self) -> FloatArray:
        """Time of a prompt token in a full iteration."""
        return self.full_s / self.budget

    def repeated(self, count: int) -> PrefillTimes:
        """The one column of each design, for as many batches beside which prompts are timed."""
        return PrefillTimes(
            *(np.repeat(x, count, axis=1) for x in (self.alone_s, self.iterations, self.last_s)),
            *(np.repeat(x, count, axis=1) for x in (self.full_s, self.shared_s, self.budget)),
        )

    def columns(self, index: NDArray[np.int64]) -> PrefillTimes:
        """One column j per design, kept as an axis of length 1."""
        pick, wide = index[:, None], index[:, None, None]
        return PrefillTimes(
            *(np.take_along_axis(x, wide, axis=1) for x in (self.alone_s, self.iterations, self.last_s)),
            *(np.take_along_axis(x, pick, axis=1) for x in (self.full_s, self.shared_s, self.budget)),
        )


def prefill_times(pool: PoolModel, budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> PrefillTimes:
    """Ask the pool for the times of prompts beside `sequences` decoders.

    Args:
        pool: model of the pool.
        budget: prompt tokens an iteration may take, shape (n, j).
        sequences: decoding sequences in the same iterations, shape (n, j).
        lengths: of the requests.
    """
    n, j = budget.shape
    sizes = lengths.prompt_bins.size
    wide_budget, wide_b = budget[:, :, None], np.broadcast_to(sequences[:, :, None], (n, j, len(sizes)))
    iterations = np.ceil(sizes / wide_budget - 1e-9)
    rest = sizes - (iterations - 1.0) * wide_budget
    chunk, prior, ends, beside = _flat(rest, sizes - rest + lengths.ahead_bins, np.ones_like(rest), wide_b)
    last_s = _ask(pool, chunk_batch(chunk, prior, ends, beside, lengths), rest.shape)
    near, far = _full_chunk(pool, budget, sequences, lengths)
    prior = np.maximum(iterations - 2.0, 0.0) / 2.0 * wide_budget + lengths.ahead_bins
    slope = (far - near) / np.maximum(sizes[-1] - budget, 1.0)
    full_chunk = near[:, :, None] + slope[:, :, None] * prior
    full_s = _ask(pool, packed_batch(budget, sequences, lengths), (n, j))
    return PrefillTimes(
        alone_s=(iterations - 1.0) * full_chunk + last_s,
        iterations=iterations,
        last_s=last_s,
        full_s=full_s,
        shared_s=_shared(pool, budget, sequences, lengths),
        budget=budget,
    )


def whole_prompt_times(pool: PoolModel, budget: FloatArray, lengths: LengthMoments) -> PrefillTimes:
    """Times of prompts that are never cut, in iterations of their own, as columns of shape (n, 1[, bins]).

    Args:
        pool: model of the pool.
        budget: prompt tokens up to which prompts share an iteration, shape (n,).
        lengths: of the requests.
    """
    n, sizes = len(budget), lengths.prompt_bins.size
    chunk = np.broadcast_to(sizes, (n, len(sizes)))
    zero, one = np.zeros_like(chunk), np.ones_like(chunk)
    alone_s = _ask(pool, chunk_batch(chunk, zero + lengths.ahead_bins, one, zero, lengths), chunk.shape)[:, None, :]
    found = packed_whole(budget, lengths)
    none = np.zeros_like(found.tokens)
    full = Batch(
        prefill_tokens=found.tokens,
        prefill_sequences=found.prompts,
        prefill_pairs=found.pairs + found.tokens * lengths.ahead_of_token,
        prefill_context_tokens=found.tokens + found.prompts * lengths.ahead,
        decode_sequences=none,
        decode_context_tokens=none,
        emitted_tokens=found.prompts,
    )
    column = np.maximum(budget, 2.0 * lengths.prompt)[:, None]
    return PrefillTimes(
        alone_s=alone_s,
        iterations=np.ones_like(alone_s),
        last_s=alone_s,
        full_s=_ask(pool, full, none.shape).mean(axis=1, keepdims=True),
        shared_s=_shared(pool, column, np.zeros_like(column), lengths),
        budget=found.tokens.mean(axis=1, keepdims=True),
    )


def _flat(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(x).reshape(len(x), -1) for x in arrays)


def _ask(pool: PoolModel, batch: Batch, shape: tuple[int, ...]) -> FloatArray:
    return np.asarray(pool.time_s(batch), dtype=float).reshape(shape)


def _full_chunk(
    pool: PoolModel, budget: FloatArray, sequences: FloatArray, lengths: LengthMoments
) -> tuple[FloatArray, FloatArray]:
    """Time of a budget-long chunk of one prompt: its first, and the last full one of the longest prompt."""
    n, j = budget.shape
    longest = np.maximum(lengths.prompt_bins.size[-1] - budget, 0.0)
    if not longest.any():
        once = np.zeros((n, j))
        return once, once
    chunk, b = np.hstack((budget, budget)), np.hstack((sequences, sequences))
    prior = np.hstack((np.zeros((n, j)), longest))
    both = _ask(pool, chunk_batch(chunk, prior, np.zeros_like(chunk), b, lengths), (n, 2 * j))
    return both[:, :j], both[:, j:]


def _shared(pool: PoolModel, budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> FloatArray:
    """What an iteration costs beyond its tokens: twice one short prompt minus two of it in one iteration."""
    n, j = budget.shape
    one = np.minimum(lengths.prompt, budget / 2.0)
    size, count = np.hstack((one, 2.0 * one)), np.repeat([1.0, 2.0], j)
    b = np.hstack((sequences, sequences))
    batch = Batch(
        prefill_tokens=size,
        prefill_sequences=np.minimum(size, count),
        prefill_pairs=size * np.hstack((one, one)) / 2.0,
        prefill_context_tokens=size,
        decode_sequences=b,
        decode_context_tokens=b * lengths.context,
        emitted_tokens=b + count,
    )
    both = _ask(pool, batch, (n, 2 * j))
    return np.clip(2.0 * both[:, :j] - both[:, j:], 0.0, both[:, :j])
