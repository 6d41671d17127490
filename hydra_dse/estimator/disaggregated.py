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
from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing, peaked, service_seen
from hydra_dse.estimator.disaggregated_tables import Tables, capacity_of, saturation_of, tables_of
from hydra_dse.estimator.iteration import PrefillTimes, chunk_batch
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phased_chain import Waiting, phased_sharing
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.shortest_first import ordered
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.estimator.transfers import handed_over_per_s, handed_over_s
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

JUST_BELOW = 0.998


@dataclass(frozen=True)
class Balance:
    """The fixed point of both pools at one rate.

    Attributes:
        step_s: decode iteration slowed by prefill, mean over time; beside: speed of decode beside a prefill iteration.
        prompts: times of prompts slowed by decode.
        places: waiting places of finished prompts; held: mean number of prompts that wait beyond them to start.
        burst: `(c_a² + 1)/2` of the prompts that prefill finishes.
    """

    rate: FloatArray
    queue: PromptQueue
    decode: PoolState
    step_s: FloatArray
    beside: FloatArray
    prompts: PrefillTimes
    places: FloatArray
    held: FloatArray
    burst: FloatArray | float = 1.0


def balance(
    tables: Tables,
    rate: FloatArray,
    lengths: LengthMoments,
    arrival_scv: float,
    shortest_first: bool = False,
    transient: Transient | None = None,
    phases: Phases | None = None,
    saturation: FloatArray | None = None,
) -> Balance:
    """Solve both pools: each one's slowdown by the other needs the other's busy share."""
    prompts, between = tables.prompts, tables.contention
    decoding = max(lengths.decoding_share, 1e-9)
    joining = rate * decoding
    offered, horizon = None, 0.0
    for _ in range(3):
        queue = prompt_queue(
            rate[:, None],
            prompts,
            lengths,
            arrival_scv,
            shortest_first=shortest_first,
            phases=phases,
            own_engine=True,
        )
        full = queue.full_share
        beside = (1.0 - full) * between.decode_single + full * between.decode_packed
        busy = np.minimum(queue.busy, 1.0)
        step_s = tables.step_s / (1.0 - busy + busy * beside)
        residence = residence_of(tables, step_s, lengths)
        life_s = _typical(tables, joining, residence)
        burst = burstiness(queue, life_s, lengths, np.full(len(rate), arrival_scv), tables.work_scv)
        if phases is not None:
            burst = replace(
                phased(phases, joining, life_s, residence[:, -1], tables, queue, lengths), within=burst.spread
            )
        if transient is not None:
            # Decode gets what prefill lets through.
            through = np.minimum(transient.offered, 1.0 / (lengths.prompt * prompts.token_s[:, 0]))
            offered, horizon = np.maximum(through, rate) * decoding, transient.horizon_per_s
        # Prompts that decode holds back run packed, which leaves it more: it cannot be overloaded before the tandem is.
        load = joining * tables.nodes.time_at_each(residence, tables.limit) / tables.limit
        if saturation is not None:
            load = np.minimum(load, (1.0 + rate / saturation) / 2.0)
        if phases is not None and transient is None and saturation is not None:
            decode = _modulated(tables, queue, beside, burst, joining, phases, lengths, saturation)
        else:
            decode = limited_sharing(
                joining, tables.nodes, residence, tables.limit, burst, load, offered=offered, horizon_per_s=horizon
            )
        prompts = slowed(tables, decode.at_nodes)
    if transient is not None:
        life_s = decode.in_service / joining
        queue = prompt_queue(
            rate[:, None],
            prompts,
            lengths,
            arrival_scv,
            shortest_first=shortest_first,
            transient=transient,
            life_s=life_s,
            own_engine=True,
        )
        if queue.dispersion is not None:
            burst = peaked(burst, queue.dispersion)
            decode = limited_sharing(
                joining, tables.nodes, residence, tables.limit, burst, offered=offered, horizon_per_s=horizon
            )
    capacity = tables.capacity
    held = capacity.held_back(decode)
    return Balance(rate, queue, decode, step_s, beside, prompts, capacity.places, held, burst.blocking)


