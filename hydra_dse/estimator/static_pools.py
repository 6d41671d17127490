"""Disaggregated serving with static batches: the prompt queue of two pools, and a decode pool that runs closed batches.

Finished prompts wait until the running batch ends, which shows in TPOT; those beyond the `B` places between the pools
pause prefill, which shows in TTFT.  What the pools take from each other comes from the solver of continuous batches at
the same rate.  Saturation is `B/E[max(T_B, time to prefill B prompts)]`, both taken as normal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from hydra_dse.estimator.bulk import BatchTimes, BulkState, bulk_queue
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.first_tokens import ttft_spread
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.solution import JUST_BELOW, Intake, Latency, Solution, Work
from hydra_dse.estimator.stages import Entry
from hydra_dse.estimator.static import Lives, nothing_found, per_token, running_in_slices
from hydra_dse.estimator.static_tables import StaticTables, static_tables
from hydra_dse.estimator.static_waits import Found, found_by_arrivals
from hydra_dse.estimator.tandem import Balance, balance
from hydra_dse.estimator.transfers import handed_over_per_s
from hydra_dse.estimator.transient import Transient
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]

SUMS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
SUM_CUTS = np.array([0.0, 0.06, 0.175, 0.375, 0.625, 0.825, 0.94, 1.0])


@dataclass(frozen=True)
class StaticPools:
    """Solver of disaggregated designs whose decode pool runs static batches."""

    inner: Disaggregated
    lengths: LengthMoments
    tables: StaticTables
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> StaticPools:
        """Evaluate the profile."""
        inner = Disaggregated.of(profile, lengths)
        tables = static_tables(profile, replace(lengths, decoding_share=1.0))
        limit = np.minimum(_saturation(inner, tables, lengths), handed_over_per_s(profile, lengths))
        return cls(inner, lengths, tables, limit)

    @property
    def intake(self) -> Intake:
        """Prompts of prefill alone, members of a batch, and as many finished prompts that may wait for the next."""
        return Intake(self.inner.intake.prompts_per_s, self.tables.limit, self.tables.limit)

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,), as stationary ones in a piece of time."""
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        found = balance(self.inner.tables, served, self.lengths, arrival_scv, self._shortest_first, None, phases)
        slow = _slowdown(self.inner, found)
        joining = served * max(self.lengths.decoding_share, 1e-9)
        states: list[BulkState | None] = []
        points: list[Found] = []
        for row in range(len(rate)):
            if not np.isfinite(joining[row] * slow[row]):
                states.append(None)
                points.append(nothing_found())
                continue
            times, limit = _slowed(self.tables.times(row), float(slow[row])), float(self.tables.limit[row])
            state = bulk_queue(float(joining[row]), arrival_scv, times, limit)
            states.append(state)
            points.append(found_by_arrivals(state, times, float(joining[row]), arrival_scv, limit))
        return self._solution(served, found, slow, states, points, percentiles)

    @property
    def _shortest_first(self) -> bool:
        return self.inner.profile.scheduling == "sjf"

    def _solution(
        self,
        served: FloatArray,
        found: Balance,
        slow: FloatArray,
        states: list[BulkState | None],
        points: list[Found],
        percentiles: bool,
    ) -> Solution:
        lengths, steps = self.lengths, self.tables.steps
        lives, held = self._lives(points, slow)
        share, decode = lengths.decoding_share, (lives.decode_s * steps.chance).sum(axis=2)
        entry = self._entry(found, lives, held)
        ttft = entry.mean_own_s + entry.mean_wait_s + entry.blocked_s
        slot = (lives.weight * lives.tail_s).sum(axis=1)
        busy = (lives.weight * decode).sum(axis=1)
        some = np.where(steps.steps > 0, steps.chance / np.maximum(steps.steps, 1.0), 0.0)
        tpot = (lives.weight * (lives.decode_s @ some)).sum(axis=1) + slot * lengths.inverse_decode
        first = ttft_spread(entry) if percentiles else None
        scheduled = self.inner.scheduled_s(found)
        rate = served * share
        weighted = lengths.prompt + steps.steps / 2.0
        kv = rate * ((lives.weight * (lives.decode_s @ (steps.chance * weighted))).sum(axis=1) + slot * lengths.prompt)
        return Solution(
            saturation_per_s=self.saturation_per_s,
            served_per_s=served,
            ttft=Latency(ttft, first),
            scheduled_mean_s=scheduled,
            tpot=Latency(tpot, per_token(lives, steps.steps, steps.chance, 0.0) if percentiles else None),
            tbt=Latency((slot + busy) / lengths.decode, self._gaps(lives) if percentiles else None),
            e2e=Latency(ttft + share * (slot + busy), None if first is None else self._end(first, lives)),
            batch_mean=rate * busy,
            kv_tokens=kv + served * scheduled * 2.0 * lengths.residual_prompt,
            sequences=rate * (slot + busy) + served * scheduled,
            preemptions=np.zeros_like(served),
            work=self._work(served, found, states),
        )

    def _lives(self, points: list[Found], slow: FloatArray) -> tuple[Lives, FloatArray]:
        """From the first token on, and the part of each wait in which prefill is paused, (n, points)."""
        tables = self.tables
        weight, wait, queue, size = (
            np.stack([getattr(each, name) for each in points]) for name in ("weight", "wait_s", "queue", "size")
        )
        full_s = np.array([tables.times(row).mean(tables.limit[row : row + 1])[0] for row in range(len(slow))]) * slow
        # Of the batches ahead the last one is waited for behind prefill, the others before it.
        held = np.where(queue >= tables.limit[:, None], np.maximum(wait - full_s[:, None], 0.0), 0.0)
        slices = range(tables.own_s.shape[2])
        decode = [tables.nodes.at(np.ascontiguousarray(tables.own_s[:, :, i]), size) for i in slices]
        decode_s = np.stack(decode, axis=2) * slow[:, None, None]
        return Lives(weight, np.zeros_like(wait), size, np.zeros((*wait.shape, 1)), wait - held, decode_s), held

    def _entry(self, found: Balance, lives: Lives, held: FloatArray) -> Entry:
        blocked = (lives.weight * (held > 0)).sum(axis=1)
        return found.entry(self.lengths.prompt_bins, blocked, (lives.weight * held).sum(axis=1))

    def _gaps(self, lives: Lives) -> Mixture:
        steps, n = self.tables.steps, len(lives.weight)
        width = steps.width
        gap = np.diff(lives.decode_s, axis=2, prepend=0.0) / np.maximum(width, 1e-12)
        alive = 1.0 - np.concatenate(([0.0], steps.below[:-1]))
        weight = lives.weight[:, :, None] * (width * alive)
        first = np.maximum(lives.tail_s, 0.0) + gap.max(axis=2)
        share = 1.0 - 1.0 / self.lengths.decode
        return Mixture(
            np.hstack((np.maximum(gap, 1e-12).reshape(n, -1), first)),
            np.hstack((weight.reshape(n, -1) * share, lives.weight)),
        )

    def _end(self, first: Mixture, lives: Lives) -> Mixture:
        """First token and the rest as if independent; nothing more for requests of one token."""
        n, share = len(lives.weight), self.lengths.decoding_share
        start = first.quantiles(SUMS)
        stay = Mixture(
            (lives.tail_s[:, :, None] + lives.decode_s).reshape(n, -1),
            (lives.weight[:, :, None] * self.tables.steps.chance).reshape(n, -1),
        ).quantiles((0.025, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96, 0.99, 0.998))
        weight = share * np.array([0.06, 0.09, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.08, 0.045, 0.019, 0.006])
        value = np.hstack(((start[:, :, None] + stay[:, None, :]).reshape(n, -1), start))
        both = (np.diff(SUM_CUTS)[:, None] * weight).ravel()
        return Mixture(value, np.tile(np.concatenate((both, np.diff(SUM_CUTS) * (1.0 - share))), (n, 1)))

    def _work(self, served: FloatArray, found: Balance, states: list[BulkState | None]) -> tuple[Work, ...]:
        """Prompt iterations as of two pools; decode iterations by slice of steps."""
        lengths, steps = self.lengths, self.tables.steps
        prompts = [work for work in self.inner.work(found, served) if work.pool == "prefill"]
        alive = 1.0 - np.concatenate(([0.0], steps.below[:-1]))
        rate = steps.width * np.stack([running_in_slices(state, steps.below) for state in states])
        tokens = (served * lengths.decoding_share)[:, None] * steps.width * alive
        active = np.maximum(tokens / np.maximum(rate, 1e-300), 1e-9)
        context = active * (lengths.prompt + steps.middle)
        batch = Batch(decode_sequences=active, decode_context_tokens=context, emitted_tokens=active)
        return (*prompts, Work("decode", batch, rate))


