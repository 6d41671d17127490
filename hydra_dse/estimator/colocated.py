"""Colocated serving: one pool runs decode tokens and prompt chunks in the same engine.

Chunked: an iteration decodes every sequence and gives the rest of the token budget to prompts; a prompt delays the
decoders by what it adds to its iterations.  Prefill first: prompts run in iterations of their own while decoders
stall; a prompt delays them by its whole time.

With `b` decoders, `d(b)` a decode-only iteration and `e(b)` the mean delay per prompt, decoders advance once per
`τ(b) = min(d/(1 − λe), f)`, `f` a full iteration (no bound in prefill-first).  The slow chain runs over sequences in
service; the prompt queue beside each `b` is solved as if `b` stood still for as long as a sequence stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import latencies
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing
from hydra_dse.estimator.iteration import PrefillTimes, chunk_batch, decode_batch, packed_batch, prefill_times
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.memory import Memory, memory_of
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.nodes import BatchNodes, gather, nodes_of
from hydra_dse.estimator.prompts import PromptQueue, packing_of, prompt_queue
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.estimator.transient import Transient
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

    def beside_of(self, batch: FloatArray) -> Between:
        """Where batches of shape (n, m) lie among the j batches."""
        left = (batch[:, :, None] >= self.beside[:, None, 1:-1]).sum(axis=2)
        low, high = gather(self.beside, left), gather(self.beside, left + 1)
        return Between(left, np.clip((batch - low) / np.maximum(high - low, 1e-12), 0.0, 1.0))


@dataclass(frozen=True)
class Between:
    """Positions on a grid: left point and weight of the right one, shape (n, m)."""

    left: NDArray[np.int64]
    share: FloatArray

    def of(self, values: FloatArray) -> FloatArray:
        """Interpolate grid values, (n, j) → (n, m)."""
        low = gather(values, self.left)
        return np.asarray(low + self.share * (gather(values, self.left + 1) - low))

    def project(self, weight: FloatArray, points: int) -> FloatArray:
        """Give the weights of the positions to the grid points, (n, m) → (n, points)."""
        n = len(weight)
        rows = np.arange(n)[:, None] * points
        left = np.bincount((rows + self.left).ravel(), (weight * (1.0 - self.share)).ravel(), n * points)
        right = np.bincount((rows + self.left + 1).ravel(), (weight * self.share).ravel(), n * points)
        return np.asarray((left + right).reshape(n, points))


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
class Impact:
    """What prompts do to `batch` decoders, everything that does not depend on the rate, each of shape (n, m).

    Attributes:
        step_s: decode-only iteration.
        light, heavy: mean delay of decoders by a prompt alone in its iterations, and by one in full iterations;
            light_square, heavy_square: second moments.
        saved: delay saved where two prompts share an iteration.
        full_s: a full iteration; token_s: of it, per prompt token.
        room: prompts of a full iteration; alone_s: a prompt alone.
    """

    step_s: FloatArray
    light: FloatArray
    heavy: FloatArray
    light_square: FloatArray
    heavy_square: FloatArray
    saved: FloatArray
    full_s: FloatArray
    token_s: FloatArray
    room: FloatArray
    alone_s: FloatArray


def impact_of(tables: Tables, batch: FloatArray, lengths: LengthMoments) -> Impact:
    """Interpolate the tables at batches of shape (n, m)."""
    weight, times = lengths.prompt_bins.weight, tables.prompts
    # Chunked: the decode iteration that would have run anyway is no delay.
    hidden = np.zeros_like(tables.beside) if tables.prefill_first else _step_beside(tables)
    light = np.maximum(times.alone_s - times.iterations * hidden[:, :, None], 0.0)
    token = (times.full_s - hidden) / times.budget
    at = tables.beside_of(batch).of
    return Impact(
        step_s=tables.nodes.at(tables.step_s, np.maximum(batch, 1.0)),
        light=at(light @ weight),
        heavy=at(token) * lengths.prompt,
        light_square=at(light**2 @ weight),
        heavy_square=at(token) ** 2 * lengths.prompt2,
        saved=at(np.maximum(times.shared_s - hidden, 0.0)),
        full_s=at(times.full_s),
        token_s=at(times.token_s),
        room=np.maximum(at(times.budget) / lengths.prompt, 1.0),
        alone_s=at(times.alone_s @ weight),
    )


def _step_beside(tables: Tables) -> FloatArray:
    """Decode-only iteration at the j batches; 0 for the empty one."""
    return tables.nodes.at(tables.step_s, np.maximum(tables.beside, 1.0)) * (tables.beside > 0)


@dataclass(frozen=True)
class Delays:
    """What prompts at some rate do to decoders, shape (n, m).

    Attributes:
        each_s: mean delay per prompt; square: its second moment.
        step_s: mean time in which every decoder advances once.
        full_share: share of prompts served in full iterations.
    """

    each_s: FloatArray
    square: FloatArray
    step_s: FloatArray
    full_share: FloatArray


def delays(
    impact: Impact,
    rate: FloatArray,
    lengths: LengthMoments,
    stalls: bool,
    arrival_scv: float = 1.0,
    per_gap: FloatArray | None = None,
) -> Delays:
    """Solve `τ(b)` at prompt rates.

    Args:
        impact: of prompts on decoders.
        rate: prompts per second, shape (n, m).
        lengths: of the requests.
        stalls: decoders stand while prompts run, so that nothing bounds τ.
        arrival_scv: squared coefficient of variation of the gaps.
        per_gap: prompts that come between two decode iterations, where they come as slots fall free (saturation);
            None = as they arrive.
    """
    least = np.minimum(impact.light, impact.heavy)
    bound = np.inf if stalls else np.maximum(impact.full_s, impact.step_s)
    step, each = impact.step_s, impact.light
    for _ in range(4 if per_gap is None else 1):
        alone = _alone_share(impact, rate, step, each, stalls, arrival_scv) if per_gap is None else None
        if alone is None:
            alone = 1.0 / packing_of(np.asarray(per_gap), impact.room, arrival_scv)
        filled = np.clip(1.0 / (alone * impact.room), 0.0, 1.0)
        full = np.clip(rate * impact.token_s * lengths.prompt, 0.0, 1.0) * filled
        light = np.maximum(impact.light - impact.saved * (1.0 - alone), least)
        each = (1.0 - full) * light + full * impact.heavy
        step = np.minimum(impact.step_s / np.maximum(1.0 - rate * each, 1e-6), bound)
    square = (1.0 - full) * impact.light_square + full * impact.heavy_square
    return Delays(each, square, step, full)


def _alone_share(
    impact: Impact, rate: FloatArray, step: FloatArray, each: FloatArray, stalls: bool, arrival_scv: float
) -> FloatArray:
    """Prompt iterations per prompt.

    Chunked: prompts that come in one iteration share the next.  Prefill first: those that come during a decode
    iteration share one, those that come while prompts run (a share `λe` of them) the one after.
    """
    running = np.minimum(impact.alone_s, impact.full_s)
    if not stalls:
        return 1.0 / packing_of(rate * np.minimum(np.maximum(step, running), impact.full_s), impact.room, arrival_scv)
    during_prompts = np.clip(rate * each, 0.0, 1.0)
    after_decode = 1.0 / packing_of(rate * impact.step_s, impact.room, arrival_scv)
    after_prompts = 1.0 / packing_of(rate * running, impact.room, arrival_scv)
    return np.asarray((1.0 - during_prompts) * after_decode + during_prompts * after_prompts)


def saturation_of(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Requests per second when a prompt waits for every slot: `X = b/(E[d]·τ(b))` with `λ = X` inside τ.

    Slots of prompts in progress do not decode: `b = B·E[d]τ/(E[d]τ + S)`, S the iterations a prompt takes.
    """
    if lengths.decoding_share <= 0.0:
        return np.asarray(1.0 / (lengths.prompt * tables.prompts.token_s[:, 0]))
    decode = lengths.decoding_share * lengths.decode
    batch = tables.top
    for _ in range(4):
        impact = impact_of(tables, batch[:, None], lengths)
        alone = batch / (decode * impact.step_s[:, 0])
        rate = alone
        for _ in range(6):
            found = delays(impact, rate[:, None], lengths, tables.prefill_first, per_gap=(batch / decode)[:, None])
            # A geometric step towards 1/X = E[d]·d(b)/b + e(X).
            rate = np.sqrt(rate / (1.0 / alone + found.each_s[:, 0]))
        step = batch / (decode * rate)
        slots = tables.limit * decode * step / (decode * step + np.maximum(impact.alone_s[:, 0], step))
        batch = np.maximum(np.minimum(slots, tables.top), 1e-3)
    return np.asarray(rate)


