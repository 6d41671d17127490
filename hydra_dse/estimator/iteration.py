"""The batches of typical iterations, and tables of their times.

A decode iteration of `b` sequences reads `b` mean contexts.  An iteration packed to the token budget `C` cuts one
prompt at each end: it holds `C/E[p] + 1` pieces, `C·E[p²]/2E[p]` causal pairs, and its pieces end at positions
that sum to `C + E[p²]/2E[p]` (renewal theory: the cut prompt is size-biased, the cut uniform in it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.whole import packed_whole
from hydra_dse.model.operators import Batch
from hydra_dse.profile.batches import joined
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
        emitted_tokens=sequences * lengths.positions + prompts,
        tokens_per_sequence=lengths.positions,
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
        emitted_tokens=sequences * lengths.positions + ends,
        tokens_per_sequence=lengths.positions,
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

    def prompts_per_s(self, lengths: LengthMoments) -> FloatArray:
        """Prompts that full iterations complete, beside the first of the batches, shape (n,)."""
        return np.asarray(1.0 / (lengths.prompt * self.token_s[:, 0]))

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
    asked = _prefill_batches(budget, sequences, lengths)
    return _prefill_times(times_of(pool, asked), budget, lengths)


def prefill_times_and(
    pool: PoolModel, others: Sequence[Batch], budget: FloatArray, sequences: FloatArray, lengths: LengthMoments
) -> tuple[PrefillTimes, list[FloatArray]]:
    """Ask at once for `prefill_times` and for the times of other batches, each of shape (n, its columns)."""
    found = times_of(pool, [*others, *_prefill_batches(budget, sequences, lengths)])
    return _prefill_times(found[len(others) :], budget, lengths), found[: len(others)]


def _prefill_batches(budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> list[Batch]:
    """Last chunks of each size, full chunks early and late, packed iterations, and one prompt against two."""
    n, j = budget.shape
    sizes = lengths.prompt_bins.size
    wide_budget, wide_b = budget[:, :, None], np.broadcast_to(sequences[:, :, None], (n, j, len(sizes)))
    rest = sizes - (_iterations(budget, sizes) - 1.0) * wide_budget
    chunk, prior, ends, beside = _flat(rest, sizes - rest + lengths.ahead_bins, np.ones_like(rest), wide_b)
    batches = [
        chunk_batch(chunk, prior, ends, beside, lengths),
        packed_batch(budget, sequences, lengths),
        _shared_batch(budget, sequences, lengths),
    ]
    return batches if (budget >= sizes[-1]).all() else [*batches, _full_chunks(budget, sequences, lengths)]


def _prefill_times(found: Sequence[FloatArray], budget: FloatArray, lengths: LengthMoments) -> PrefillTimes:
    """What the times of `_prefill_batches` say."""
    j, sizes = budget.shape[1], lengths.prompt_bins.size
    iterations, wide_budget = _iterations(budget, sizes), budget[:, :, None]
    last_s = found[0].reshape(iterations.shape)
    alone_s = last_s
    if len(found) > 3:
        near, far = found[3][:, :j], found[3][:, j:]
        prior = np.maximum(iterations - 2.0, 0.0) / 2.0 * wide_budget + lengths.ahead_bins
        slope = (far - near) / np.maximum(sizes[-1] - budget, 1.0)
        alone_s = (iterations - 1.0) * (near[:, :, None] + slope[:, :, None] * prior) + last_s
    return PrefillTimes(
        alone_s=alone_s,
        iterations=iterations,
        last_s=last_s,
        full_s=found[1],
        shared_s=_shared(found[2]),
        budget=budget,
    )


def _iterations(budget: FloatArray, sizes: FloatArray) -> FloatArray:
    """Iterations of a prompt of each size, shape (n, j, bins)."""
    return np.asarray(np.ceil(sizes / budget[:, :, None] - 1e-9))


def times_of(pool: PoolModel, batches: Sequence[Batch]) -> list[FloatArray]:
    """Times of several batches, each of shape (n, its columns), in one question."""
    widths = [np.shape(batch.tokens)[1] for batch in batches]
    times = np.asarray(pool.time_s(joined(batches)), dtype=float)
    ends = list(accumulate(widths))
    return [times[:, end - width : end] for end, width in zip(ends, widths, strict=True)]


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
    pair = _shared_batch(column, np.zeros_like(column), lengths)
    alone, packed, shared = times_of(
        pool, [chunk_batch(chunk, zero + lengths.ahead_bins, one, zero, lengths), full, pair]
    )
    alone_s = alone[:, None, :]
    return PrefillTimes(
        alone_s=alone_s,
        iterations=np.ones_like(alone_s),
        last_s=alone_s,
        full_s=packed.mean(axis=1, keepdims=True),
        shared_s=_shared(shared),
        budget=found.tokens.mean(axis=1, keepdims=True),
    )


def _flat(*arrays: FloatArray) -> tuple[FloatArray, ...]:
    return tuple(np.asarray(x).reshape(len(x), -1) for x in arrays)


def _full_chunks(budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> Batch:
    """A budget-long chunk of one prompt: its first, then the last full one of the longest prompt, shape (n, 2j)."""
    longest = np.maximum(lengths.prompt_bins.size[-1] - budget, 0.0)
    chunk, b = side_by_side(budget, budget), side_by_side(sequences, sequences)
    prior = side_by_side(np.zeros_like(budget), longest)
    return chunk_batch(chunk, prior, np.zeros_like(chunk), b, lengths)


def _shared_batch(budget: FloatArray, sequences: FloatArray, lengths: LengthMoments) -> Batch:
    """One short prompt, then two of it in one iteration, shape (n, 2j)."""
    one = np.minimum(lengths.prompt, budget / 2.0)
    size, count = side_by_side(one, 2.0 * one), np.repeat([1.0, 2.0], budget.shape[1])
    b = side_by_side(sequences, sequences)
    return Batch(
        prefill_tokens=size,
        prefill_sequences=np.minimum(size, count),
        prefill_pairs=size * side_by_side(one, one) / 2.0,
        prefill_context_tokens=size,
        decode_sequences=b,
        decode_context_tokens=b * lengths.context,
        emitted_tokens=b * lengths.positions + count,
        tokens_per_sequence=lengths.positions,
    )


def _shared(times: FloatArray) -> FloatArray:
    """What an iteration costs beyond its tokens: twice one short prompt minus two of it in one iteration."""
    half = times.shape[1] // 2
    one, two = times[:, :half], times[:, half:]
    return bounded(2.0 * one - two, 0.0, one)
