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
from hydra_dse.estimator.disaggregated import (
    JUST_BELOW,
    Balance,
    Disaggregated,
    burstiness,
    phased,
    residence_of,
    slowed,
)
from hydra_dse.estimator.disaggregated_tables import (
    Contention,
    Tables,
    capacity_of,
    contention_of,
    saturation_of,
    tables_of,
)
from hydra_dse.estimator.iteration import PrefillTimes
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompts import PromptQueue, packed_service, prompt_queue
from hydra_dse.estimator.role_chain import RoleRates, RoleState, phases_of, solve_roles
from hydra_dse.estimator.solution import Solution, Work
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import RoleProfile, ServiceProfile

FloatArray = NDArray[np.float64]

ROUNDS = 3
MOST_DECODE_LOAD = 0.97
"""Load of decode beyond which finished prompts keep dies from going to prefill."""
HIGHEST_LEVEL = 200.0
"""A threshold of more prompts is taken as this many."""


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
        states = [_state_tables(profile, roles, state, lengths) for state in range(roles.size)]
        saturation = role_saturation(states, roles, lengths)
        native = states[roles.native]
        in_progress = np.minimum(saturation * lengths.prompt * native.prompts.token_s[:, 0], 1.0)
        capacity = capacity_of(profile, lengths, in_progress)
        states = [replace(tables, capacity=capacity) for tables in states]
        pairs = {key: _pair_tables(profile, roles, states, key, lengths) for key in roles.contention}
        phases = tuple(pairs[phase.prefill, phase.decode] for phase in phases_of(roles.size))
        return cls(profile, roles, lengths, phases, role_saturation(states, roles, lengths))

    @property
    def prompts_per_s(self) -> FloatArray:
        """Prompts that prefill alone completes with all the dies that it may have."""
        rates = np.stack([1.0 / (self.lengths.prompt * t.prompts.token_s[:, 0]) for t in self._states], axis=1)
        return np.take_along_axis(rates, self.roles.highest[:, None], axis=1)[:, 0]

    @property
    def slots(self) -> FloatArray:
        """Sequences in service at most."""
        return self.phases[0].limit

    @property
    def places(self) -> FloatArray:
        """Finished prompts that may wait for a slot."""
        return np.asarray(self.phases[0].capacity.places + self.phases[0].capacity.tooth)

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
            mean = _blend(prompts, weight)
            queue = self._queue(rate, arrival_scv, mean, roles, first_sjf, transient, phases)
            tables, step_s, beside = self._decode(rate * decoding, roles, queue, mean)
            residence = residence_of(tables, step_s, lengths)
            burst = burstiness(queue, step_s[:, -1], lengths, np.full(len(rate), arrival_scv), tables.work_scv)
            if phases is not None:
                burst = phased(phases, rate * decoding, residence[:, -1], tables, queue, lengths)
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
            speed += some[:, None] * _speed_beside(tables, queue.full_share)
        time = self._spared(joining, roles, np.stack([self._completes_per_s(rate) for rate in beside_s], axis=1))
        step_s = 1.0 / _summed(time, [1.0 / tables.step_s for tables in self.phases])
        tables = replace(self.phases[0], step_s=step_s, prompts=mean, contention=self._contention(roles))
        return tables, 1.0 / _summed(time, beside_s), np.clip(speed, 1e-6, 1.0)

    def _completes_per_s(self, steps_per_s: FloatArray) -> FloatArray:
        """Requests per second that a full decode batch completes at these iterations per second, shape (n,)."""
        steps = self.phases[0].nodes.at(steps_per_s, self.slots[:, None])[:, 0]
        return np.asarray(steps * self.slots / self.lengths.decode)

    def _beside(self, roles: RoleState, queue: PromptQueue) -> list[FloatArray]:
        """Decode iterations per second in each phase, beside the prefill that runs in it, shape (n, k)."""
        full, found = queue.full_share, []
        for column, tables in enumerate(self.phases):
            beside = _speed_beside(tables, full)
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


def _state_tables(profile: ServiceProfile, roles: RoleProfile, state: int, lengths: LengthMoments) -> Tables:
    """What is asked of the pools in one state."""
    return tables_of(replace(profile, pools=roles.pools[state], contention=roles.contention[state, state]), lengths)


def _pair_tables(
    profile: ServiceProfile,
    roles: RoleProfile,
    states: Sequence[Tables],
    key: tuple[int, int],
    lengths: LengthMoments,
) -> Tables:
    """The same while prefill is in one state and decode in another."""
    prefill, decode = states[key[0]], states[key[1]]
    if key[0] == key[1]:
        return prefill
    beside = replace(profile, contention=roles.contention[key])
    contention = contention_of(
        beside, prefill.prompts, prefill.single, prefill.packed, decode.decode, prefill.nodes, lengths
    )
    return replace(prefill, step_s=decode.step_s, contention=contention)


