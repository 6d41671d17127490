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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import engines, full_pool, latencies
from hydra_dse.estimator.arrays import bounded, side_by_side
from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing, peaked
from hydra_dse.estimator.colocated_tables import (
    Between,
    Delays,
    Impact,
    Saturation,
    Tables,
    delays,
    impact_of,
    saturation_of,
    tables_of,
)
from hydra_dse.estimator.iteration import chunk_batch, decode_batch, packed_batch
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phased_chain import phased_sharing
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.renewal import following
from hydra_dse.estimator.shortest_first import ordered
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.batches import joined
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

JUST_BELOW = 0.998


@dataclass(frozen=True)
class Colocated:
    """Solver of colocated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    impact: Impact
    saturation: Saturation

    @property
    def prompts_per_s(self) -> FloatArray:
        """Prompts that the engine completes with nothing to decode."""
        return np.asarray(1.0 / (self.lengths.prompt * self.tables.prompts.token_s[:, 0]))

    @property
    def slots(self) -> FloatArray:
        """Sequences in service at most."""
        return self.tables.limit

    @property
    def places(self) -> FloatArray:
        """None wait between prompt and decode."""
        return np.zeros_like(self.tables.limit)

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Colocated:
        """Evaluate the profile."""
        tables = tables_of(profile, lengths)
        impact = impact_of(tables, tables.nodes.batch, lengths)
        return cls(profile, lengths, tables, impact, saturation_of(tables, lengths))

    @property
    def saturation_per_s(self) -> FloatArray:
        """Requests per second at most."""
        return self.saturation.rate_per_s

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it."""
        tables, lengths = self.tables, self.lengths
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = delays(self.impact, self._met(served), lengths, tables.prefill_first, arrival_scv)
        residence = lengths.decoding_share * lengths.decode * found.step_s + self.impact.alone_s
        burst = self._burstiness(served, residence, found, arrival_scv, phases)
        state = self._chain(served, residence, burst, transient, phases)
        beside = self._beside(state.at_nodes)
        queue = self._queue(served, residence, arrival_scv, transient, beside, state.in_service / served, phases)
        if queue.dispersion is not None:
            state = self._chain(served, residence, peaked(burst, queue.dispersion), transient)
            beside = self._beside(state.at_nodes)
        stepped = replace(found, step_s=state.stepped(found.step_s))
        stall = self._stall(served, state, queue, stepped, arrival_scv, phases)
        state = self._chain(served, residence + stall.mean_of(lengths.decode_bins)[:, None], burst, transient, phases)
        found = replace(found, step_s=state.stepped(found.step_s))
        entry = self._entry(served, state, queue, found)
        if self.profile.scheduling == "sjf":
            entry = ordered(entry, queue.busy, state.load)
        if transient is not None:
            entry = latencies.held_back(entry, transient)
        stream = replace(self._stream(served, state, found, arrival_scv), stall=stall)
        solution = self._solution(served, state, queue, latencies.timings(entry, stream, lengths, percentiles))
        if queue.left_s is None:
            return solution
        return replace(solution, left_s=queue.left_s, left=queue.left_s / (queue.service_s * beside).sum(axis=1))

    def _met(self, served: FloatArray) -> FloatArray:
        """Prompts per second that delay one decoder at each node, (n, k)."""
        return full_pool.met(served, self.impact.alone_s, self.tables.nodes.batch, self.tables.limit)

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
        found = delays(self.impact, self._met(rate), lengths, self.tables.prefill_first, arrival_scv)
        return np.asarray(lengths.decoding_share * lengths.decode * found.step_s)

    def _beside(self, weight: FloatArray) -> FloatArray:
        """Weights of node 0 and the nodes, (n, k + 1), on the j batches beside which prompts are timed."""
        return self._between.project(weight, self.tables.beside.shape[1])

    @cached_property
    def _between(self) -> Between:
        """Where node 0 and the nodes lie among the j batches."""
        nodes = self.tables.nodes
        return self.tables.beside_of(side_by_side(np.zeros((len(nodes.batch), 1)), nodes.batch))

    @property
    def _work_scv(self) -> FloatArray:
        """Squared coefficient of variation of what a sequence takes of the pool: iterations, or memory × time."""
        lengths, memory = self.lengths, self.tables.memory.binds(self.profile.max_batch)
        return np.asarray((1.0 - memory) * lengths.decode_scv + memory * lengths.work_scv)

    def _burstiness(
        self,
        served: FloatArray,
        residence: FloatArray,
        found: Delays,
        arrival_scv: float,
        phases: Phases | None,
    ) -> Burstiness:
        """Decoders see arrivals in clumps: no one leaves while a prompt delays them, and more may come.

        In the time that decoders run, the clumps are busy periods of delays of load `ρ = λe`, whose number has the
        index of dispersion `(c_a² + ρ²c_e²)/(1 − ρ)²`; its peakedness spreads the batch.
        """
        typical = np.ones_like(served)
        for _ in range(4):
            typical = bounded(served * self._at(residence, typical), 1.0, self.tables.limit)
        slowed = self._at(found.step_s, typical) / self._at(self.tables.step_s, typical)
        each = np.maximum(self._at(found.each_s, typical), 1e-300)
        delay_scv = self._at(found.square, typical) / each**2 - 1.0
        slots = before = np.full(len(served), arrival_scv)
        work, within = self._work_scv, None
        if phases is not None:
            slots = phases.scv_in(served, self._at(residence, typical))
            before = phases.scv_before(served, served / self.saturation_per_s, 1.0 / self.saturation_per_s, work)
            within = self._spread(slowed**2 * arrival_scv + (slowed - 1.0) ** 2 * delay_scv)
        clumps = slowed**2 * slots + (slowed - 1.0) ** 2 * delay_scv
        ones = np.ones(self.profile.size)
        return Burstiness(
            spread=self._spread(clumps),
            arrival=before,
            blocking=np.maximum((before + 1.0) / 2.0, 0.3),
            service=work * ones,
            common=self.saturation.prompts,
            common_scv=self.saturation.prompt_scv,
            within=within,
        )

    def _spread(self, dispersion: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(1.0 + (dispersion - 1.0) * self.lengths.overlap, 0.1))

    def _at(self, values: FloatArray, batch: FloatArray) -> FloatArray:
        return self.tables.nodes.at_each(values, batch)

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

    def _entry(self, served: FloatArray, state: PoolState, queue: PromptQueue, found: Delays) -> latencies.Entry:
        tables = self.tables
        beside = self._beside(state.at_nodes)
        residual, own = tables.step_beside / 2.0, tables.prompts.alone_s
        if self.profile.engines is not None:
            several = self.profile.engines
            own = engines.own_s(tables.prompts, self.lengths.prompt_bins.weight, tables.beside, several)
            residual = engines.until_one_ends(tables.step_beside, tables.beside, several)
        none = np.zeros_like(served)
        wait = (queue.mean_wait_s + (1.0 - queue.waits) * residual) * beside
        return latencies.Entry(
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
        )

    def _stall(
        self,
        served: FloatArray,
        state: PoolState,
        queue: PromptQueue,
        found: Delays,
        arrival_scv: float,
        phases: Phases | None,
    ) -> latencies.Stall:
        """Delay of a request by more prompts than come at random: those it left behind, and those of its burst.

        Between its arrival and its end, a time `t` to its first token and then its life `T`, `m(t + T)` requests
        follow one; the mean iteration counts `λT` of them, and those that end with it delay no one.  A delay `e` gives
        time for others: `e/(1 − λe)`.
        """
        tables, lengths = self.tables, self.lengths
        beside = self._beside(state.at_nodes)
        share = latencies.token_share(state, tables.nodes.batch, found.step_s)
        each = (share * found.each_s).sum(axis=1)
        plain = (share * state.stepped(tables.step_s)).sum(axis=1)
        step = (share * found.step_s).sum(axis=1)
        own = tables.prompts.alone_s @ lengths.prompt_bins.weight
        before = ((queue.mean_wait_s + own) * beside).sum(axis=1)
        mates = (queue.company_s / (lengths.prompt * tables.prompts.token_s) * beside).sum(axis=1)
        life = lengths.decode * step
        full = (share * self.impact.full_s).sum(axis=1)
        followers = following(served * (before + life), arrival_scv, phases) - served * life - mates
        late = np.zeros_like(life)
        if not tables.prefill_first:
            ahead = (queue.waits * queue.wait_s * beside).sum(axis=1)
            late = served * step * (1.0 + ahead / full)
        enter, square = full_pool.that_enter(np.maximum(followers, 0.0), state, tables.nodes.batch, tables.limit)
        open_ = np.maximum(1.0 - state.full, 0.0)
        more = enter + (np.minimum(followers, 0.0) - late) * open_
        some = np.maximum(-np.expm1(-np.maximum(more, 0.0)), 1e-12)
        cap = full if tables.prefill_first else np.maximum(full - step, 0.0)
        delay = each * step / plain
        return latencies.Stall(
            share=some,
            mean_s=np.maximum(more, 0.0) / some * delay,
            variance=(square + late**2) * delay**2,
            cap_s=cap,
            spared_s=np.maximum(-more, 0.0) * delay,
            usual_s=step - plain,
        )

    def _stream(self, served: FloatArray, state: PoolState, found: Delays, arrival_scv: float) -> latencies.Stream:
        tables, batch = self.tables, self.tables.nodes.batch
        alone_s = state.stepped(tables.step_s)
        share = latencies.token_share(state, batch, found.step_s)
        none = np.zeros_like(served)
        variance = full_pool.delay_variance(
            self._met(served),
            full_pool.taken(batch, tables.limit),
            found,
            alone_s,
            arrival_scv,
            self.lengths.decode_scv,
        )
        return latencies.Stream(
            joining_per_s=served * self.lengths.decoding_share,
            state=state,
            batch=batch,
            step_s=found.step_s,
            extra_s=found.step_s - alone_s,
            extra_square=(share * variance).sum(axis=1),
            gaps=self._gaps(served, share, found, alone_s),
            full=none,
            slot_s=none,
            longest_s=none,
            leaving_s=none,
            leaving_scv=none + 1.0,
            moved_s=none,
        )

    def _gaps(self, served: FloatArray, share: FloatArray, found: Delays, alone_s: FloatArray) -> Mixture:
        """Gaps of decode-only iterations, of those with one prompt's last chunk, and of full ones."""
        tables, times, lengths = self.tables, self.tables.prompts, self.lengths
        n = len(served)
        weight = lengths.prompt_bins.weight
        stalled = tables.step_beside[:, :, None] if tables.prefill_first else 0.0
        middle = self._beside(side_by_side(np.zeros((n, 1)), share))
        single = np.minimum(served[:, None] * (1.0 - found.full_share) * found.step_s, 1.0)
        packed = served[:, None] * lengths.prompt * found.step_s / (self.impact.full_s / self.impact.token_s)
        packed = np.minimum(packed * found.full_share, 1.0 - single)
        with_one = (middle[:, :, None] * weight) * (share * single).sum(axis=1)[:, None, None]
        full_s = self.impact.full_s + (alone_s if tables.prefill_first else 0.0)
        return Mixture(
            side_by_side(alone_s, (times.last_s + stalled).reshape(n, -1), full_s),
            side_by_side(share * (1.0 - single - packed), with_one.reshape(n, -1), share * packed),
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
        beside = self._beside(state.at_nodes)
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