@dataclass(frozen=True)
class Colocated:
    """Solver of colocated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    impact: Impact
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Colocated:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        impact = impact_of(tables, tables.nodes.batch, lengths)
        return cls(profile, lengths, tables, impact, saturation_of(tables, lengths))

    def at(
        self, rate: FloatArray, arrival_scv: float, percentiles: bool, transient: Transient | None = None
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it."""
        tables, lengths = self.tables, self.lengths
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = delays(self.impact, served[:, None], lengths, tables.prefill_first, arrival_scv)
        residence = lengths.decoding_share * lengths.decode * found.step_s + self.impact.alone_s
        state = self._chain(served, residence, arrival_scv, transient)
        beside = self._beside(state.at_nodes)
        queue = self._queue(served, residence, arrival_scv, transient, beside)
        entry = self._entry(served, state, queue, found)
        if transient is not None:
            entry = latencies.held_back(entry, transient)
        stream = self._stream(served, state, found)
        solution = self._solution(served, state, queue, latencies.timings(entry, stream, lengths, percentiles))
        if queue.left_s is None:
            return solution
        return replace(solution, left_s=queue.left_s, left=queue.left_s / (queue.service_s * beside).sum(axis=1))

    def _chain(
        self, served: FloatArray, residence: FloatArray, arrival_scv: float, transient: Transient | None
    ) -> PoolState:
        """The slow chain; its highest rate is the saturation rate, whatever else limits it."""
        limit, burst = self.tables.limit, self._burstiness(arrival_scv)
        load = served / self.saturation_per_s
        if transient is None:
            return limited_sharing(served, self.tables.nodes, residence, limit, burst, load=load)
        offered, horizon = np.maximum(transient.offered, served), transient.horizon_per_s
        return limited_sharing(
            served, self.tables.nodes, residence, limit, burst, load=load, offered=offered, horizon_per_s=horizon
        )

    def _beside(self, weight: FloatArray) -> FloatArray:
        """Weights of node 0 and the nodes, (n, k + 1), on the j batches beside which prompts are timed."""
        tables = self.tables
        batch = np.hstack((np.zeros((len(weight), 1)), tables.nodes.batch))
        return tables.beside_of(batch).project(weight, tables.beside.shape[1])

    def _burstiness(self, arrival_scv: float) -> Burstiness:
        lengths, memory = self.lengths, self.tables.memory.binds(self.profile.max_batch)
        work = (1.0 - memory) * lengths.decode_scv + memory * lengths.work_scv
        ones = np.ones(self.profile.size)
        return Burstiness(
            spread=np.maximum(1.0 + (arrival_scv - 1.0) * lengths.overlap, 0.1) * ones,
            wait=np.maximum((arrival_scv + work) / 2.0, 1e-3),
            blocking=max((arrival_scv + 1.0) / 2.0, 0.3) * ones,
        )

    def _queue(
        self,
        served: FloatArray,
        residence: FloatArray,
        arrival_scv: float,
        transient: Transient | None,
        beside: FloatArray,
    ) -> PromptQueue:
        tables = self.tables
        rate = np.broadcast_to(served[:, None], tables.beside.shape)
        stay = tables.nodes.at(residence, np.maximum(tables.beside, 1.0))
        return prompt_queue(
            rate,
            tables.prompts,
            self.lengths,
            arrival_scv,
            0.5 / stay,
            self.profile.scheduling == "sjf",
            transient,
            beside,
        )

    def _entry(self, served: FloatArray, state: PoolState, queue: PromptQueue, found: Delays) -> latencies.Entry:
        tables = self.tables
        beside = self._beside(state.at_nodes)
        residual = _step_beside(tables) / 2.0
        none = np.zeros_like(served)
        wait = (queue.mean_wait_s + (1.0 - queue.waits) * residual) * beside
        return latencies.Entry(
            own_s=tables.prompts.alone_s,
            own_weight=self.lengths.prompt_bins.weight,
            waits=queue.waits,
            wait_s=queue.wait_points(),
            mates_s=queue.mates_s,
            lone_mates_s=queue.lone_mates_s,
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
        stalled = _step_beside(tables)[:, :, None] if tables.prefill_first else 0.0
        middle = self._beside(np.hstack((np.zeros((n, 1)), share)))
        single = np.minimum(served[:, None] * (1.0 - found.full_share) * found.step_s, 1.0)
        packed = served[:, None] * lengths.prompt * found.step_s / (self.impact.full_s / self.impact.token_s)
        packed = np.minimum(packed * found.full_share, 1.0 - single)
        with_one = (middle[:, :, None] * weight) * (share * single).sum(axis=1)[:, None, None]
        full_s = self.impact.full_s + (tables.step_s if tables.prefill_first else 0.0)
        return Mixture(
            np.hstack((tables.step_s, (times.last_s + stalled).reshape(n, -1), full_s)),
            np.hstack((share * (1.0 - single - packed), with_one.reshape(n, -1), share * packed)),
        )

    def _solution(
        self, served: FloatArray, state: PoolState, queue: PromptQueue, timings: latencies.Timings
    ) -> Solution:
        tables, lengths = self.tables, self.lengths
        beside = self._beside(state.at_nodes)
        own = (tables.prompts.alone_s @ lengths.prompt_bins.weight * beside).sum(axis=1)
        mates = (queue.company_s * beside).sum(axis=1)
        scheduled = own + 2.0 * mates
        prefilling = served * scheduled
        again = lengths.decode / (lengths.decode + 2.0 * lengths.residual_prompt)
        return Solution(
            saturation_per_s=self.saturation_per_s,
            served_per_s=served,
            ttft=timings.ttft,
            scheduled_mean_s=scheduled,
            tpot=timings.tpot,
            tbt=timings.tbt,
            e2e=timings.e2e,
            batch_mean=timings.decoding,
            # A prompt holds its memory for a time that grows with its size.
            kv_tokens=timings.decoding * lengths.context + prefilling * 2.0 * lengths.residual_prompt,
            sequences=timings.decoding + prefilling,
            preemptions=tables.memory.binds(self.profile.max_batch) * state.full * again,
            work=self._work(served, state, queue),
        )

    def _work(self, served: FloatArray, state: PoolState, queue: PromptQueue) -> tuple[Work, ...]:
        """Iterations per second.  Decoders ride in chunked prompt iterations: their bytes are counted there."""
        tables, lengths = self.tables, self.lengths
        beside = self._beside(state.at_nodes)
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
