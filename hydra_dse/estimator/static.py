"""Colocated serving in closed batches: an idle engine takes up to `B` waiting requests, until the last of them ends.

The chain of `hydra_dse.estimator.bulk` gives how many wait and how large batches are, `static_tables` how long they
take, `static_waits` what an arrival finds.  A request waits for its batch, for the iteration in which its prompt ends,
and for the other prompts of the batch, and decodes beside fewer and fewer others.  Saturation is `B/E[T_B]`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.bulk import BulkState, bulk_queue
from hydra_dse.estimator.iteration import packed_batch, prefill_times
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.solution import JUST_BELOW, Intake, Latency, Solution, Work
from hydra_dse.estimator.static_tables import StaticTables, static_tables, still_active
from hydra_dse.estimator.static_waits import POINTS, Found, found_by_arrivals
from hydra_dse.estimator.transient import Transient
from hydra_dse.model.operators import Batch
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Lives:
    """What happens to requests, as points of shape (n, points) beside prompt bins p or decode points m.

    Attributes:
        weight: of the points; wait_s: until the batch starts; size: of the batch.
        prompt_s: from there to the first token, by prompt bin, (n, points, p).
        tail_s: from the first token to the first decode iteration, mean over prompts, (n, points).
        decode_s: decode iterations up to each point of the steps, (n, points, m).
    """

    weight: FloatArray
    wait_s: FloatArray
    size: FloatArray
    prompt_s: FloatArray
    tail_s: FloatArray
    decode_s: FloatArray


@dataclass(frozen=True)
class Static:
    """Solver of colocated designs with static batches."""

    profile: ServiceProfile
    lengths: LengthMoments
    tables: StaticTables
    alone_s: FloatArray
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Static:
        """Evaluate the profile."""
        tables = static_tables(profile, lengths)
        none = np.zeros((profile.size, 1))
        alone = prefill_times(profile.pools["serve"], profile.token_budget[:, None], none, lengths).alone_s[:, 0]
        rate = np.array(
            [_full_rate(tables, row) if np.isfinite(alone[row]).all() else np.nan for row in range(profile.size)]
        )
        return cls(profile, lengths, tables, alone, rate)

    @property
    def intake(self) -> Intake:
        """Prompts with nothing to decode, members of a batch, and none between prompt and decode."""
        tables = self.tables
        prompts = np.asarray(tables.budget / (self.lengths.prompt * tables.full_s))
        return Intake(prompts, tables.limit, np.zeros_like(tables.limit))

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at arrival rates of shape (n,), as stationary ones in a piece of time."""
        room = rooms_of(self.profile)
        served = np.where(np.isfinite(room), rate, np.minimum(rate, JUST_BELOW * self.saturation_per_s))
        if phases is not None:
            arrival_scv = float(np.nanmax(phases.scv_in(served, self.tables.limit / self.saturation_per_s)))
        known = np.isfinite(self.saturation_per_s)
        states: list[BulkState | None] = []
        found: list[Found] = []
        for row in range(len(rate)):
            if not known[row]:
                states.append(None)
                found.append(nothing_found())
                continue
            times, limit = self.tables.times(row), float(self.tables.limit[row])
            state = bulk_queue(float(served[row]), arrival_scv, times, limit, float(room[row]))
            states.append(state)
            found.append(found_by_arrivals(state, times, float(served[row]), arrival_scv, limit))
        return self._solution(served, states, self._lives(found), percentiles, np.isfinite(room))

    def _lives(self, found: list[Found]) -> Lives:
        tables, lengths = self.tables, self.lengths
        weight, wait, ahead, size = (
            np.stack([getattr(each, name) for each in found]) for name in ("weight", "wait_s", "ahead", "size")
        )
        whole_s = tables.nodes.at(tables.prompt_s, size)
        # A prompt of another size than the mean one makes the batch's prompts so much longer.
        mine = self.alone_s - (self.alone_s @ lengths.prompt_bins.weight)[:, None]
        whole = np.maximum(whole_s[:, :, None] + mine[:, None, :], 0.0)
        budget = tables.budget[:, None, None]
        position = ahead[:, :, None] * lengths.prompt + lengths.prompt_bins.size
        iterations = np.ceil(position / budget - 1e-9)
        total = np.maximum(position, size[:, :, None] * lengths.prompt)
        inside = iterations * budget <= total
        prompt_s = np.where(inside, np.minimum(iterations * tables.full_s[:, None, None], whole), whole)
        tail = np.maximum(whole - prompt_s, 0.0) @ lengths.prompt_bins.weight
        slices = range(tables.own_s.shape[2])
        decode = [tables.nodes.at(np.ascontiguousarray(tables.own_s[:, :, i]), size) for i in slices]
        return Lives(weight, wait, size, prompt_s, tail, np.stack(decode, axis=2))

    def _solution(
        self, served: FloatArray, states: list[BulkState | None], lives: Lives, percentiles: bool, limited: FloatArray
    ) -> Solution:
        lengths, steps = self.lengths, self.tables.steps
        prompt_scv = lengths.prompt2 / lengths.prompt**2 - 1.0
        prompt_mean = lives.prompt_s @ lengths.prompt_bins.weight
        chance = steps.chance * (steps.steps > 0)
        decoding = max(float(chance.sum()), 1e-12)
        stay = np.where(steps.steps > 0, lives.tail_s[:, :, None] + lives.decode_s, 0.0)
        ttft = (lives.weight * (lives.wait_s + prompt_mean)).sum(axis=1)
        scheduled = (lives.weight * prompt_mean).sum(axis=1)
        decode_s = (lives.weight * (stay @ steps.chance)).sum(axis=1)
        each = lives.decode_s @ (chance / np.maximum(steps.steps, 1.0)) / decoding
        tpot = (lives.weight * (each + lives.tail_s * lengths.inverse_decode)).sum(axis=1)
        held = (lives.weight * (stay @ (steps.chance * (lengths.prompt + steps.steps / 2.0)))).sum(axis=1)
        rejected = np.array([np.nan if state is None else state.rejected for state in states])
        accepted = served * np.where(limited, 1.0 - rejected, 1.0)
        zero = np.zeros_like(served)
        return Solution(
            saturation_per_s=self.saturation_per_s,
            served_per_s=accepted,
            ttft=Latency(ttft, self._ttft(lives) if percentiles else None),
            scheduled_mean_s=scheduled,
            tpot=Latency(tpot, per_token(lives, steps.steps, chance, prompt_scv) if percentiles else None),
            tbt=Latency(decode_s / max(lengths.decode * decoding, 1e-12), self._tbt(lives) if percentiles else None),
            e2e=Latency(ttft + decode_s, _end(lives, prompt_mean, stay, steps.chance) if percentiles else None),
            batch_mean=accepted * decode_s,
            kv_tokens=accepted * (held + scheduled * 2.0 * lengths.residual_prompt),
            sequences=accepted * (decode_s + scheduled),
            preemptions=zero,
            work=self._work(accepted, states),
            rejected=rejected if limited.any() else None,
        )

    def _ttft(self, lives: Lives) -> Mixture:
        value = lives.wait_s[:, :, None] + lives.prompt_s
        weight = lives.weight[:, :, None] * self.lengths.prompt_bins.weight
        return Mixture(_flat(value), _flat(weight))

    def _tbt(self, lives: Lives) -> Mixture:
        """The gap before the second token, and iterations beside the members that are still active."""
        steps = self.tables.steps
        width = steps.width
        gap = np.diff(lives.decode_s, axis=2, prepend=0.0) / np.maximum(width, 1e-12)
        tokens = width * still_active(steps)
        weight = lives.weight[:, :, None] * tokens * (width > 0)
        decoding = self.lengths.decoding_share
        first = lives.tail_s + np.where(width > 0, gap, 0.0).max(axis=2)
        share = max(1.0 - decoding / max(float(tokens.sum()), 1e-12), 0.0)
        return Mixture(
            np.hstack((_flat(np.maximum(gap, 1e-12)), first)),
            np.hstack((_flat(weight) * share, lives.weight * decoding)),
        )

    def _work(self, accepted: FloatArray, states: list[BulkState | None]) -> tuple[Work, ...]:
        """Prompt iterations, and decode iterations by slice of steps with the mean number of active members."""
        tables, lengths, steps = self.tables, self.lengths, self.tables.steps
        mean_size = np.array([1.0 if state is None else state.mean_size for state in states])
        size = np.minimum(tables.budget, np.maximum(mean_size * lengths.prompt, 1.0))
        prefill = packed_batch(size[:, None], np.zeros((len(size), 1)), lengths)
        prompts = Work("serve", prefill, (accepted * lengths.prompt / size)[:, None])
        alive = 1.0 - np.concatenate(([0.0], steps.below[:-1]))
        running = np.stack([running_in_slices(state, steps.below) for state in states])
        rate = steps.width * running
        tokens = accepted[:, None] * steps.width * alive
        active = np.maximum(tokens / np.maximum(rate, 1e-300), 1e-9)
        context = active * (lengths.prompt + steps.middle)
        batch = Batch(decode_sequences=active, decode_context_tokens=context, emitted_tokens=active)
        return prompts, Work("serve", batch, rate)


