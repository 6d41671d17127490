"""Several models on one package: each keeps its own chain, coupled by turns, contention and memory.

Fixed point over the models, all designs at once: from how the others use the pools (`hydra_dse.estimator.rivals`)
follow the iterations of a model, from these its state, and from the state how it uses the pools.  Saturation: the
total rate, at fixed shares, at which the first model reaches the rate that the others leave it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.colocated import Colocated
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.lengths import LengthMoments, moments_of
from hydra_dse.estimator.mix_nouns import Interplay, Member, MixSolution
from hydra_dse.estimator.mixture import Mixture
from hydra_dse.estimator.phases import Phases, phases_of, scv_beside
from hydra_dse.estimator.presence import decoding, prompting, seen
from hydra_dse.estimator.rivals import Pressure, Rival, Single, Use, under, uses_of
from hydra_dse.estimator.solution import Latency, Solution
from hydra_dse.estimator.solvers import Solver, solver_of
from hydra_dse.model.operators import Batch

FloatArray = NDArray[np.float64]

SWEEPS = 60
"""Passes over all models, at most."""
SETTLED = 2e-4
"""Relative change of a pass at which it ends."""
STEP = 0.6
"""Share of the way to what a pass found: whole steps of models that slow each other swing."""
JUST_BELOW = 0.999
"""Share of the rate of the whole mix; each solver is bound by its own (`solution.JUST_BELOW`)."""


@dataclass(frozen=True)
class Load:
    """What solvers need of the requests of one model, at its share of a rate."""

    share: float
    scv: float
    phases: Phases | None


@dataclass
class _State:
    """A state under way.

    Attributes:
        uses: how each model uses its pools.
        held: bytes that the caches of each model hold.
        joint: of pools of two models (the first with the lower number) on the same dies, see `presence`.
    """

    uses: list[dict[str, Use]]
    held: list[FloatArray]
    joint: dict[tuple[int, int, str], FloatArray]


class MixSolver:
    """Designs of one policy that serve several models.

    Args:
        members: the models.
        interplay: how their pools meet.
        shared_cache: whether all fill the same memory.
    """

    def __init__(self, members: Sequence[Member], interplay: Interplay, shared_cache: bool) -> None:
        self.members, self.interplay, self.shared_cache = tuple(members), interplay, shared_cache
        self.moments: list[LengthMoments] = [moments_of(member.lengths, member.profile.emission) for member in members]
        self._base: list[Single] = [
            _single(solver_of(member.profile, lengths)) for member, lengths in zip(members, self.moments, strict=True)
        ]
        self._loads = [_load(member) for member in members]
        self._size = members[0].profile.size
        self._start = self._idle()
        self.saturation_per_s, self._full = self._saturate()

    # -- solving ----------------------------------------------------------------------------------------------

    def at(self, rate: FloatArray, percentiles: bool) -> MixSolution:
        """Solve at total rates of shape (n,), at most just below saturation."""
        served = np.minimum(rate, JUST_BELOW * self.saturation_per_s)
        state = self._full
        before = np.full(self._size, np.inf)
        for _ in range(SWEEPS):
            state, _, found = self._sweep(state, served, False)
            ends = np.sum([solution.e2e.mean_s for solution in found], axis=0)
            if np.nanmax(np.abs(ends / before - 1.0), initial=0.0) < SETTLED:
                break
            before = ends
        pressures = [self._pressure(number, state) for number in range(len(self.members))]
        solutions = []
        for number, pressure in enumerate(pressures):
            solver = under(self._base[number], pressure, self._cache(number, state))
            solution = self._solve(number, solver, served, percentiles)
            limit = self.saturation_per_s * self._loads[number].share
            solution = replace(solution, saturation_per_s=limit)
            solutions.append(self._first_tokens(number, solution, pressure, state))
        return MixSolution(tuple(solutions), self.saturation_per_s)

    def _solve(self, number: int, solver: Single, rate: FloatArray, percentiles: bool) -> Solution:
        load = self._loads[number]
        return solver.at(rate * load.share, load.scv, percentiles, phases=load.phases)

    def _sweep(self, state: _State, rate: FloatArray, limits: bool) -> tuple[_State, list[FloatArray], list[Solution]]:
        """One pass over all models, each seeing what the others did before it; the rates that each could reach."""
        state = _State(list(state.uses), list(state.held), dict(state.joint))
        self._meet(state, rate)
        highest, found = [], []
        for number, base in enumerate(self._base):
            pressure = self._pressure(number, state)
            solver = under(base, pressure, self._cache(number, state))
            solution = self._solve(number, solver, rate, False)
            uses = uses_of(base, solution, pressure)
            old = state.uses[number]
            state.uses[number] = {pool: old[pool].towards(use, STEP) for pool, use in uses.items()}
            state.held[number] = state.held[number] + STEP * (self._held(number, solution) - state.held[number])
            highest.append(solver.saturation_per_s / self._loads[number].share)
            found.append(solution)
        return state, highest, found

    def _saturate(self) -> tuple[FloatArray, _State]:
        """The total rate at which the first model is full, by steps towards it while the uses settle."""
        state = self._start
        rate = 0.5 * np.minimum.reduce(
            [base.saturation_per_s / load.share for base, load in zip(self._base, self._loads, strict=True)]
        )
        for _ in range(SWEEPS):
            state, highest, _ = self._sweep(state, rate, True)
            target = np.minimum.reduce(highest)
            change = np.sqrt(np.clip(target / rate, 0.25, 4.0))
            rate = rate * change
            if np.nanmax(np.abs(change - 1.0), initial=0.0) < SETTLED:
                break
        return rate, state

    # -- coupling ---------------------------------------------------------------------------------------------

    def _idle(self) -> _State:
        """Nobody uses anything yet; typical batches are of one sequence."""
        zero, one = np.zeros(self._size), np.ones((self._size, 1))
        batch = Batch(decode_sequences=one, decode_context_tokens=one, emitted_tokens=one)
        uses = [
            {pool: Use(zero, zero + 1e-6, zero + 1e-6, batch) for pool in member.profile.pools}
            for member in self.members
        ]
        return _State(uses, [zero.copy() for _ in self.members], {})

    def _meet(self, state: _State, rate: FloatArray) -> None:
        """How often models on the same dies have work together, by solving each without and beside the other."""
        for first in range(len(self.members)):
            for second in range(first + 1, len(self.members)):
                pools = [pool for pool in state.uses[first] if self.interplay.same_dies(first, pool, second, pool)]
                if not pools:
                    continue
                cases = [
                    [self._if(number, other, state, rate, always) for always in (0.0, 1.0)]
                    for number, other in ((first, second), (second, first))
                ]
                rates = (rate * self._loads[first].share, rate * self._loads[second].share)
                for pool in pools:
                    alone = (cases[0][0][pool], cases[1][0][pool])
                    beside = (cases[0][1][pool], cases[1][1][pool])
                    found = prompting(rates, alone, beside) if pool == "prefill" else decoding(rates, alone, beside)
                    old = state.joint.get((first, second, pool))
                    state.joint[first, second, pool] = found if old is None else old + STEP * (found - old)

    def _if(self, number: int, other: int, state: _State, rate: FloatArray, always: float) -> dict[str, FloatArray]:
        """A model if another one never or always had work: busy share of prompts, requests in the other pools."""
        pressure = self._pressure(number, state, {other: np.full((self._size, 1), always)})
        solver = under(self._base[number], pressure, self._cache(number, state))
        solution = self._solve(number, solver, rate, False)
        uses = uses_of(self._base[number], solution, pressure)
        inside = {"serve": solution.sequences, "decode": solution.batch_mean}
        return {pool: use.share if pool == "prefill" else inside[pool] for pool, use in uses.items()}

    def _pressure(
        self, number: int, state: _State, assumed: dict[int, FloatArray] | None = None
    ) -> dict[str, Pressure]:
        """What the others do to each pool of a model; `assumed`: shares of time in which some of them have work."""
        found = {}
        for pool, mine in state.uses[number].items():
            turns, beside = [], []
            for other, uses in enumerate(state.uses):
                if other == number:
                    continue
                for other_pool, use in uses.items():
                    if pool == other_pool and self.interplay.same_dies(number, pool, other, pool):
                        turns.append(_rival(state, number, other, pool, (assumed or {}).get(other)))
                    else:
                        beside.append(self._beside(number, pool, mine, other, other_pool, use, state))
            found[pool] = Pressure(tuple(turns), tuple(each for each in beside if each is not None))
        return found

    def _beside(
        self, number: int, pool: str, mine: Use, other: int, other_pool: str, use: Use, state: _State
    ) -> tuple[FloatArray, FloatArray] | None:
        """Share of time in which another model's pool runs beside this one, and the speed left meanwhile.

        Where the two models take turns in that other pool, this model's own iterations there slow it as well: what
        comes on top are those of the other model while this one has none.
        """
        if not use.share.any():
            return None
        own = state.uses[number].get(other_pool)
        turns = (
            own is not None and other_pool != pool and self.interplay.same_dies(number, other_pool, other, other_pool)
        )
        alone = use.share * (1.0 - own.share) if turns and own is not None else use.share
        speed = self.interplay.speeds(number, pool, mine.batch, other, other_pool, use.batch)
        return alone, np.nan_to_num(np.asarray(speed)[:, 0], nan=1.0)

    def _held(self, number: int, solution: Solution) -> FloatArray:
        """Mean bytes that the caches of a model hold."""
        profile = self.members[number].profile
        rounding = (profile.block_tokens - 1.0) / 2.0
        kv = profile.kv_bytes_per_token * (solution.kv_tokens + solution.sequences * rounding)
        return np.asarray(np.minimum(kv + profile.state_bytes_per_sequence * solution.sequences, profile.cache_bytes))

    def _cache(self, number: int, state: _State) -> FloatArray:
        """Memory that the others leave to a model."""
        whole = self.members[number].profile.cache_bytes
        if not self.shared_cache:
            return whole
        others = sum(held for other, held in enumerate(state.held) if other != number)
        return np.asarray(np.maximum(whole - others, 0.02 * whole))

    def _first_tokens(self, number: int, solution: Solution, pressure: dict[str, Pressure], state: _State) -> Solution:
        """The last iteration of a prompt waits for nobody after it; one that finds its model idle may wait before."""
        pool = "serve" if "serve" in pressure else "prefill"
        own, last_s = pressure[pool], self._base[number].tables.prompts.last_s
        weight = self.moments[number].prompt_bins.weight
        after = (own.wait(own.slowed(last_s), np.ones((self._size, 1, 1))) @ weight).mean(axis=1)
        before = (1.0 - state.uses[number][pool].share) * own.idle_wait_s
        shift = before - after
        return replace(
            solution,
            ttft=_shifted(solution.ttft, shift),
            e2e=_shifted(solution.e2e, shift),
            scheduled_mean_s=np.maximum(solution.scheduled_mean_s - after, 0.1 * solution.scheduled_mean_s),
        )


def _rival(state: _State, number: int, other: int, pool: str, assumed: FloatArray | None) -> Rival:
    """Another model on the same dies, as seen by one."""
    use = state.uses[other][pool]
    if assumed is not None:
        return Rival(use, assumed)
    joint = state.joint.get((min(number, other), max(number, other), pool))
    return Rival(use, use.share[:, None] if joint is None else seen(joint, number < other))


def _single(solver: Solver) -> Single:
    """The solver of one model, if its tables can be changed by others."""
    if isinstance(solver, (Colocated, Disaggregated)) and type(solver) in (Colocated, Disaggregated):
        return solver
    raise InputError(
        "several models are estimated with batching chunked or prefill_first on static pools only; simulate this policy"
    )


def _load(member: Member) -> Load:
    phases = phases_of(member.arrivals)
    return Load(member.share, scv_beside(phases, member.arrivals), phases)


def _shifted(latency: Latency, by_s: FloatArray) -> Latency:
    """A latency moved by a constant; no part of it to less than a tenth of what it was."""
    mean = np.maximum(latency.mean_s + by_s, 0.1 * latency.mean_s)
    if latency.spread is None:
        return Latency(mean)
    value = latency.spread.value
    spread = latency.spread
    return Latency(mean, Mixture(np.maximum(value + by_s[:, None], 0.1 * value), spread.weight, spread.smooth))
