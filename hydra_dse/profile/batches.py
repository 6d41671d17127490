"""Batches of many designs: fields of shape (designs, k), broadcastable to it, or plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hydra_dse.model.operators import Batch, Number

FloatArray = NDArray[np.float64]


def amounts_of(batch: Batch) -> tuple[Number, ...]:
    """The fields that may be arrays."""
    return (
        batch.prefill_tokens,
        batch.prefill_sequences,
        batch.prefill_pairs,
        batch.prefill_context_tokens,
        batch.decode_sequences,
        batch.decode_context_tokens,
        batch.emitted_tokens,
    )


def width_of(batch: Batch) -> int:
    """Number of batches per design, `k`."""
    return max(value.shape[-1] if isinstance(value, np.ndarray) and value.ndim else 1 for value in amounts_of(batch))


def joined(batches: Sequence[Batch]) -> Batch:
    """The columns of several batches of shape (designs, k) side by side."""
    shapes = [np.shape(batch.tokens) for batch in batches]

    def columns(*parts: Number) -> FloatArray:
        pairs = zip(parts, shapes, strict=True)
        whole = [value if np.shape(value) == shape else np.broadcast_to(value, shape) for value, shape in pairs]
        return np.concatenate(whole, axis=1)

    return Batch(
        prefill_tokens=columns(*(batch.prefill_tokens for batch in batches)),
        prefill_sequences=columns(*(batch.prefill_sequences for batch in batches)),
        prefill_pairs=columns(*(batch.prefill_pairs for batch in batches)),
        prefill_context_tokens=columns(*(batch.prefill_context_tokens for batch in batches)),
        decode_sequences=columns(*(batch.decode_sequences for batch in batches)),
        decode_context_tokens=columns(*(batch.decode_context_tokens for batch in batches)),
        emitted_tokens=columns(*(batch.emitted_tokens for batch in batches)),
        tokens_per_sequence=batches[0].tokens_per_sequence,
    )
