"""What the disaggregated solver asks of a profile: capacities, times of both pools, speeds while both run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import PoolState
from hydra_dse.estimator.iteration import PrefillTimes, chunk_batch, decode_batch, packed_batch, prefill_times
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.memory import Memory, memory_of
from hydra_dse.estimator.nodes import BatchNodes, nodes_of
from hydra_dse.estimator.saturation import tandem_saturation
from hydra_dse.estimator.stairs import with_stairs
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import Prepares, ServiceProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Capacity:
    """How many sequences the pools hold, each of shape (n,).

    Attributes:
        limit: decoding sequences at most, by the batch limit and by memory.
        places: finished prompts that may wait for decode before prefill pauses.
        tooth: how many more wait on average while prompts are held back.
        burst: prompts that one prefill iteration can bring.
    """

    memory: Memory
    limit: FloatArray
    places: FloatArray
    tooth: FloatArray
    per_iteration: FloatArray

    def held_back_beyond(self, decode: PoolState) -> FloatArray:
        """Waiting places at a load: the saw-tooth needs a backlog to draw an iteration's prompts from."""
        return np.asarray(self.places + self.tooth * decode.queue_ratio**self.per_iteration)

    def held_back(self, decode: PoolState) -> FloatArray:
        """Mean number of prompts that a full decode pool keeps from starting, shape (n,).

        Of `q` that wait in all for decode, `places` are finished when prefill starts again and takes as many others
        as one iteration holds, `k`; until then they have come one by one.  So on average half of those between
        `places` and `places + k − 1` have not started, and all beyond.  With a backlog of more than an iteration its
        prompts are those that fit, not `k`, which is the rest of the tooth.
        """
        width = np.minimum(self.per_iteration - 1.0, 2.0 * self.tooth)
        first = self.places + (self.tooth - width / 2.0) * decode.queue_ratio**self.per_iteration
        return np.asarray((decode.beyond(first) + decode.beyond(first + width)) / 2.0)


def capacity_of(profile: ServiceProfile, lengths: LengthMoments, in_progress: FloatArray) -> Capacity:
    """Capacities beside `in_progress` prompts that hold memory.

    Prefill pauses at `max_batch` waiting prompts, but an iteration that starts below ends with `k` prompts more:
    with a backlog the waiting ones run through a saw-tooth of mean `max_batch − ½ + E[k²]/2E[k]`.
    """
    memory = memory_of(profile, lengths, in_progress)
    limit = memory.limited(profile.max_batch)
    per_iteration = np.maximum(profile.token_budget / lengths.prompt, 1.0)
    scv = lengths.prompt2 / lengths.prompt**2 - 1.0
    tooth = np.where(per_iteration > 1.0, (per_iteration + scv - 1.0) / 2.0, 0.0)
    tooth = np.minimum(np.maximum(tooth, 0.0), per_iteration - 0.5)
    room = np.maximum(memory.runnable - limit, 0.0) * memory.decoding / np.maximum(memory.waiting, 1e-9)
    places = np.minimum(profile.max_batch, room)
    return Capacity(memory, limit, places, np.minimum(tooth, room - places), per_iteration)


@dataclass(frozen=True)
class Contention:
    """Speeds while both pools run.  Beside each decode batch, shape (n, k), unless stated.

    Attributes:
        prefill_single, prefill_packed: of prefill, for an iteration with one prompt and one with a full budget.
        decode_single, decode_packed: of decode beside them.
        by_size: slowdown of a prompt of each size bin beside a middling decode batch, shape (n, bins), relative to
            that of the single prompt.
    """

    prefill_single: FloatArray
    prefill_packed: FloatArray
    decode_single: FloatArray
    decode_packed: FloatArray
    by_size: FloatArray


@dataclass(frozen=True)
class Tables:
    """All that is asked of the profile, once.

    Attributes:
        step_s: decode iteration at each node, alone, shape (n, k).
        prompts: times of prompts, alone.
        decode: the decode iteration at each node.
        single, packed: prefill iterations with the prompt of a random prompt token, and with a full budget.
        work_scv: squared coefficient of variation of what a sequence takes of decode: iterations, or memory × time.
    """

    nodes: BatchNodes
    step_s: FloatArray
    prompts: PrefillTimes
    decode: Batch
    single: Batch
    packed: Batch
    contention: Contention
    capacity: Capacity
    work_scv: FloatArray

    @property
    def limit(self) -> FloatArray:
        """Decoding sequences at most."""
        return self.capacity.limit


