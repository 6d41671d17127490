"""Elastic serving: two pools whose dies change roles by the number of prompts.

Two time scales again.  Prompts and roles are a Markov chain (`role_chain`): in each phase prompts are served at the
speed of that phase's prefill pool.  Decode is slow beside it and sees the mean speed over the phases.  The prompt
queue is that of `prompts` with the one service time at which an M/M/1 queue is as long as the chain's, so that
packing, the variability of prompts and of arrivals act as in a pool that never changes; with equal states it is that
pool.  A change takes what is left of the running iteration, the bytes that move, and what is left of the iteration
that the dies join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.chain import limited_sharing
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.disaggregated_tables import Contention, Tables, capacity_of
from hydra_dse.estimator.elastic_tables import (
    blended,
    pair_tables,
    role_saturation,
    scaled,
    solve_alike,
    speed_beside,
    state_tables,
    summed,
)
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompt_service import packed_service
from hydra_dse.estimator.prompts import PromptQueue, prompt_queue
from hydra_dse.estimator.role_chain import RoleRates, RoleState, phases_of
from hydra_dse.estimator.solution import JUST_BELOW, Intake, Solution, Work
from hydra_dse.estimator.tandem import Balance, burstiness, phased, residence_of, slowed
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import RoleProfile, ServiceProfile

FloatArray = NDArray[np.float64]

ROUNDS = 3
"""Of the fixed point: roles, prompts and decoding."""
MOST_DECODE_LOAD = 0.97
"""Load of decode beyond which finished prompts keep dies from going to prefill."""


@dataclass(frozen=True)
class RoleBalance:
    """Both pools and their roles at one rate.

    Attributes:
        balance: of the pools, as of designs that never change.
        roles: stationary state of the chain.
        rise_s, fall_s: mean time of a change, shape (n, states − 1).
    """

    balance: Balance
    tables: Tables
    roles: RoleState
    rise_s: FloatArray
    fall_s: FloatArray


@dataclass(frozen=True)
class Elastic:
    """Solver of elastic designs; everything that does not depend on the rate is computed once.

    Attributes:
        phases: tables of each phase of the role chain, in its order (changes up and down alike).
    """

    profile: ServiceProfile
    roles: RoleProfile
    lengths: LengthMoments
    phases: tuple[Tables, ...]
    saturation_per_s: FloatArray

    @classmethod
    def of(cls, profile: ServiceProfile, lengths: LengthMoments) -> Elastic:
        """Evaluate the profile."""
        roles = profile.roles
        if roles is None:
            raise ValueError("an elastic profile has role states")
        states = [state_tables(profile, roles, state, lengths) for state in range(roles.size)]
        saturation = role_saturation(states, roles, lengths)
        native = states[roles.native]
        in_progress = np.minimum(saturation * lengths.prompt * native.prompts.token_s[:, 0], 1.0)
        capacity = capacity_of(profile, lengths, in_progress)
        states = [replace(tables, capacity=capacity) for tables in states]
        pairs = {key: pair_tables(profile, roles, states, key, lengths) for key in roles.contention}
        phases = tuple(pairs[phase.prefill, phase.decode] for phase in phases_of(roles.size))
        return cls(profile, roles, lengths, phases, role_saturation(states, roles, lengths))

    @property
    def intake(self) -> Intake:
        """As of fixed dies; prompts of prefill alone, with all the dies that it may have."""
        rates = np.stack([t.prompts.prompts_per_s(self.lengths) for t in self._states], axis=1)
        highest = np.take_along_axis(rates, self.roles.highest[:, None], axis=1)[:, 0]
        capacity = self.phases[0].capacity
        return Intake(highest, capacity.limit, np.asarray(capacity.places + capacity.tooth))

    @property
    def _states(self) -> tuple[Tables, ...]:
        return self.phases[: self.roles.size]

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
        found = self.balanced(served, arrival_scv, transient, phases)
        inner = Disaggregated(self.profile, self.lengths, found.tables, self.saturation_per_s)
        solution = inner.solved(found.balance, served, percentiles, transient)
        return replace(solution, work=self._work(solution.work, found))

    def balanced(
        self, rate: FloatArray, arrival_scv: float, transient: Transient | None = None, phases: Phases | None = None
    ) -> RoleBalance:
        """Solve the roles and both pools: each needs the others' shares of time."""
        lengths, first = self.lengths, self.phases[0]
        first_sjf = self.profile.scheduling == "sjf"
        decoding = max(lengths.decoding_share, 1e-9)
        at_nodes = np.zeros((len(rate), first.nodes.count + 1))
        at_nodes[:, 0] = 1.0
        decode_busy = np.full(len(rate), 0.5)
        for _ in range(ROUNDS):
            prompts = [slowed(tables, at_nodes) for tables in self.phases]
            rates, scv = self._rates(rate, arrival_scv, prompts, decode_busy)
            roles = solve_alike(rates, (scv + arrival_scv) / 2.0)
            served = roles.busy * rates.service
            weight = served / np.maximum(served.sum(axis=1, keepdims=True), 1e-300)
            mean = blended(prompts, weight)
            queue = self._queue(rate, arrival_scv, mean, roles, first_sjf, transient, phases)
            tables, step_s, beside = self._decode(rate * decoding, roles, queue, mean)
            residence = residence_of(tables, step_s, lengths)
            burst = burstiness(
                queue, lengths.decode * step_s[:, -1], lengths, np.full(len(rate), arrival_scv), tables.work_scv
            )
            if phases is not None:
                burst = phased(phases, rate * decoding, residence[:, -1], residence[:, -1], tables, queue, lengths)
            decode = limited_sharing(rate * decoding, tables.nodes, residence, tables.limit, burst)
            at_nodes, decode_busy = decode.at_nodes, 1.0 - decode.at_nodes[:, 0]
        places = tables.capacity.held_back_beyond(decode)
        balance = Balance(rate, queue, decode, step_s, beside, mean, places, decode.beyond(places))
        return RoleBalance(balance, tables, roles, rates.rise_s, rates.fall_s)

    def _rates(
        self, rate: FloatArray, arrival_scv: float, prompts: Sequence[PrefillTimes], decode_busy: FloatArray
    ) -> tuple[RoleRates, FloatArray]:
        """Rates of the chain, and the squared coefficient of variation of the native service."""
        weight = self.lengths.prompt_bins.weight
        each = [packed_service(rate[:, None], times, self.lengths, arrival_scv)[0][:, 0] for times in prompts]
        service = np.stack([1.0 / (one @ weight) for one in each], axis=1)
        native = each[self.roles.native]
        scv = (native**2 @ weight) * service[:, self.roles.native] ** 2 - 1.0
        # Of the prompt that is met under way: long ones are met for longer.
        iterations = (native**2 @ weight) / ((native**2 / prompts[self.roles.native].iterations[:, 0]) @ weight)
        middle = self.phases[0].nodes.count // 2
        step_s = np.stack([tables.step_s[:, middle] for tables in self._states], axis=1)
        residual = 0.5 * step_s * decode_busy[:, None]
        roles = self.roles
        rise_s = residual[:, :-1] + roles.move_s[..., 0]
        fall_s = roles.move_s[..., 1] + residual[:, 1:]
        return RoleRates(
            rate, service, iterations, rise_s, fall_s, roles.up, roles.down, roles.lowest, roles.highest
        ), scv

    def _queue(
        self,
        rate: FloatArray,
        arrival_scv: float,
        mean: PrefillTimes,
        roles: RoleState,
        shortest_first: bool,
        transient: Transient | None,
        phases: Phases | None,
    ) -> PromptQueue:
        """The queue of a pool that never changes and is as long as the chain's."""
        waiting = np.maximum(roles.waiting, 1e-12)
        alike = (np.sqrt(waiting**2 + 4.0 * waiting) - waiting) / 2.0
        weight = self.lengths.prompt_bins.weight
        full = packed_service(rate[:, None], mean, self.lengths, arrival_scv)[2]
        scale = np.ones_like(rate)
        for _ in range(3):
            each = packed_service(rate[:, None], scaled(mean, scale), self.lengths, arrival_scv)[0]
            scale = scale * alike / (rate * (each @ weight)[:, 0])
        queue = prompt_queue(
            rate[:, None],
            scaled(mean, scale),
            self.lengths,
            arrival_scv,
            shortest_first=shortest_first,
            transient=transient,
            phases=phases,
        )
        if transient is not None:
            return queue
        busy = roles.busy.sum(axis=1)
        waits = np.minimum(queue.waits * (busy / alike)[:, None], 1.0)
        return replace(
            queue,
            busy=busy[:, None],
            full_share=full,
            waits=waits,
            wait_s=queue.waits * queue.wait_s / np.maximum(waits, 1e-300),
            wait_shape=np.clip(queue.wait_shape / np.maximum(roles.wait_scv, 0.02)[:, None], 0.05, 50.0),
        )

    def _decode(
        self, joining: FloatArray, roles: RoleState, queue: PromptQueue, mean: PrefillTimes
    ) -> tuple[Tables, FloatArray, FloatArray]:
        """Decode as it is on average over the phases: tables alone, iterations beside prefill, and speed beside it."""
        beside_s = self._beside(roles, queue)
        speed = np.zeros_like(self.phases[0].step_s)
        for column, tables in enumerate(self.phases):
            some = roles.busy[:, column] / np.maximum(roles.busy.sum(axis=1), 1e-300)
            speed += some[:, None] * speed_beside(tables, queue.full_share)
        time = self._spared(joining, roles, np.stack([self._completes_per_s(rate) for rate in beside_s], axis=1))
        step_s = 1.0 / summed(time, [1.0 / tables.step_s for tables in self.phases])
        tables = replace(self.phases[0], step_s=step_s, prompts=mean, contention=self._contention(roles))
        return tables, 1.0 / summed(time, beside_s), np.clip(speed, 1e-6, 1.0)

    def _completes_per_s(self, steps_per_s: FloatArray) -> FloatArray:
        """Requests per second that a full decode batch completes at these iterations per second, shape (n,)."""
        slots = self.phases[0].limit
        steps = self.phases[0].nodes.at(steps_per_s, slots[:, None])[:, 0]
        return np.asarray(steps * slots / self.lengths.decode)

    def _beside(self, roles: RoleState, queue: PromptQueue) -> list[FloatArray]:
        """Decode iterations per second in each phase, beside the prefill that runs in it, shape (n, k)."""
        full, found = queue.full_share, []
        for column, tables in enumerate(self.phases):
            beside = speed_beside(tables, full)
            running = (roles.busy[:, column] / np.maximum(roles.share[:, column], 1e-300))[:, None]
            found.append((1.0 - running + running * beside) / tables.step_s)
        return found

    def _spared(self, joining: FloatArray, roles: RoleState, per_s: FloatArray) -> FloatArray:
        """Shares of time in the phases: where they leave decode too slow, finished prompts push dies back to it."""
        lowest = np.eye(len(self.phases))[self.roles.lowest]
        mean, best = (roles.share * per_s).sum(axis=1), (lowest * per_s).sum(axis=1)
        missing = np.nan_to_num(joining / MOST_DECODE_LOAD - mean)
        back = np.clip(missing / np.maximum(best - mean, 1e-300), 0.0, 1.0)[:, None]
        return np.asarray((1.0 - back) * roles.share + back * lowest)

    def _work(self, work: tuple[Work, ...], found: RoleBalance) -> tuple[Work, ...]:
        """Iterations by the state of their pool: prompts by where they end, decode by time and speed."""
        phases, roles = phases_of(self.roles.size), found.roles
        prompts, steps = (np.zeros((len(roles.share), self.roles.size)) for _ in range(2))
        for number, (phase, tables) in enumerate(zip(phases, self.phases, strict=True)):
            prompts[:, phase.prefill] += roles.busy[:, number] / tables.prompts.full_s[:, 0]
            steps[:, phase.decode] += roles.share[:, number] / tables.step_s[:, tables.nodes.count // 2]
        split = []
        for one in work:
            share = steps if one.pool == "decode" else prompts
            share = share / np.maximum(share.sum(axis=1, keepdims=True), 1e-300)
            split += [
                Work(self.roles.name(one.pool, state), one.batch, one.rate_per_s * share[:, state, None])
                for state in range(self.roles.size)
            ]
        return tuple(split)

    def _contention(self, roles: RoleState) -> Contention:
        names = ("prefill_single", "prefill_packed", "decode_single", "decode_packed", "by_size")
        return Contention(
            *(
                np.asarray(
                    sum(
                        roles.share[:, i, None] * getattr(tables.contention, name)
                        for i, tables in enumerate(self.phases)
                    )
                )
                for name in names
            )
        )