def _modulated(
    tables: Tables,
    queue: PromptQueue,
    beside: FloatArray,
    burst: Burstiness,
    joining: FloatArray,
    phases: Phases,
    lengths: LengthMoments,
    saturation: FloatArray,
) -> PoolState:
    """Decode under arrivals in phases: prefill slows it the more the more prompts a phase brings.

    Behind the places for finished prompts prefill pauses, and both pools complete what they can at most.
    """
    rate = joining / max(lengths.decoding_share, 1e-9)
    reaching = through_prefill(phases, rate, tables.prompts, lengths)
    residences = []
    for phase in (0, 1):
        busy = np.minimum(queue.busy * reaching.relative[:, phase, None], 1.0)
        residences.append(residence_of(tables, tables.step_s / (1.0 - busy + busy * beside), lengths))
    first, second = (tables.nodes.time_at(each, tables.limit[:, None])[:, 0] for each in residences)
    waiting = Waiting(tables.capacity.places + tables.capacity.tooth, first, second)
    load = np.minimum(rate / saturation, 1.0)
    return phased_sharing(
        joining, tables.nodes, (residences[0], residences[1]), tables.limit, burst, load, reaching, waiting
    )


def through_prefill(phases: Phases, rate: FloatArray, prompts: PrefillTimes, lengths: LengthMoments) -> Phases:
    """The phases as decode sees them: a busy one brings no more than prefill completes, the rest comes after it.

    Some requests end with their first token, so that fewer join in the time of a phase.
    """
    most = 1.0 / (lengths.prompt * prompts.token_s[:, 0] * rate)
    return phases.bounded(np.maximum(most, 1.0), 1.0 / max(lengths.decoding_share, 1e-9))


def slowed(tables: Tables, at_nodes: FloatArray) -> PrefillTimes:
    """Times of prompts beside the decode batches met on average."""
    between, idle = tables.contention, at_nodes[:, :1]
    single = idle + (at_nodes[:, 1:] / between.prefill_single).sum(axis=1, keepdims=True)
    packed = idle + (at_nodes[:, 1:] / between.prefill_packed).sum(axis=1, keepdims=True)
    sizes = np.maximum(idle + (single - idle) * between.by_size, 1.0)[:, None, :]
    alone = tables.prompts
    return PrefillTimes(
        alone.alone_s * sizes,
        alone.iterations,
        alone.last_s * sizes,
        alone.full_s * packed,
        alone.shared_s * single,
        alone.budget,
    )


def residence_of(tables: Tables, step_s: FloatArray, lengths: LengthMoments) -> FloatArray:
    """Time in the decode pool; half an iteration to join a running batch that is not full."""
    batch = tables.nodes.batch
    joins = np.where(batch < tables.limit[:, None], 0.5 * (1.0 - 1.0 / batch), 0.0)
    return np.asarray((lengths.decode + joins) * step_s)


def _typical(tables: Tables, joining: FloatArray, residence_s: FloatArray) -> FloatArray:
    """Residence at the batch that it brings about itself, (n,)."""
    batch = np.ones_like(joining)
    for _ in range(4):
        life = tables.nodes.at_each(residence_s, batch)
        batch = bounded(joining * life, 1.0, np.maximum(tables.limit, 1.0))
    return life


def burstiness(
    queue: PromptQueue, life_s: FloatArray, lengths: LengthMoments, arrival_scv: FloatArray, work_scv: FloatArray
) -> Burstiness:
    """Decode sees the arrivals' own variability unless the prompt queue is slow enough to smooth it."""
    relaxation = queue.service_s[:, 0] / np.maximum(1.0 - queue.busy[:, 0], 1e-3) ** 2
    smooth = relaxation / (relaxation + life_s)
    prompt_scv = lengths.prompt2 / lengths.prompt**2 - 1.0
    scv = (1.0 - smooth) * arrival_scv + smooth * np.minimum(prompt_scv, np.maximum(arrival_scv, 1.0))
    spread = np.maximum(1.0 + (scv - 1.0) * lengths.overlap, 0.1)
    none = np.zeros_like(scv)
    blocking = np.maximum((scv + 1.0) / 2.0, 0.3)
    return Burstiness(spread, scv, blocking, work_scv, none, none)


