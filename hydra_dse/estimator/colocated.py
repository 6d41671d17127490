"""Colocated serving: one pool runs decode tokens and prompt chunks in the same engine.

Chunked: an iteration decodes every sequence and gives the rest of the token budget to prompts; a prompt delays the
decoders by what it adds to its iterations.  Prefill first: prompts run in iterations of their own while decoders
stall; a prompt delays them by its whole time.

With `b` decoders, `d(b)` a decode-only iteration and `e(b)` the mean delay per prompt, decoders advance once per
`τ(b) = min(d/(1 − λe), f)`, `f` a full iteration (no bound in prefill-first).  The slow chain runs over sequences in
service; the prompt queue beside each `b` is solved as if `b` stood still for as long as a sequence stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import latencies
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing
from hydra_dse.estimator.iteration import PrefillTimes, chunk_batch, decode_batch, packed_batch, prefill_times
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.memory import Memory, memory_of
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.nodes import BatchNodes, nodes_of
from hydra_dse.estimator.prompts import PromptQueue, packing_of, prompt_queue
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

# Batches beside which prompts are timed, as shares of the largest decode batch.
BESIDE = np.array([0.0, 0.12, 0.3, 0.6, 1.0])
JUST_BELOW = 0.998


@dataclass(frozen=True)
class Tables:
    """All that is asked of the profile, once.

    Attributes:
        step_s: decode-only iteration at each node, shape (n, k).
        beside: decode batches beside which prompts are timed, shape (n, j); prompts: their times there.
        memory: of sequences; limit: sequences in service at most; top: decoding sequences that leave prompts
            enough of the budget to keep up with them.
        prefill_first: whether decoders stall while prompts run.
    """

    nodes: BatchNodes
    step_s: FloatArray
    beside: FloatArray
    prompts: PrefillTimes
    memory: Memory
    limit: FloatArray
    top: FloatArray
    prefill_first: bool

    def at_nodes(self, values: FloatArray) -> FloatArray:
        """Interpolate values beside the j batches at the nodes, (n, j) → (n, k)."""
        left, share = _locate(self.beside, self.nodes.batch)
        low = np.take_along_axis(values, left, axis=1)
        return np.asarray(low + share * (np.take_along_axis(values, left + 1, axis=1) - low))

    def from_nodes(self, weight: FloatArray) -> FloatArray:
        """Project weights of node 0 and the nodes, (n, k + 1), on the j batches."""
        n, j = self.beside.shape
        batch = np.hstack((np.zeros((n, 1)), self.nodes.batch))
        left, share = _locate(self.beside, batch)
        rows = np.arange(n)[:, None] * j
        total = np.zeros((n, j))
        for index, part in ((left, 1.0 - share), (left + 1, share)):
            total += np.bincount((rows + index).ravel(), (weight * part).ravel(), n * j).reshape(n, j)
        return total


def _locate(grid: FloatArray, batch: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """Left grid point and weight of the right one for each batch."""
    left = (batch[:, :, None] >= grid[:, None, 1:-1]).sum(axis=2)
    low = np.take_along_axis(grid, left, axis=1)
    high = np.take_along_axis(grid, left + 1, axis=1)
    return left, np.clip((batch - low) / np.maximum(high - low, 1e-12), 0.0, 1.0)


def tables_of(profile: ServiceProfile, lengths: LengthMoments) -> Tables:
    """Evaluate a profile at the batches the chain needs."""
    first = profile.batching == "prefill_first"
    pool = profile.pools["serve"]
    decode = max(lengths.decoding_share * lengths.decode, 1e-9)
    # Chunked: b decoders finish b/E[d] requests an iteration, whose successors need E[p] tokens each.
    keeps_up = profile.token_budget * (1.0 if first else decode / (lengths.prompt + decode))
    top = np.maximum(np.minimum(profile.max_batch, keeps_up), 1.0)
    memory = memory_of(profile, lengths, np.ones(profile.size))
    nodes = nodes_of(profile.max_batch)
    beside = BESIDE * np.minimum(profile.max_batch, np.maximum(profile.token_budget - 1.0, 1.0))[:, None]
    running = np.zeros_like(beside) if first else beside
    budget = np.maximum(profile.token_budget[:, None] - running, 1.0)
    return Tables(
        nodes=nodes,
        step_s=np.asarray(pool.time_s(decode_batch(nodes.batch, lengths)), dtype=float),
        beside=beside,
        prompts=prefill_times(pool, budget, running, lengths),
        memory=memory,
        limit=memory.limited(profile.max_batch),
        top=np.minimum(top, memory.limited(top)),
        prefill_first=first,
    )


@dataclass(frozen=True)
class Delays:
    """What prompts do to decoders at each node, shape (n, k).

    Attributes:
        each_s: mean delay per prompt; square: its second moment.
        step_s: mean time in which every decoder advances once.
        full_share: share of prompts served in full iterations.
    """

    each_s: FloatArray
    square: FloatArray
    step_s: FloatArray
    full_share: FloatArray


def delays(tables: Tables, rate: FloatArray, per_gap: FloatArray | None, lengths: LengthMoments) -> Delays:
    """Solve `τ(b)` at prompt rates of shape (n, k).

    Args:
        tables: of the designs.
        rate: prompts per second.
        per_gap: prompts that come between two decode iterations, where they come as slots fall free (saturation);
            None = as they arrive.
        lengths: of the requests.
    """
    weight, sizes = lengths.prompt_bins.weight, lengths.prompt_bins.size
    times = tables.prompts
    hidden = 0.0 if tables.prefill_first else 1.0
    beside_step = _at_beside(tables)[:, :, None] * hidden
    light = np.maximum(times.alone_s - times.iterations * beside_step, 0.0)
    token = (times.full_s - beside_step[:, :, 0]) / times.budget
    at = tables.at_nodes
    light_mean, light_square = at(light @ weight), at(light**2 @ weight)
    heavy_mean = at(token * lengths.prompt)
    heavy_square = at(token**2) * (sizes**2 @ weight)
    saved = at(np.maximum(times.shared_s - beside_step[:, :, 0], 0.0))
    full_s, alone = at(times.full_s), at(times.alone_s @ weight)
    cap = np.full_like(full_s, np.inf) if tables.prefill_first else full_s
    room = np.maximum(at(times.budget) / lengths.prompt, 1.0)
    step = tables.step_s
    for _ in range(4):
        gap = rate * np.minimum(np.maximum(step, alone), full_s) if per_gap is None else per_gap
        packing = packing_of(gap, room)
        full = np.clip(rate * full_s / at(times.budget) * lengths.prompt, 0.0, 1.0)
        light_now = np.maximum(light_mean - saved * (1.0 - 1.0 / packing), np.minimum(light_mean, heavy_mean))
        each = (1.0 - full) * light_now + full * heavy_mean
        free = 1.0 - rate * each
        step = np.minimum(tables.step_s / np.maximum(free, 1e-6), np.maximum(cap, tables.step_s))
    square = (1.0 - full) * light_square + full * heavy_square
    return Delays(each, square, step, full)


def _at_beside(tables: Tables) -> FloatArray:
    """Decode-only iteration at the j batches (of one sequence for the empty one)."""
    return tables.nodes.at(tables.step_s, np.maximum(tables.beside, 1.0)) * (tables.beside > 0)


def saturation_of(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Requests per second when a prompt waits for every slot: `X = b/(E[d]·τ(b))` with `λ = X` inside τ.

    Slots of prompts in progress do not decode: `b = B·E[d]τ/(E[d]τ + S)`, S the iterations a prompt takes.
    """
    prompt_s = 1.0 / (lengths.prompt * tables.prompts.token_s)
    if lengths.decoding_share <= 0.0:
        return np.asarray(prompt_s[:, 0])
    decode = lengths.decoding_share * lengths.decode
    at = tables.nodes.at
    batch = tables.top
    for _ in range(4):
        d = at(tables.step_s, batch[:, None])[:, 0]
        rate = batch / (decode * d)
        for _ in range(12):
            per_gap = np.broadcast_to((batch / decode)[:, None], tables.nodes.batch.shape)
            found = delays(tables, np.broadcast_to(rate[:, None], per_gap.shape), per_gap, lengths)
            each = at(found.each_s, batch[:, None])[:, 0]
            rate = np.sqrt(rate / (decode * d / batch + each))
        step = batch / (decode * rate)
        own = _slot_s(tables, step, batch, lengths)
        slots = tables.limit * decode * step / (decode * step + own)
        batch = np.maximum(np.minimum(slots, tables.top), 1e-3)
    return np.asarray(rate)


