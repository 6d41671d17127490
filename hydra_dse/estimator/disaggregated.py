"""Disaggregated serving: a prompt queue feeds a decode pool through finished prompts that hold their memory.

Two time scales: prompts (fractions of a second) and decoding (seconds).  The decode pool is a chain on the sequences
beyond prefill; sequences beyond its limit wait for a slot, which shows in TPOT; those beyond the places for finished
prompts pause prefill, which shows in TTFT.  Contention: each pool runs at the speed that `Contention.speeds` gives
while both run, weighted with the share of time that the other one runs.
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
from hydra_dse.estimator.nodes import BatchNodes, nodes_of
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.saturation import tandem_saturation
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

JUST_BELOW = 0.998


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
class Tables:
    """All that is asked of the profile, once.  Speeds have shape (n, k): beside each decode batch.

    Attributes:
        step_s: decode iteration at each node.
        prompts: times of prompts.
        single, packed: prefill iterations with one mean prompt, and with a full budget.
        prefill_single, prefill_packed: speed of prefill while both pools run, for these iterations.
        decode_single, decode_packed: speed of decode beside them.
    """

    nodes: BatchNodes
    step_s: FloatArray
    prompts: PrefillTimes
    single: Batch
    packed: Batch
    prefill_single: FloatArray
    prefill_packed: FloatArray
    decode_single: FloatArray
    decode_packed: FloatArray
    capacity: Capacity

    @property
    def limit(self) -> FloatArray:
        """Decoding sequences at most."""
        return self.capacity.limit


def tables_of(profile: ServiceProfile, lengths: LengthMoments) -> Tables:
    """Evaluate a profile at the batches the chain needs."""
    nodes = nodes_of(profile.max_batch)
    budget = profile.token_budget[:, None]
    none = np.zeros_like(budget)
    decode = decode_batch(nodes.batch, lengths)
    step_s = np.asarray(profile.pools["decode"].time_s(decode), dtype=float)
    packed = packed_batch(budget, none, lengths)
    single = chunk_batch(np.minimum(budget, lengths.prompt), none, none + 1.0, none, lengths)
    speeds = [np.ones_like(step_s)] * 4
    if profile.contention is not None:
        speeds = [*profile.contention.speeds(single, decode), *profile.contention.speeds(packed, decode)]
        speeds = [np.broadcast_to(np.asarray(speed, dtype=float), step_s.shape) for speed in speeds]
    return Tables(
        nodes=nodes,
        step_s=step_s,
        prompts=prefill_times(profile.pools["prefill"], budget, none, lengths),
        single=single,
        packed=packed,
        prefill_single=speeds[0],
        decode_single=speeds[1],
        prefill_packed=speeds[2],
        decode_packed=speeds[3],
        capacity=capacity_of(profile, lengths, np.zeros(profile.size)),
    )


def saturation_of(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Saturation rate in requests per second, shape (n,)."""
    prompts = 1.0 / (lengths.prompt * tables.prompts.token_s)
    if lengths.decoding_share <= 0.0:
        return np.asarray(prompts[:, 0])
    speed = np.hstack((np.ones_like(prompts), tables.prefill_packed))
    life = lengths.decode * tables.step_s
    at_limit = tables.nodes.at(life, tables.limit[:, None])[:, 0]
    rate = tandem_saturation(
        tables.nodes,
        prompts * speed * lengths.decoding_share,
        life / tables.decode_packed,
        at_limit,
        tables.limit,
        tables.capacity.places + tables.capacity.tooth,
        1.0 + (lengths.prompt2 / lengths.prompt**2 - 2.0) * lengths.overlap,
    )
    return np.asarray(rate / lengths.decoding_share)


@dataclass(frozen=True)
class Balance:
    """The fixed point of both pools at one rate.

    Attributes:
        step_s: decode iteration slowed by prefill, mean over time; beside: speed of decode beside a prefill iteration.
        slowdown: of prefill by decode, shape (n, 1); places: waiting places of finished prompts.
    """

    rate: FloatArray
    queue: PromptQueue
    decode: PoolState
    step_s: FloatArray
    beside: FloatArray
    slowdown: FloatArray
    places: FloatArray