def phased(
    phases: Phases,
    joining: FloatArray,
    life_s: FloatArray,
    full_s: FloatArray,
    tables: Tables,
    queue: PromptQueue,
    lengths: LengthMoments,
) -> Burstiness:
    """Slots see what phases change within a life, the queue before them what they change while it lasts.

    Lives are those at a typical and at a full batch.
    """
    each = full_s / tables.limit
    own = tables.work_scv
    slots = burstiness(queue, life_s, lengths, phases.scv_in(joining, life_s), own)
    before = burstiness(queue, full_s, lengths, phases.scv_before(joining, joining * each, each, own), own)
    return replace(before, spread=slots.spread)


@dataclass(frozen=True)
class Disaggregated:
    """Solver of disaggregated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    saturation_per_s: FloatArray

    @property
    def prompts_per_s(self) -> FloatArray:
        """Prompts that prefill alone completes."""
        return np.asarray(1.0 / (self.lengths.prompt * self.tables.prompts.token_s[:, 0]))

    @property
    def slots(self) -> FloatArray:
        """Sequences in service at most."""
        return self.tables.limit

    @property
    def places(self) -> FloatArray:
        """Finished prompts that may wait for a slot."""
        return np.asarray(self.tables.capacity.places + self.tables.capacity.tooth)

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Disaggregated:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        # Prompts in progress hold memory too; how many follows from the rate that memory allows.
        prompt_s = lengths.prompt * tables.prompts.token_s[:, 0]
        in_progress = np.minimum(saturation_of(tables, lengths) * prompt_s, 1.0)
        tables = replace(tables, capacity=capacity_of(profile, lengths, in_progress))
        limit = np.minimum(saturation_of(tables, lengths), handed_over_per_s(profile, lengths))
        return cls(profile, lengths, tables, limit)

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it."""
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        first = self.profile.scheduling == "sjf"
        found = balance(self.tables, served, self.lengths, arrival_scv, first, transient, phases, self.saturation_per_s)
        return self.solved(found, served, percentiles, transient)

    def solved(
        self, found: Balance, served: FloatArray, percentiles: bool, transient: Transient | None = None
    ) -> Solution:
        """The solution that follows from balanced pools."""
        entry, stream = self._entry(found, served), self._stream(found, served)
        if self.profile.scheduling == "sjf":
            entry = ordered(entry, found.queue.busy, found.decode.load)
        if transient is not None:
            entry = latencies.held_back(entry, transient)
            stream = latencies.parked(stream, transient, max(self.lengths.decoding_share, 1e-9))
        timings = latencies.timings(entry, stream, self.lengths, percentiles)
        solution = self._solution(found, served, timings)
        if found.queue.left_s is None:
            return solution
        return replace(solution, left_s=found.queue.left_s, left=found.queue.left_s / found.queue.service_s[:, 0])

    def _joining(self, served: FloatArray) -> FloatArray:
        return np.asarray(served * max(self.lengths.decoding_share, 1e-9))

    def _moved_s(self, found: Balance, served: FloatArray, prompt: float | None = None) -> FloatArray:
        """Time of the hand-off from prefill to decode, of the mean request or of a prompt of some length."""
        return handed_over_s(self.profile, self.lengths, self._joining(served), prompt, found.burst)

    def _entry(self, found: Balance, served: FloatArray) -> latencies.Entry:
        queue, places = found.queue, found.places
        return latencies.Entry(
            own_s=found.prompts.alone_s,
            own_bins=self.lengths.prompt_bins,
            waits=queue.waits,
            wait_s=queue.wait_points,
            behind=queue.behind,
            behind_lone=queue.behind_lone,
            beside=np.ones_like(queue.waits),
            mean_wait_s=queue.mean_wait_s[:, 0],
            residual_s=None,
            blocked=found.decode.exceeds(places),
            blocked_s=found.held / self._joining(served),
        )

    def _stream(self, found: Balance, served: FloatArray) -> latencies.Stream:
        tables, decode, queue = self.tables, found.decode, found.queue
        joining = self._joining(served)
        batch = tables.nodes.batch
        step_s, alone_s = decode.stepped(found.step_s), decode.stepped(tables.step_s)
        handed = self._moved_s(found, served)
        moved = handed + latencies.joining_s(decode, batch, step_s, tables.limit)
        share = latencies.token_share(decode, batch, step_s)
        busy = bounded(queue.busy, 0.0, 1.0)
        beside = found.beside
        # While prefill runs for s seconds, decode loses s·(1 − speed).
        lost = (share * (1.0 - beside)).sum(axis=1)
        running = busy * beside / (1.0 - busy + busy * beside)
        return latencies.Stream(
            joining_per_s=joining,
            state=decode,
            batch=batch,
            step_s=step_s,
            extra_s=step_s - alone_s,
            extra_square=served * queue.service_square[:, 0] * lost**2,
            gaps=Mixture(
                side_by_side(alone_s, alone_s / beside),
                side_by_side(share * (1.0 - running), share * running),
            ),
            full=decode.full,
            slot_s=np.maximum(decode.beyond(np.zeros_like(served)) - found.held, 0.0) / joining,
            longest_s=(found.places + 2.0 * tables.capacity.tooth + 1.0) * decode.load / joining,
            leaving_s=decode.load / joining,
            leaving_scv=service_seen(tables.work_scv, tables.limit, decode.load),
            moved_s=moved,
            moved_by_inverse_s=moved - handed + self._moved_s(found, served, self.lengths.stored_by_inverse),
        )

    def _solution(self, found: Balance, served: FloatArray, timings: latencies.Timings) -> Solution:
        tables, lengths = self.tables, self.lengths
        decode = found.decode
        scheduled = self.scheduled_s(found)
        prefilling = served * scheduled
        waiting = np.maximum(decode.beyond(np.zeros_like(served)) - found.held, 0.0)
        waiting = waiting + served * self._moved_s(found, served)
        again = lengths.decode_tokens / (lengths.decode_tokens + 2.0 * lengths.residual_prompt)
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
            kv_tokens=timings.decoding * lengths.context
            + waiting * lengths.stored
            + prefilling * lengths.prefilling_tokens,
            sequences=timings.decoding + waiting + prefilling,
            preemptions=tables.capacity.memory.binds(self.profile.max_batch) * decode.full * again,
            work=self.work(found, served),
        )

    def work(self, found: Balance, served: FloatArray) -> tuple[Work, ...]:
        """Iterations per second of both pools."""
        return _work(self.tables, found, served, self.lengths)

    def scheduled_s(self, found: Balance) -> FloatArray:
        """First token − start of the first iteration: own time, that of prompts packed around it, and pauses.

        Prompts ahead of and behind it in its iterations count alike.  One prompt of each iteration is cut; where
        prefill is paused it stays cut for the time in which as many sequences leave decode as an iteration brings.
        """
        queue, decode = found.queue, found.decode
        own = found.prompts.alone_s[:, 0, :] @ self.lengths.prompt_bins.weight
        held = decode.exceeds(found.places) * decode.queue_ratio**self.tables.capacity.per_iteration
        paused = held * decode.load / self._joining(found.rate)
        return np.asarray(own + 2.0 * queue.company_s[:, 0] + paused)


def _work(tables: Tables, found: Balance, rate: FloatArray, lengths: LengthMoments) -> tuple[Work, ...]:
    """Iterations per second of both pools; decode iterations are scaled to the tokens that must be emitted."""
    full = found.queue.full_share[:, 0]
    budget, bins = tables.prompts.budget, lengths.prompt_bins
    chunks = np.ceil(bins.size / budget - 1e-9)
    chunk = bins.size / chunks
    own = chunk_batch(
        chunk, (bins.size - chunk) / 2.0 + lengths.ahead_bins, 1.0 / chunks, np.zeros_like(chunk), lengths
    )
    single = Work("prefill", own, (rate * (1.0 - full))[:, None] * bins.weight * chunks)
    packed = Work("prefill", tables.packed, (rate * full * lengths.prompt)[:, None] / budget)
    iterations = found.decode.at_nodes[:, 1:] / found.decode.stepped(found.step_s)
    tokens = (iterations * tables.nodes.batch).sum(axis=1)
    wanted = rate * lengths.decoding_share * lengths.decode
    iterations = iterations * (wanted / np.maximum(tokens, 1e-300))[:, None]
    return single, packed, Work("decode", tables.decode, iterations)