def _slot_s(tables: Tables, step: FloatArray, batch: FloatArray, lengths: LengthMoments) -> FloatArray:
    """Time a prompt holds a slot before it decodes: its iterations, one of them shared with others."""
    alone = tables.at_nodes(tables.prompts.alone_s @ lengths.prompt_bins.weight)
    return np.asarray(np.maximum(tables.nodes.at(alone, np.maximum(batch, 1.0)[:, None])[:, 0], step))


@dataclass(frozen=True)
class Colocated:
    """Solver of colocated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Colocated:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        return cls(profile, lengths, tables, saturation_of(tables, lengths))

    def at(self, rate: FloatArray, arrival_scv: float, percentiles: bool) -> Solution:
        """Solve at arrival rates of shape (n,)."""
        tables, lengths = self.tables, self.lengths
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = delays(tables, np.broadcast_to(served[:, None], tables.step_s.shape), None, lengths)
        own = tables.at_nodes(tables.prompts.alone_s @ lengths.prompt_bins.weight)
        residence = lengths.decoding_share * lengths.decode * found.step_s + own
        state = self._chain(served, residence, found, arrival_scv)
        queue = self._queue(served, residence, arrival_scv)
        entry = self._entry(served, state, queue, found)
        stream = self._stream(served, state, found)
        return self._solution(served, state, queue, latencies.timings(entry, stream, lengths, percentiles))

    def _chain(self, served: FloatArray, residence: FloatArray, found: Delays, arrival_scv: float) -> PoolState:
        """The slow chain; its highest rate is the saturation rate, whatever else limits it."""
        limit = self.tables.limit
        top = limit / self.tables.nodes.at(residence, limit[:, None])[:, 0]
        scale = np.maximum(top / self.saturation_per_s, 1.0)
        burst = self._burstiness(arrival_scv)
        return limited_sharing(served, self.tables.nodes, residence, limit, burst, load=served / top * scale)

    def _burstiness(self, arrival_scv: float) -> Burstiness:
        lengths, memory = self.lengths, self.tables.memory.binds(self.profile.max_batch)
        work = (1.0 - memory) * lengths.decode_scv + memory * lengths.work_scv
        ones = np.ones(self.profile.size)
        return Burstiness(
            spread=np.maximum(1.0 + (arrival_scv - 1.0) * lengths.overlap, 0.1) * ones,
            wait=np.maximum((arrival_scv + work) / 2.0, 1e-3),
            blocking=max((arrival_scv + 1.0) / 2.0, 0.3) * ones,
        )

    def _queue(self, served: FloatArray, residence: FloatArray, arrival_scv: float) -> PromptQueue:
        tables = self.tables
        rate = np.broadcast_to(served[:, None], tables.beside.shape)
        stay = tables.nodes.at(residence, np.maximum(tables.beside, 1.0))
        return prompt_queue(rate, tables.prompts, self.lengths, arrival_scv, np.ones_like(stay), 0.5 / stay)

    def _entry(self, served: FloatArray, state: PoolState, queue: PromptQueue, found: Delays) -> latencies.Entry:
        tables = self.tables
        beside = tables.from_nodes(state.at_nodes)
        residual = _at_beside(tables) / 2.0
        none = np.zeros_like(served)
        wait = (queue.mean_wait_s + (1.0 - queue.waits) * residual) * beside
        return latencies.Entry(
            own_s=tables.prompts.alone_s,
            own_weight=self.lengths.prompt_bins.weight,
            waits=queue.waits,
            wait_s=queue.wait_points() + queue.mates_s[:, :, None],
            beside=beside,
            mean_wait_s=wait.sum(axis=1),
            residual_s=residual,
            blocked=state.exceeds(none),
            blocked_s=state.beyond(none) / served,
        )

    def _stream(self, served: FloatArray, state: PoolState, found: Delays) -> latencies.Stream:
        tables, batch = self.tables, self.tables.nodes.batch
        share = latencies.token_share(state, batch, found.step_s)
        none = np.zeros_like(served)
        return latencies.Stream(
            joining_per_s=served * self.lengths.decoding_share,
            state=state,
            batch=batch,
            step_s=found.step_s,
            extra_s=found.step_s - tables.step_s,
            extra_square=served * (share * found.square).sum(axis=1),
            gaps=self._gaps(served, share, found),
            full=none,
            slot_s=none,
            longest_s=none,
            moved_s=none,
        )

    def _gaps(self, served: FloatArray, share: FloatArray, found: Delays) -> Mixture:
        """Gaps of decode-only iterations, of those with one prompt's last chunk, and of full ones."""
        tables, times, lengths = self.tables, self.tables.prompts, self.lengths
        n = len(served)
        weight = lengths.prompt_bins.weight
        stalled = _at_beside(tables)[:, :, None] if tables.prefill_first else 0.0
        middle = tables.from_nodes(np.hstack((np.zeros((n, 1)), share)))
        single = np.minimum(served[:, None] * (1.0 - found.full_share) * found.step_s, 1.0)
        packed = served[:, None] * lengths.prompt * found.step_s / tables.at_nodes(times.budget)
        packed = np.minimum(packed * found.full_share, 1.0 - single)
        with_one = (middle[:, :, None] * weight) * (share * single).sum(axis=1)[:, None, None]
        full_s = tables.at_nodes(times.full_s) + (tables.step_s if tables.prefill_first else 0.0)
        return Mixture(
            np.hstack((tables.step_s, (times.last_s + stalled).reshape(n, -1), full_s)),
            np.hstack((share * (1.0 - single - packed), with_one.reshape(n, -1), share * packed)),
        )

    def _solution(
        self, served: FloatArray, state: PoolState, queue: PromptQueue, timings: latencies.Timings
    ) -> Solution:
        tables, lengths = self.tables, self.lengths
        beside = tables.from_nodes(state.at_nodes)
        own = (tables.prompts.alone_s @ lengths.prompt_bins.weight * beside).sum(axis=1)
        mates = (queue.waits * queue.mates_s * beside).sum(axis=1)
        prompts = served * (own + mates)
        again = lengths.decode / (lengths.decode + 2.0 * lengths.residual_prompt)
        return Solution(
            saturation_per_s=self.saturation_per_s,
            served_per_s=served,
            ttft=timings.ttft,
            scheduled_mean_s=own + 2.0 * mates,
            tpot=timings.tpot,
            tbt=timings.tbt,
            e2e=timings.e2e,
            batch_mean=timings.decoding,
            kv_tokens=timings.decoding * lengths.context + prompts * lengths.prompt,
            sequences=timings.decoding + prompts,
            preemptions=tables.memory.binds(self.profile.max_batch) * state.full * again,
            work=self._work(served, state, queue),
        )

    def _work(self, served: FloatArray, state: PoolState, queue: PromptQueue) -> tuple[Work, ...]:
        """Iterations per second.  Decoders ride in chunked prompt iterations: their bytes are counted there."""
        tables, lengths = self.tables, self.lengths
        beside = tables.from_nodes(state.at_nodes)
        full = (queue.full_share * beside).sum(axis=1)
        budget = (tables.prompts.budget * beside).sum(axis=1)
        riding = np.zeros_like(served) if tables.prefill_first else (tables.beside * beside).sum(axis=1)
        size = np.minimum(lengths.prompt, budget)
        single_rate = served * (1.0 - full) * lengths.prompt / size
        packed_rate = served * full * lengths.prompt / budget
        none, one = np.zeros((len(served), 1)), np.ones((len(served), 1))
        single = chunk_batch(size[:, None], none, one, riding[:, None], lengths)
        packed = packed_batch(budget[:, None], riding[:, None], lengths)
        iterations = state.at_nodes[:, 1:] / tables.step_s
        tokens = (iterations * tables.nodes.batch).sum(axis=1)
        wanted = served * lengths.decoding_share * lengths.decode - (single_rate + packed_rate) * riding
        iterations = iterations * np.maximum(wanted / np.maximum(tokens, 1e-300), 0.0)[:, None]
        return (
            Work("serve", single, single_rate[:, None]),
            Work("serve", packed, packed_rate[:, None]),
            Work("serve", decode_batch(tables.nodes.batch, lengths), iterations),
        )
