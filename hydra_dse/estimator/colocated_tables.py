"""What the colocated solver asks of a profile: times of iterations and prompts, and limits, at grids of batches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.clumps import delay_table, shared_batch
from hydra_dse.estimator.iteration import (
    PrefillTimes,
    decode_batch,
    prefill_times_and,
    whole_prompt_times,
)
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.memory import Memory, memory_of
from hydra_dse.estimator.nodes import BatchNodes, Grid, gather, nodes_of
from hydra_dse.estimator.stairs import with_stairs
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

# Batches beside which prompts are timed, as shares of the largest decode batch.
BESIDE = np.array([0.0, 0.12, 0.3, 0.6, 1.0])


@dataclass(frozen=True)
class Tables:
    """All that is asked of the profile, once.

    Attributes:
        step_s: decode-only iteration at each node, shape (n, k).
        beside: decode batches beside which prompts are timed, shape (n, j); prompts: their times there.
        memory: of sequences; limit: sequences in service at most; top: decoding sequences that leave prompts
            enough of the budget to keep up with them.
        prefill_first: whether decoders stall while prompts run.
        delay_s: delay of decoders by prompts that share an iteration (`clumps`), shape (n, j, steps); None where
            decoders stall.
    """

    nodes: BatchNodes
    step_s: FloatArray
    beside: FloatArray
    prompts: PrefillTimes
    memory: Memory
    limit: FloatArray
    top: FloatArray
    prefill_first: bool
    delay_s: FloatArray | None

    def beside_of(self, batch: FloatArray) -> Between:
        """Where batches of shape (n, m) lie among the j batches."""
        left = np.zeros(batch.shape, dtype=np.int64)
        for point in range(1, self.beside.shape[1] - 1):
            left += batch >= self.beside[:, point, None]
        low, high = gather(self.beside, left), gather(self.beside, left + 1)
        share = (batch - low) / np.maximum(high - low, 1e-12)
        return Between(left, np.minimum(np.maximum(share, 0.0), 1.0))

    @cached_property
    def step_beside(self) -> FloatArray:
        """Decode-only iteration at the j batches; 0 for the empty one."""
        return self.nodes.time_at(self.step_s, np.maximum(self.beside, 1.0)) * (self.beside > 0)


class Between(Grid):
    """Places among the j batches."""

    def of_tables(self, values: FloatArray) -> FloatArray:
        """Interpolate rows of values, (n, j, k) → (n, m, k)."""
        if len(values) == 1:
            return np.asarray(self.weights(values.shape[1]) @ values)
        rows = np.arange(len(values))[:, None]
        low = values[rows, self.left]
        return np.asarray(low + self.share[:, :, None] * (values[rows, self.left + 1] - low))

    def project(self, weight: FloatArray, points: int) -> FloatArray:
        """Give the weights of the positions to the grid points, (n, m) → (n, points)."""
        if len(weight) == 1:
            return np.asarray(weight @ self.weights(points))
        n = len(weight)
        rows = np.arange(n)[:, None] * points
        left = np.bincount((rows + self.left).ravel(), (weight * (1.0 - self.share)).ravel(), n * points)
        right = np.bincount((rows + self.left + 1).ravel(), (weight * self.share).ravel(), n * points)
        return np.asarray((left + right).reshape(n, points))


def tables_of(profile: ServiceProfile, lengths: LengthMoments) -> Tables:
    """Evaluate a profile at the batches the chain needs."""
    first = profile.batching == "prefill_first"
    pool = profile.pools["serve"]
    memory, limit, top = limits_of(profile, lengths)
    nodes = nodes_of(profile.max_batch)
    rows = lengths.positions
    beside = BESIDE * np.minimum(profile.max_batch, np.maximum(profile.token_budget - 1.0, 1.0) / rows)[:, None]
    decode = decode_batch(nodes.batch, lengths)
    shared_s = None
    if first:
        step_s = np.asarray(pool.time_s(decode), dtype=float)
        prompts = whole_prompt_times(pool, profile.token_budget, lengths).repeated(beside.shape[1])
    else:
        budget = np.maximum(profile.token_budget[:, None] - rows * beside, 1.0)
        others = [decode, shared_batch(budget, beside, lengths)]
        prompts, (step_s, shared_s) = prefill_times_and(pool, others, budget, beside, lengths)
    nodes = with_stairs(nodes, profile, "serve", step_s, lengths)
    delay_s = None
    if shared_s is not None:
        delay_s = delay_table(shared_s, nodes.time_at(step_s, np.maximum(beside, 1.0)))
    return Tables(
        nodes=nodes,
        step_s=step_s,
        beside=beside,
        prompts=prompts,
        memory=memory,
        limit=limit,
        top=top,
        prefill_first=first,
        delay_s=delay_s,
    )


def limits_of(profile: ServiceProfile, lengths: LengthMoments) -> tuple[Memory, FloatArray, FloatArray]:
    """Memory, sequences in service at most, and decoding ones that leave prompts enough of the budget."""
    first = profile.batching == "prefill_first"
    decode = max(lengths.decoding_share * lengths.decode, 1e-9)
    # Chunked: b decoders finish b/E[d] requests an iteration, whose successors need E[p] tokens each.
    keeps_up = profile.token_budget * (1.0 if first else decode / (lengths.prompt + lengths.positions * decode))
    top = np.maximum(np.minimum(profile.max_batch, keeps_up), 1.0)
    memory = memory_of(profile, lengths, np.ones(profile.size))
    return memory, memory.limited(profile.max_batch), np.minimum(top, memory.limited(top))
