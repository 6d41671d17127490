"""Colocated serving: one pool runs decode tokens and prompt chunks in the same engine.

Chunked: an iteration decodes every sequence and gives the rest of the token budget to prompts; a prompt delays the
decoders by what it adds to its iterations.  Prefill first: prompts run in iterations of their own while decoders
stall; a prompt delays them by its whole time.

With `b` decoders, `d(b)` a decode-only iteration and `e(b)` the mean delay per prompt, decoders advance once per
`τ(b) = min(d/(1 − λe), f)`, `f` a full iteration (no bound in prefill-first).  The slow chain runs over sequences in
service; the prompt queue has the speed of each `b` for about as long as a sequence stays.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import engines, latencies
from hydra_dse.estimator.arrays import side_by_side
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing, peaked
from hydra_dse.estimator.colocated_decoding import burstiness_of, stall_of, stream_of
from hydra_dse.estimator.colocated_pool import ColocatedPool
from hydra_dse.estimator.iteration import chunk_batch, decode_batch, packed_batch
from hydra_dse.estimator.phased_chain import phased_sharing
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompt_impact import Delays, delays
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.shortest_first import ordered
from hydra_dse.estimator.solution import JUST_BELOW, Solution, Work
from hydra_dse.estimator.stages import Entry, held_back
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.batches import joined

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Colocated(ColocatedPool):
    """Solver of colocated designs; everything that does not depend on the rate is computed once."""

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool | BoolArray,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it."""
        tables, lengths = self.tables, self.lengths
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = delays(self.impact, self.met(served), lengths, tables.prefill_first, arrival_scv)
        residence = lengths.decoding_share * lengths.decode * found.step_s + self.impact.alone_s
        burst = burstiness_of(self, served, residence, found, arrival_scv, phases)
        state = self._chain(served, residence, burst, transient, phases)
        beside = self.beside(state.at_nodes)
        queue = self._queue(served, residence, arrival_scv, transient, beside, state.in_service / served, phases)
        if queue.dispersion is not None:
            state = self._chain(served, residence, peaked(burst, queue.dispersion), transient)
            beside = self.beside(state.at_nodes)
        stepped = replace(found, step_s=state.stepped(found.step_s))
        stall = stall_of(self, served, state, queue, stepped, arrival_scv, phases)
        state = self._chain(served, residence + stall.mean_of(lengths.decode_bins)[:, None], burst, transient, phases)
        found = replace(found, step_s=state.stepped(found.step_s))
        entry = self._entry(served, state, queue, found)
        if self.profile.scheduling == "sjf":
            entry = ordered(entry, queue.busy, state.load)
        if transient is not None:
            entry = held_back(entry, transient)
        stream = replace(stream_of(self, served, state, found, arrival_scv), stall=stall)
        solution = self._solution(served, state, queue, latencies.timings(entry, stream, lengths, percentiles))
        if queue.left_s is None:
            return solution
        return replace(solution, left_s=queue.left_s, left=queue.left_s / (queue.service_s * beside).sum(axis=1))

    def _chain(
        self,
        served: FloatArray,
        residence: FloatArray,
        burst: Burstiness,
        transient: Transient | None,
        phases: Phases | None = None,
    ) -> PoolState:
        """The slow chain; its highest rate is the saturation rate, whatever else limits it."""
        limit = self.tables.limit
        load = served / self.saturation_per_s
        if phases is not None and transient is None:
            one, two = (
                residence + self._held(served * share, arrival_scv=1.0) - self._held(served, arrival_scv=1.0)
                for share in phases.relative
            )
            return phased_sharing(served, self.tables.nodes, (one, two), limit, burst, load, phases)
        if transient is None:
            return limited_sharing(served, self.tables.nodes, residence, limit, burst, load=load)
        offered, horizon = np.maximum(transient.offered, served), transient.horizon_per_s
        return limited_sharing(
            served, self.tables.nodes, residence, limit, burst, load=load, offered=offered, horizon_per_s=horizon
        )

    def _held(self, rate: FloatArray, arrival_scv: float) -> FloatArray:
        """Time that decode takes beside prompts of a rate, at each node, (n, k)."""
        lengths = self.lengths
        found = delays(self.impact, self.met(rate), lengths, self.tables.prefill_first, arrival_scv)
        return np.asarray(lengths.decoding_share * lengths.decode * found.step_s)

    def _queue(
        self,
        served: FloatArray,
        residence: FloatArray,
        arrival_scv: float,
        transient: Transient | None,
        beside: FloatArray,
        life_s: FloatArray,
        phases: Phases | None,
    ) -> PromptQueue:
        tables = self.tables
        rate = np.broadcast_to(served[:, None], tables.beside.shape)
        # The number in service changes with the mean remaining life of those that are in it.
        change = 2.0 / ((1.0 + self.lengths.decode_scv) * life_s)
        return prompt_queue(
            rate,
            tables.prompts,
            self.lengths,
            arrival_scv,
            change,
            self.profile.scheduling == "sjf",
            transient,
            beside,
            life_s,
            phases,
        )

    def _entry(self, served: FloatArray, state: PoolState, queue: PromptQueue, found: Delays) -> Entry:
        tables = self.tables
        beside = self.beside(state.at_nodes)
        (residual, running), own = self._until_a_step_ends(state, beside), tables.prompts.alone_s
        if self.profile.engines is not None:
            several = self.profile.engines
            own = engines.own_s(tables.prompts, self.lengths.prompt_bins.weight, tables.beside, several)
            residual, running = engines.until_one_ends(tables.step_beside, tables.beside, several), None
        none = np.zeros_like(served)
        wait = (queue.mean_wait_s + (1.0 - queue.waits) * residual) * beside
        return Entry(
            own_s=own,
            own_bins=self.lengths.prompt_bins,
            waits=queue.waits,
            wait_s=queue.wait_points,
            behind=queue.behind,
            behind_lone=queue.behind_lone,
            beside=beside,
            mean_wait_s=wait.sum(axis=1),
            residual_s=residual,
            blocked=state.exceeds(none),
            blocked_s=state.beyond(none) / served,
            running=running,
        )

    def _until_a_step_ends(self, state: PoolState, beside: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Mean rest of the running decode step, and the share of those who find one, (n, j).

        A single sequence already makes a step of nearly full length, and the second of the j batches may be dozens:
        nothing is interpolated up from the empty one, which gets what makes the mean over the chain's nodes right.
        """
        residual = self.tables.step_beside / 2.0
        mean = (state.at_nodes[:, 1:] * self.tables.step_s).sum(axis=1) / 2.0
        rest = mean - (beside[:, 1:] * residual[:, 1:]).sum(axis=1)
        first = np.clip(rest / np.maximum(beside[:, 0], 1e-12), 0.0, residual[:, 1])
        each = mean / np.maximum(state.at_nodes[:, 1:].sum(axis=1), 1e-12)
        running = np.ones_like(residual)
        residual[:, 0], running[:, 0] = first, np.clip(first / np.maximum(each, 1e-300), 0.0, 1.0)
        return residual, running

    def _solution(
        self, served: FloatArray, state: PoolState, queue: PromptQueue, timings: latencies.Timings
    ) -> Solution:
        tables, lengths = self.tables, self.lengths
        beside = self.beside(state.at_nodes)
        own = (tables.prompts.alone_s @ lengths.prompt_bins.weight * beside).sum(axis=1)
        mates = (queue.company_s * beside).sum(axis=1)
        scheduled = own + 2.0 * mates
        prefilling = served * scheduled
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
            kv_tokens=timings.decoding * lengths.context + prefilling * lengths.prefilling_tokens,
            sequences=timings.decoding + prefilling,
            preemptions=tables.memory.binds(self.profile.max_batch) * state.full * again,
            work=self._work(served, state, queue),
        )

    def _work(self, served: FloatArray, state: PoolState, queue: PromptQueue) -> tuple[Work, ...]:
        """Iterations per second.  Decoders ride in chunked prompt iterations: their bytes are counted there."""
        tables, lengths = self.tables, self.lengths
        beside = self.beside(state.at_nodes)
        full = (queue.full_share * beside).sum(axis=1)
        budget = (tables.prompts.budget * beside).sum(axis=1)
        riding = np.zeros_like(served) if tables.prefill_first else (tables.beside * beside).sum(axis=1)
        size = np.minimum(lengths.prompt, budget)
        single_rate = served * (1.0 - full) * lengths.prompt / size
        packed_rate = served * full * lengths.prompt / budget
        none, one = np.zeros((len(served), 1)), np.ones((len(served), 1))
        single = chunk_batch(size[:, None], none + lengths.ahead, one, riding[:, None], lengths)
        packed = packed_batch(budget[:, None], riding[:, None], lengths)
        iterations = state.at_nodes[:, 1:] / state.stepped(tables.step_s)
        tokens = (iterations * tables.nodes.batch).sum(axis=1)
        wanted = served * lengths.decoding_share * lengths.decode - (single_rate + packed_rate) * riding
        iterations = iterations * np.maximum(wanted / np.maximum(tokens, 1e-300), 0.0)[:, None]
        batches = joined((single, packed, decode_batch(tables.nodes.batch, lengths)))
        rates = side_by_side(single_rate[:, None], packed_rate[:, None], iterations)
        return (Work("serve", batches, rates),)