def solve_alike(rates: RoleRates, variability: FloatArray) -> RoleState:
    """Solve the chain with the threshold at which its work is that of the queue.

    A queue of variability `v = (c_a² + c_s²)/2` is as long as an exponential one of prompts `v` times as large.  So
    many of those as make up the work of `up − 2` prompts more than the one that is served and the one that comes.
    A threshold between two whole numbers is a mixture of both.
    """
    up = rates.up + np.maximum(rates.up - 2.0, 0.0) * (1.0 / np.clip(variability, 0.25, 4.0) - 1.0)
    up = np.clip(np.nan_to_num(up, nan=1.0), rates.down + 1.0, HIGHEST_LEVEL)
    whole = np.floor(up)
    low = solve_roles(replace(rates, up=whole))
    return low.mixed(solve_roles(replace(rates, up=whole + 1.0)), up - whole)


def _speed_beside(tables: Tables, full: FloatArray) -> FloatArray:
    """Speed of decode beside a prefill iteration, a share `full` of which are packed, shape (n, k)."""
    between = tables.contention
    return np.asarray((1.0 - full) * between.decode_single + full * between.decode_packed)


def _summed(share: FloatArray, rates: Sequence[FloatArray]) -> FloatArray:
    """Mean of rates of shape (n, k) over the phases."""
    return np.asarray(sum(share[:, i, None] * rate for i, rate in enumerate(rates)))


def _blend(prompts: Sequence[PrefillTimes], weight: FloatArray) -> PrefillTimes:
    """Mean times of prompts over the phases that serve them."""

    def mean(name: str) -> FloatArray:
        values = [getattr(times, name) for times in prompts]
        shape = (-1, *([1] * (values[0].ndim - 1)))
        return np.asarray(sum(weight[:, i].reshape(shape) * value for i, value in enumerate(values)))

    return PrefillTimes(*(mean(name) for name in ("alone_s", "iterations", "last_s", "full_s", "shared_s", "budget")))


def scaled(times: PrefillTimes, factor: FloatArray) -> PrefillTimes:
    """All times longer by a factor of shape (n,)."""
    narrow, wide = factor[:, None], factor[:, None, None]
    return PrefillTimes(
        times.alone_s * wide,
        times.iterations,
        times.last_s * wide,
        times.full_s * narrow,
        times.shared_s * narrow,
        times.budget,
    )


def role_saturation(states: Sequence[Tables], roles: RoleProfile, lengths: LengthMoments) -> FloatArray:
    """Saturation rate, shape (n,).

    In overload prompts always wait, so dies go to prefill until finished prompts pause it.  Where prefill is slower
    than decode even in the highest state, or faster even in the lowest, the design stays there.  Else it alternates
    between the two neighbours between which both are equally fast.
    """
    tandem = np.stack([saturation_of(tables, lengths) for tables in states], axis=1)
    prefill = np.stack([_prefill_rate(tables, lengths) for tables in states], axis=1)
    decode = np.stack([_decode_rate(tables, lengths) for tables in states], axis=1)
    at_top = np.take_along_axis(tandem, roles.highest[:, None], axis=1)[:, 0]
    result = at_top
    excess = prefill - decode
    for low in range(len(states) - 1):
        inside = (low >= roles.lowest) & (low + 1 <= roles.highest)
        crosses = inside & (excess[:, low] < 0) & (excess[:, low + 1] > 0)
        share = -excess[:, low] / np.where(crosses, excess[:, low + 1] - excess[:, low], 1.0)
        mixed = prefill[:, low] + share * (prefill[:, low + 1] - prefill[:, low])
        result = np.where(crosses, mixed, result)
    lowest = np.take_along_axis(excess, roles.lowest[:, None], axis=1)[:, 0]
    at_bottom = np.take_along_axis(tandem, roles.lowest[:, None], axis=1)[:, 0]
    return np.asarray(np.where(lowest >= 0, at_bottom, result))


def _prefill_rate(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Prompts per second beside a full decode batch."""
    speed = tables.nodes.at(tables.contention.prefill_packed, tables.limit[:, None])[:, 0]
    return np.asarray(speed / (lengths.prompt * tables.prompts.token_s[:, 0]))


def _decode_rate(tables: Tables, lengths: LengthMoments) -> FloatArray:
    """Requests per second of a full decode batch beside full prefill iterations."""
    life = lengths.decode * tables.step_s / tables.contention.decode_packed
    at_limit = tables.nodes.at(life, tables.limit[:, None])[:, 0]
    return np.asarray(tables.limit / at_limit / max(lengths.decoding_share, 1e-9))


def mean_state(found: RoleBalance, roles: RoleProfile) -> FloatArray:
    """Mean units that serve prefill, shape (n,): dies between two roles serve neither."""
    return np.asarray(found.roles.share @ np.array([p.prefill - roles.native for p in phases_of(roles.size)]))