def rooms_of(profile: ServiceProfile) -> FloatArray:
    """Requests that may wait, infinite without a limit, shape (n,)."""
    return np.full(profile.size, np.inf) if profile.max_waiting is None else profile.max_waiting


def nothing_found() -> Found:
    """Points of a design that cannot serve."""
    none = np.full(POINTS, np.nan)
    return Found(none, none, none, np.ones(POINTS), none)


def _full_rate(tables: StaticTables, row: int) -> float:
    limit = tables.limit[row : row + 1]
    return float(limit[0] / tables.times(row).mean(limit)[0])


def running_in_slices(state: BulkState | None, below: FloatArray) -> FloatArray:
    """Batches per second that are still running in each slice of steps."""
    if state is None:
        return np.full(len(below), np.nan)
    ended = np.concatenate(([0.0], below[:-1]))
    return np.asarray(state.probability @ (1.0 - np.minimum(ended, 1.0) ** state.size[:, None]) / state.cycle_s)


def _flat(values: FloatArray) -> FloatArray:
    return values.reshape(len(values), -1)


def per_token(lives: Lives, steps: FloatArray, chance: FloatArray, prompt_scv: float) -> Mixture:
    """TPOT: the other prompts of a batch, at two values of their sum, and the decode iterations, over the steps."""
    some = steps > 0
    spread = np.minimum(np.sqrt(prompt_scv / np.maximum(lives.size, 1.0)), 0.9)
    tails = [lives.tail_s * (1.0 - spread), lives.tail_s * (1.0 + spread)]
    value = [_flat((tail[:, :, None] + lives.decode_s[:, :, some]) / steps[some]) for tail in tails]
    weight = _flat(lives.weight[:, :, None] * chance[some]) / 2.0
    return Mixture(np.hstack(value), np.hstack((weight, weight)))


def _end(lives: Lives, prompt_mean: FloatArray, stay: FloatArray, chance: FloatArray) -> Mixture:
    return Mixture(_flat((lives.wait_s + prompt_mean)[:, :, None] + stay), _flat(lives.weight[:, :, None] * chance))