def balance(tables: Tables, rate: FloatArray, lengths: LengthMoments, arrival_scv: float) -> Balance:
    """Solve both pools: each one's slowdown by the other needs the other's busy share."""
    n = len(rate)
    slowdown = np.ones((n, 1))
    joining = rate * max(lengths.decoding_share, 1e-9)
    for _ in range(3):
        queue = prompt_queue(rate[:, None], tables.prompts, lengths, arrival_scv, slowdown)
        full = queue.full_share
        beside = (1.0 - full) * tables.decode_single + full * tables.decode_packed
        busy = np.minimum(queue.busy, 1.0)
        step_s = tables.step_s / (1.0 - busy + busy * beside)
        burst = _burstiness(queue, step_s[:, -1], lengths, arrival_scv)
        decode = limited_sharing(joining, tables.nodes, _residence(tables, step_s, lengths), tables.limit, burst)
        prefill = (1.0 - full) * tables.prefill_single + full * tables.prefill_packed
        slowdown = decode.at_nodes[:, :1] + (decode.at_nodes[:, 1:] / prefill).sum(axis=1, keepdims=True)
    places = tables.capacity.held_back_beyond(decode)
    return Balance(rate, queue, decode, step_s, beside, slowdown, places)


def _residence(tables: Tables, step_s: FloatArray, lengths: LengthMoments) -> FloatArray:
    """Time in the decode pool; half an iteration to join a running batch that is not full."""
    batch = tables.nodes.batch
    joins = np.where(batch < tables.limit[:, None], 0.5 * (1.0 - 1.0 / batch), 0.0)
    return np.asarray((lengths.decode + joins) * step_s)


def _burstiness(queue: PromptQueue, step_s: FloatArray, lengths: LengthMoments, arrival_scv: float) -> Burstiness:
    """Decode sees the arrivals' own variability unless the prompt queue is slow enough to smooth it."""
    relaxation = queue.service_s[:, 0] / np.maximum(1.0 - queue.busy[:, 0], 1e-3) ** 2
    life = lengths.decode * step_s
    smooth = relaxation / (relaxation + life)
    prompt_scv = lengths.prompt2 / lengths.prompt**2 - 1.0
    scv = (1.0 - smooth) * arrival_scv + smooth * np.minimum(prompt_scv, max(arrival_scv, 1.0))
    spread = np.maximum(1.0 + (scv - 1.0) * lengths.overlap, 0.1)
    wait = np.maximum((scv + lengths.decode_scv) / 2.0, 1e-3)
    return Burstiness(spread, wait, np.maximum((scv + 1.0) / 2.0, 0.3))


