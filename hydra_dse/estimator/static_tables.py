"""How long closed batches take: their prompts, then decode steps of fewer and fewer members.

Of `n` members whose longest has `M` decode steps, `1 + (n − 1)·P(d ≥ j | d ≤ M)` are active in step `j`;
`P(M ≤ x) = F(x)^n`.  The sum of the prompts is taken as gamma, by its mean and variance.  Step `j` attends to
`E[p] + j` tokens a member.  Times are asked at 16 batch sizes and at the ends of the slices of `d`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.bulk import BatchTimes
from hydra_dse.estimator.gamma import gamma_slices
from hydra_dse.estimator.iteration import packed_batch, prefill_times
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.nodes import BatchNodes, nodes_of
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import PoolModel, ServiceProfile

FloatArray = NDArray[np.float64]

SUM_EDGES = (0.0, 0.25, 0.6, 0.85, 0.96, 1.0)
SUM_WEIGHTS = np.diff(SUM_EDGES)


@dataclass(frozen=True)
class Steps:
    """Decode iterations of requests as points: `steps` ascending, `chance` of each, both shape (m,)."""

    steps: FloatArray
    chance: FloatArray

    @property
    def width(self) -> FloatArray:
        """Steps from one point to the next."""
        return np.diff(self.steps, prepend=0.0)

    @property
    def middle(self) -> FloatArray:
        """Middle of those steps."""
        return self.steps - self.width / 2.0

    @property
    def below(self) -> FloatArray:
        """`P(d ≤ steps)`."""
        return np.cumsum(self.chance)

    def longest(self, size: FloatArray) -> FloatArray:
        """Chance of each point to be the longest of `size` requests, (…) → (…, m)."""
        upto = np.minimum(self.below, 1.0) ** np.asarray(size)[..., None]
        return np.asarray(np.diff(upto, axis=-1, prepend=0.0), dtype=np.float64)


def steps_of(lengths: LengthMoments) -> Steps:
    """The slices of the decode iterations, and the requests that have none."""
    bins = lengths.fine_bins
    steps = np.concatenate(([0.0], bins.size))
    chance = np.concatenate(([1.0 - lengths.decoding_share], bins.weight * lengths.decoding_share))
    return Steps(steps, chance / chance.sum())


@dataclass(frozen=True)
class StaticTables:
    """Times of closed batches of n designs.

    Attributes:
        nodes: batch sizes that times are asked at, (n, k).
        steps: of the requests.
        prompts_s: of a batch by the slices of the sum of its prompts, (n, k, 5); zero where they run elsewhere.
        full_s: an iteration of prompts packed to the budget, (n,); budget: its tokens, (n,).
        own_s: steps of one member up to each point of `steps`, beside others, (n, k, m).
        whole_s: steps of a batch whose longest member has each point of `steps`, (n, k, m).
        limit: members at most, (n,).
    """

    nodes: BatchNodes
    steps: Steps
    prompts_s: FloatArray
    full_s: FloatArray
    budget: FloatArray
    own_s: FloatArray
    whole_s: FloatArray
    limit: FloatArray

    @property
    def prompt_s(self) -> FloatArray:
        """Mean time of the prompts of a batch, (n, k)."""
        return np.asarray(self.prompts_s @ SUM_WEIGHTS)

    def times(self, row: int) -> BatchTimes:
        """Times of the batches of one design."""
        size, first = np.unique(self.nodes.batch[row], return_index=True)
        seconds = self.prompts_s[row, first, :, None] + self.whole_s[row, first][:, None, :]
        weight = SUM_WEIGHTS[:, None] * self.steps.longest(size)[:, None, :]
        k = len(size)
        return BatchTimes(size, np.maximum(seconds.reshape(k, -1), 1e-12), weight.reshape(k, -1))


def static_tables(profile: ServiceProfile, lengths: LengthMoments) -> StaticTables:
    """Evaluate a profile: one pool for both phases, or the decode pool."""
    limit = limit_of(profile, lengths)
    nodes = nodes_of(np.ceil(limit - 1e-9))
    steps = steps_of(lengths)
    colocated = "serve" in profile.pools
    decode = profile.pools["serve" if colocated else "decode"]
    prefill = profile.pools["serve" if colocated else "prefill"]
    budget = profile.token_budget
    none = np.zeros_like(budget)[:, None]
    full_s = np.asarray(prefill.time_s(packed_batch(budget[:, None], none, lengths)), dtype=float)[:, 0]
    prompts_s = np.zeros((*nodes.batch.shape, len(SUM_WEIGHTS)))
    if colocated:
        prompts_s = _prompts(prefill, budget, full_s, nodes, lengths)
    # At full activity the largest batch: times at all nodes, for the contexts of each slice.
    at = _step_times(decode, nodes, steps, lengths)
    own = 1.0 + (nodes.batch[:, :, None] - 1.0) * still_active(steps)
    own_s = np.cumsum(_interpolated(nodes, at, own) * steps.width, axis=2)
    return StaticTables(
        nodes, steps, prompts_s, full_s, budget, own_s, _whole(nodes, at, steps), np.maximum(limit, 1.0)
    )


def limit_of(profile: ServiceProfile, lengths: LengthMoments) -> FloatArray:
    """Members of a batch: the limit, or those whose caches fit when they hold most, freed ones not counted."""
    steps = steps_of(lengths)
    active = still_active(steps)
    rounding = (profile.block_tokens - 1.0) / 2.0
    tokens = lengths.prompt + np.concatenate(([0.0], steps.steps[:-1]))[None, :] + rounding[:, None]
    held = active * (profile.state_bytes_per_sequence[:, None] + profile.kv_bytes_per_token[:, None] * tokens)
    fits = profile.cache_bytes / np.maximum(held.max(axis=1), 1e-9)
    return np.asarray(np.clip(np.floor(np.minimum(profile.max_batch, fits)), 1.0, profile.max_batch))


def still_active(steps: Steps) -> FloatArray:
    """`P(d ≥ point)`, the chance that another member is active in the steps up to each point, shape (m,)."""
    return np.clip(1.0 - steps.below + steps.chance, 0.0, 1.0)


def _prompts(
    pool: PoolModel, budget: FloatArray, full_s: FloatArray, nodes: BatchNodes, lengths: LengthMoments
) -> FloatArray:
    """Time of the prompts of a batch in each slice of their sum, (n, k, 5): whole iterations and a rest."""
    n, k = nodes.batch.shape
    scv = max(lengths.prompt2 / lengths.prompt**2 - 1.0, 1e-6)
    total = gamma_slices(nodes.batch * lengths.prompt, np.minimum(nodes.batch / scv, 1e6), SUM_EDGES)
    whole = np.floor(total / budget[:, None, None] + 1e-9)
    rest = (total - whole * budget[:, None, None]).reshape(n, -1)
    rest_s = np.asarray(pool.time_s(packed_batch(rest, np.zeros_like(rest), lengths)), dtype=float) * (rest > 0.5)
    found = whole * full_s[:, None, None] + rest_s.reshape(n, k, -1)
    # One alone: the mean is known by size, its spread as above.
    alone = prefill_times(pool, budget[:, None], np.zeros((n, 1)), lengths).alone_s[:, 0] @ lengths.prompt_bins.weight
    scale = alone[:, None] / np.maximum(found @ SUM_WEIGHTS, 1e-300)
    return np.asarray(np.where(nodes.batch[:, :, None] <= 1.0, found * scale[:, :, None], found), dtype=np.float64)


def _step_times(pool: PoolModel, nodes: BatchNodes, steps: Steps, lengths: LengthMoments) -> FloatArray:
    """A decode iteration of each batch in each slice of steps, (n, k, m)."""
    n, k = nodes.batch.shape
    m = len(steps.steps)
    size = np.repeat(nodes.batch, m, axis=1)
    context = np.tile(lengths.prompt + np.maximum(steps.middle, 0.5), k)[None, :]
    batch = Batch(decode_sequences=size, decode_context_tokens=size * context, emitted_tokens=size)
    return np.asarray(pool.time_s(batch), dtype=float).reshape(n, k, m)


def _interpolated(nodes: BatchNodes, at: FloatArray, active: FloatArray) -> FloatArray:
    """Times in each slice at other batches: (n, k, m) at nodes and active ones of shape (n, j, m) → (n, j, m)."""
    found = [nodes.at(np.ascontiguousarray(at[:, :, i]), active[:, :, i]) for i in range(at.shape[2])]
    return np.stack(found, axis=2)


def _whole(nodes: BatchNodes, at: FloatArray, steps: Steps) -> FloatArray:
    """Steps of a whole batch by its longest member, (n, k, m)."""
    below, still = steps.below, still_active(steps)
    found = np.zeros_like(at)
    for last in range(len(steps.steps)):
        # Of those that are no longer than the longest, the share still active in each slice.
        share = np.clip((below[last] - (1.0 - still)) / max(below[last], 1e-300), 0.0, 1.0)
        active = 1.0 + (nodes.batch[:, :, None] - 1.0) * share[: last + 1]
        part = _interpolated(nodes, at[:, :, : last + 1], active)
        found[:, :, last] = part @ steps.width[: last + 1]
    return found