def _slowed(times: BatchTimes, factor: float) -> BatchTimes:
    return BatchTimes(times.size, times.seconds * factor, times.weight)


def _slowdown(inner: Disaggregated, found: Balance) -> FloatArray:
    """Decode iterations beside prefill over those alone, mean over the batches met, shape (n,)."""
    weight = found.decode.at_nodes[:, 1:]
    ratio = found.step_s / inner.tables.step_s
    return np.asarray((weight * ratio).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-300), dtype=np.float64)


def _saturation(inner: Disaggregated, tables: StaticTables, lengths: LengthMoments) -> FloatArray:
    """Requests per second when prefill always has prompts: the decode pool waits for the slower of both."""
    share = max(lengths.decoding_share, 1e-9)
    limit = tables.limit
    rate = np.asarray(inner.saturation_per_s, dtype=np.float64)
    for _ in range(3):
        found = balance(inner.tables, np.minimum(rate, JUST_BELOW * inner.saturation_per_s), lengths, 1.0)
        slow = _slowdown(inner, found)
        mean, square = np.full_like(rate, np.nan), np.full_like(rate, np.nan)
        for row in np.flatnonzero(np.isfinite(rate * slow)):
            seconds, weight = tables.times(int(row)).of(limit[row : row + 1])
            mean[row] = slow[row] * (seconds * weight).sum()
            square[row] = (slow[row] * seconds[0]) ** 2 @ weight[0]
        prompt = found.prompts.token_s[:, 0] * lengths.prompt / share
        fill = limit * prompt
        variance = square - mean**2 + limit * prompt**2 * (lengths.prompt2 / lengths.prompt**2 - 1.0)
        width = np.sqrt(np.maximum(variance, 1e-18))
        z = (mean - fill) / width
        longer = mean * ndtr(z) + fill * ndtr(-z) + width * np.exp(-z * z / 2.0) / np.sqrt(2.0 * np.pi)
        rate = limit / longer / share
    return rate