@dataclass(frozen=True)
class Disaggregated:
    """Solver of disaggregated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Disaggregated:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        # Prompts in progress hold memory too; how many follows from the rate that memory allows.
        prompt_s = lengths.prompt * tables.prompts.token_s[:, 0]
        in_progress = np.minimum(saturation_of(tables, lengths) * prompt_s, 1.0)
        tables = replace(tables, capacity=capacity_of(profile, lengths, in_progress))
        return cls(profile, lengths, tables, saturation_of(tables, lengths))

    def at(self, rate: FloatArray, arrival_scv: float, percentiles: bool) -> Solution:
        """Solve at arrival rates of shape (n,)."""
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = balance(self.tables, served, self.lengths, arrival_scv)
        timings = latencies.timings(self._entry(found, served), self._stream(found, served), self.lengths, percentiles)
        return self._solution(found, served, timings)

    def _joining(self, served: FloatArray) -> FloatArray:
        return np.asarray(served * max(self.lengths.decoding_share, 1e-9))

    def _moved_s(self) -> FloatArray:
        """Time of the hand-off from prefill to decode."""
        profile = self.profile
        return np.asarray(profile.handoff_s_per_token * self.lengths.prompt + profile.handoff_s_per_sequence)

    def _entry(self, found: Balance, served: FloatArray) -> latencies.Entry:
        queue, places = found.queue, found.places
        return latencies.Entry(
            own_s=self.tables.prompts.alone_s * found.slowdown[:, :, None],
            own_weight=self.lengths.prompt_bins.weight,
            waits=queue.waits,
            wait_s=queue.wait_points() + queue.mates_s[:, :, None],
            beside=np.ones_like(queue.waits),
            mean_wait_s=queue.mean_wait_s[:, 0],
            residual_s=None,
            blocked=found.decode.exceeds(places),
            blocked_s=found.decode.beyond(places) / self._joining(served),
        )

    def _stream(self, found: Balance, served: FloatArray) -> latencies.Stream:
        tables, decode, queue = self.tables, found.decode, found.queue
        joining = self._joining(served)
        batch = tables.nodes.batch
        moved = self._moved_s() + latencies.joining_s(decode, batch, found.step_s, tables.limit)
        share = latencies.token_share(decode, batch, found.step_s)
        busy = np.clip(queue.busy, 0.0, 1.0)
        beside = found.beside
        # While prefill runs for s seconds, decode loses s·(1 − speed).
        lost = (share * (1.0 - beside)).sum(axis=1)
        running = busy * beside / (1.0 - busy + busy * beside)
        return latencies.Stream(
            joining_per_s=joining,
            state=decode,
            batch=batch,
            step_s=found.step_s,
            extra_s=found.step_s - tables.step_s,
            extra_square=served * queue.service_square[:, 0] * lost**2,
            gaps=Mixture(
                np.hstack((tables.step_s, tables.step_s / beside)),
                np.hstack((share * (1.0 - running), share * running)),
            ),
            full=decode.full,
            slot_s=np.maximum(decode.beyond(np.zeros_like(served)) - decode.beyond(found.places), 0.0) / joining,
            longest_s=(found.places + 1.0) * decode.load / joining,
            moved_s=moved,
        )

    def _solution(self, found: Balance, served: FloatArray, timings: latencies.Timings) -> Solution:
        tables, lengths = self.tables, self.lengths
        queue, decode = found.queue, found.decode
        held = queue.busy[:, 0] * queue.packing[:, 0] + served * self._moved_s()
        waiting = held + np.maximum(decode.beyond(np.zeros_like(served)) - decode.beyond(found.places), 0.0)
        again = lengths.decode / (lengths.decode + 2.0 * lengths.residual_prompt)
        return Solution(
            saturation_per_s=self.saturation_per_s,
            served_per_s=served,
            ttft=timings.ttft,
            scheduled_mean_s=self._scheduled_s(found),
            tpot=timings.tpot,
            tbt=timings.tbt,
            e2e=timings.e2e,
            batch_mean=timings.decoding,
            kv_tokens=timings.decoding * lengths.context + waiting * lengths.prompt,
            sequences=timings.decoding + waiting,
            preemptions=tables.capacity.memory.binds(self.profile.max_batch) * decode.full * again,
            work=_work(tables, found, served, lengths),
        )

    def _scheduled_s(self, found: Balance) -> FloatArray:
        """First token − start of the first iteration: own time, that of prompts packed around it, and pauses.

        Prompts ahead of and behind it in its iterations count alike.  One prompt of each iteration is cut; where
        prefill is paused it stays cut for the time in which as many sequences leave decode as an iteration brings.
        """
        queue, decode = found.queue, found.decode
        own = (self.tables.prompts.alone_s[:, 0, :] * found.slowdown) @ self.lengths.prompt_bins.weight
        paused = decode.exceeds(found.places) * decode.load / self._joining(found.rate)
        return np.asarray(own + 2.0 * queue.waits[:, 0] * queue.mates_s[:, 0] + paused)


def _work(tables: Tables, found: Balance, rate: FloatArray, lengths: LengthMoments) -> tuple[Work, ...]:
    """Iterations per second of both pools; decode iterations are scaled to the tokens that must be emitted."""
    full = found.queue.full_share[:, 0]
    per_prompt = lengths.prompt / np.minimum(lengths.prompt, tables.prompts.budget[:, 0])
    single = Work("prefill", tables.single, (rate * (1.0 - full) * per_prompt)[:, None])
    packed = Work("prefill", tables.packed, (rate * full * lengths.prompt)[:, None] / tables.prompts.budget)
    iterations = found.decode.at_nodes[:, 1:] / found.step_s
    tokens = (iterations * tables.nodes.batch).sum(axis=1)
    wanted = rate * lengths.decoding_share * lengths.decode
    iterations = iterations * (wanted / np.maximum(tokens, 1e-300))[:, None]
    return single, packed, Work("decode", decode_batch(tables.nodes.batch, lengths), iterations)
