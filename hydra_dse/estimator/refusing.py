"""Solvers of continuous batches that refuse requests: what is served is what is not refused, a fixed point."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator import latencies
from hydra_dse.estimator.chain import Burstiness, PoolState
from hydra_dse.estimator.colocated import Colocated
from hydra_dse.estimator.disaggregated import Disaggregated
from hydra_dse.estimator.lengths import LengthMoments
from hydra_dse.estimator.phases import Phases
from hydra_dse.estimator.prompt_impact import Delays
from hydra_dse.estimator.prompts import PromptQueue
from hydra_dse.estimator.rooms import RoomState, pool_with_room, prompt_room, queue_with_room
from hydra_dse.estimator.solution import JUST_BELOW, Solution
from hydra_dse.estimator.stages import Entry
from hydra_dse.estimator.static import rooms_of
from hydra_dse.estimator.tandem import Balance, balance, burstiness, residence_of
from hydra_dse.estimator.transient import Transient
from hydra_dse.profile.nouns import ServiceProfile

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
ROUNDS = 5
"""Of the fixed point of what is served and what is refused."""
UNLIMITED = 1e5
"""Room of a design without a limit, which no queue ever fills."""


@dataclass(frozen=True)
class ColocatedRoom(Colocated):
    """Colocated designs of which some refuse requests."""

    room: FloatArray
    offered: FloatArray

    @classmethod
    def limited(cls, profile: ServiceProfile, lengths: LengthMoments) -> ColocatedRoom:
        """Evaluate the profile."""
        of = Colocated.of(profile, lengths)
        room = np.minimum(rooms_of(profile), UNLIMITED)
        return cls(profile, lengths, of.tables, of.impact, of.saturation, room, np.zeros_like(room))

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool | BoolArray,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at offered rates of shape (n,), as stationary ones in a piece of time."""
        solver = replace(self, offered=rate)
        served = rate
        for _ in range(ROUNDS):
            solution = super(ColocatedRoom, solver).at(served, arrival_scv, False, None, phases)
            served = rate * (1.0 - np.clip(_known(solution), 0.0, 1.0 - 1e-9))
        return super(ColocatedRoom, solver).at(served, arrival_scv, percentiles, None, phases)

    def _chain(
        self,
        served: FloatArray,
        residence: FloatArray,
        burst: Burstiness,
        transient: Transient | None,
        phases: Phases | None = None,
    ) -> PoolState:
        load = self.offered / self.saturation_per_s
        return pool_with_room(self.offered, self.tables.nodes, residence, self.tables.limit, burst, load, self.room)

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
        queue = super()._queue(served, residence, arrival_scv, transient, beside, life_s, phases)
        return replace(queue, wait_s=np.minimum(queue.wait_s, self.room[:, None] * queue.service_s))

    def _entry(self, served: FloatArray, state: PoolState, queue: PromptQueue, found: Delays) -> Entry:
        entry = super()._entry(served, state, queue, found)
        if not isinstance(state, RoomState):
            return entry
        return replace(entry, blocked_points=state.waits(np.zeros_like(served)))

    def _solution(
        self, served: FloatArray, state: PoolState, queue: PromptQueue, timings: latencies.Timings
    ) -> Solution:
        solution = super()._solution(served, state, queue, timings)
        refused = state.refused if isinstance(state, RoomState) else np.zeros_like(served)
        return replace(solution, rejected=refused)


@dataclass(frozen=True)
class DisaggregatedRoom(Disaggregated):
    """Disaggregated designs of which some refuse requests."""

    @classmethod
    def limited(cls, profile: ServiceProfile, lengths: LengthMoments) -> DisaggregatedRoom:
        """Evaluate the profile."""
        of = Disaggregated.of(profile, lengths)
        return cls(profile, lengths, of.tables, of.saturation_per_s)

    def at(
        self,
        rate: FloatArray,
        arrival_scv: float,
        percentiles: bool | BoolArray,
        transient: Transient | None = None,
        phases: Phases | None = None,
    ) -> Solution:
        """Solve at offered rates of shape (n,), as stationary ones in a piece of time."""
        first = self.profile.scheduling == "sjf"
        refused = np.zeros_like(rate)
        for _ in range(ROUNDS):
            served = np.minimum(rate * (1.0 - refused), JUST_BELOW * self.saturation_per_s)
            found = balance(self.tables, served, self.lengths, arrival_scv, first, None, phases)
            found, refused = self._limited(found, rate, arrival_scv)
        served = rate * (1.0 - refused)
        return replace(self.solved(found, served, percentiles), rejected=refused)

    def _entry(self, found: Balance, served: FloatArray) -> Entry:
        entry = super()._entry(found, served)
        decode = found.decode
        return replace(entry, blocked_points=decode.waits(found.places)) if isinstance(decode, RoomState) else entry

    def _limited(self, found: Balance, rate: FloatArray, arrival_scv: float) -> tuple[Balance, FloatArray]:
        """Balanced pools with rooms, and the share that both refuse."""
        queue, tables = found.queue, self.tables
        room = np.minimum(rooms_of(self.profile), UNLIMITED)
        prompts = prompt_room(rate, queue.service_s[:, 0], queue.service_square[:, 0], arrival_scv, room)
        joining = rate * (1.0 - prompts.refused) * max(self.lengths.decoding_share, 1e-9)
        residence = residence_of(tables, found.step_s, self.lengths)
        burst = burstiness(
            queue,
            self.lengths.decode * found.step_s[:, -1],
            self.lengths,
            np.full(len(rate), arrival_scv),
            tables.work_scv,
        )
        limit = tables.limit
        load = joining * tables.nodes.time_at_each(residence, limit) / limit
        decode = pool_with_room(joining, tables.nodes, residence, limit, burst, load, room + self.intake.places)
        together = prompts.refused + (1.0 - prompts.refused) * decode.refused
        # Together the pools complete no more than their common highest rate.
        together = np.maximum(together, 1.0 - self.saturation_per_s / rate)
        held = tables.capacity.held_back(decode)
        return replace(found, queue=queue_with_room(queue, prompts), decode=decode, held=held), together


def _known(solution: Solution) -> FloatArray:
    return np.zeros_like(solution.served_per_s) if solution.rejected is None else solution.rejected
