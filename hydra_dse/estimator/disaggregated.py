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
from hydra_dse.estimator.chain import service_seen
from hydra_dse.estimator.disaggregated_tables import Tables, capacity_of, saturation_of, tables_of
from hydra_dse.estimator.iteration import chunk_batch
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.shortest_first import ordered
from hydra_dse.estimator.solution import JUST_BELOW, Intake, Solution, Work
from hydra_dse.estimator.stages import Entry, Stream, held_back, parked
from hydra_dse.estimator.tandem import Balance, balance
from hydra_dse.estimator.transfers import handed_over_per_s, handed_over_s
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Disaggregated:
    """Solver of disaggregated designs; everything that does not depend on the rate is computed once."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: Tables
    saturation_per_s: FloatArray

    @property
    def intake(self) -> Intake:
        """Prompts of prefill alone, sequences that decode, and finished prompts that may wait for a slot."""
        capacity = self.tables.capacity
        prompts = self.tables.prompts.prompts_per_s(self.lengths)
        return Intake(prompts, capacity.limit, np.asarray(capacity.places + capacity.tooth))

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
        percentiles: bool | BoolArray,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,); in a piece of time, at the rates that are served in it."""
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        first = self.profile.scheduling == "sjf"
        found = balance(self.tables, served, self.lengths, arrival_scv, first, transient, phases, self.saturation_per_s)
        return self.solved(found, served, percentiles, transient)

    def solved(
        self, found: Balance, served: FloatArray, percentiles: bool | BoolArray, transient: Transient | None = None
    ) -> Solution:
        """The solution that follows from balanced pools."""
        entry, stream = self._entry(found, served), self._stream(found, served)
        if self.profile.scheduling == "sjf":
            entry = ordered(entry, found.queue.busy, found.decode.load)
        if transient is not None:
            entry = held_back(entry, transient)
            stream = parked(stream, transient, max(self.lengths.decoding_share, 1e-9))
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

    def _entry(self, found: Balance, served: FloatArray) -> Entry:
        blocked = found.decode.exceeds(found.places)
        return found.entry(self.lengths.prompt_bins, blocked, found.held / self._joining(served))

    def _stream(self, found: Balance, served: FloatArray) -> Stream:
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
        return Stream(
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