def tables_of(profile: ServiceProfile, lengths: LengthMoments) -> Tables:
    """Evaluate a profile at the batches the chain needs."""
    capacity = capacity_of(profile, lengths, np.zeros(profile.size))
    # A grid up to what memory holds: designs that memory limits alike are then estimated alike, whatever their limit.
    nodes = nodes_of(np.ceil(capacity.limit - 1e-9))
    budget = profile.token_budget[:, None]
    none = np.zeros_like(budget)
    # The prompt in which prefill spends its time is size-biased.
    size = np.minimum(budget, 2.0 * lengths.residual_prompt)
    single, packed = (
        chunk_batch(size, none + lengths.ahead_of_token, none + 1.0, none, lengths),
        packed_batch(budget, none, lengths),
    )
    decode = decode_batch(nodes.batch, lengths)
    prompts = prefill_times(profile.pools["prefill"], budget, none, lengths)
    # Contention first: a pool remembers the times of a batch that was asked for everything.
    contention = contention_of(profile, prompts, single, packed, decode, nodes, lengths)
    binds = capacity.memory.binds(profile.max_batch)
    step_s = np.asarray(profile.pools["decode"].time_s(decode), dtype=float)
    return Tables(
        nodes=with_stairs(nodes, profile, "decode", step_s, lengths),
        step_s=step_s,
        prompts=prompts,
        decode=decode,
        single=single,
        packed=packed,
        contention=contention,
        capacity=capacity,
        work_scv=np.asarray((1.0 - binds) * lengths.decode_scv + binds * lengths.work_scv),
    )


def contention_of(
    profile: ServiceProfile,
    prompts: PrefillTimes,
    single: Batch,
    packed: Batch,
    decode: Batch,
    nodes: BatchNodes,
    lengths: LengthMoments,
) -> Contention:
    """Ask for speeds beside each decode batch, and by size of the prompt beside a middling one.

    Args:
        profile: of the designs.
        prompts: times of the prompts alone.
        single: iterations with one prompt.
        packed: full ones.
        decode: iterations at the nodes, shape (n, k).
        nodes: decode batches.
        lengths: of the requests.
    """
    bins = lengths.prompt_bins
    if profile.contention is None:
        alone = np.ones_like(nodes.batch)
        return Contention(alone, alone, alone, alone, np.ones((profile.size, len(bins.size))))
    middle = nodes.count // 2
    sizes = np.minimum(bins.size, profile.token_budget[:, None])
    none = np.zeros_like(sizes)
    chunks = chunk_batch(sizes, none + lengths.ahead_bins, none + 1.0, none, lengths)
    beside = decode_batch(nodes.batch[:, middle, None], lengths)
    if isinstance(profile.contention, Prepares):
        profile.contention.prepare((single, packed, chunks), (decode, beside))
    speeds = [*profile.contention.speeds(single, decode), *profile.contention.speeds(packed, decode)]
    speeds = [np.broadcast_to(np.asarray(speed, dtype=float), nodes.batch.shape) for speed in speeds]
    found = profile.contention.speeds(chunks, beside)
    slow, kept = 1.0 / np.asarray(found[0], dtype=float), np.asarray(found[1], dtype=float)
    # Decode meets prompts in proportion to the time they run.
    met = prompts.alone_s[:, 0, :] * slow * bins.weight
    mean = ((met * kept).sum(axis=1) / met.sum(axis=1))[:, None]
    decode_single = bounded(speeds[1] * mean / speeds[1][:, middle, None], 1e-6, 1.0)
    return Contention(speeds[0], speeds[2], decode_single, speeds[3], slow * speeds[0][:, middle, None])


def saturation_of(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Saturation rate in requests per second, shape (n,)."""
    prompts = 1.0 / (lengths.prompt * tables.prompts.token_s)
    if lengths.decoding_share <= 0.0:
        return np.asarray(prompts[:, 0])
    speed = side_by_side(np.ones_like(prompts), tables.contention.prefill_packed)
    life = lengths.decode * tables.step_s
    at_limit = tables.nodes.time_at_each(life, tables.limit)
    rate = tandem_saturation(
        tables.nodes,
        prompts * speed * lengths.decoding_share,
        life / tables.contention.decode_packed,
        at_limit,
        tables.limit,
        tables.capacity.places + tables.capacity.tooth,
        max(1.0 + (lengths.prompt2 / lengths.prompt**2 - 2.0) * lengths.overlap, 0.1),
    )
    return np.asarray(rate / lengths.decoding_share)
