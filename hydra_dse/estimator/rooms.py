"""Continuous batches that refuse requests: chains that end where the room for waiting ones is full.

Below its limit a pool is the chain of `hydra_dse.estimator.chain` at the offered rate.  Beyond it the weights of `j`
waiting are `w·c·r^j`, `r = ρ^{1/v}` with `v = (c_a² + c_s²)/2`, up to the room `K`, at any load; without a room they
sum to the tail of that chain.  Prompts in a pool of their own wait as in `1, a, a·r, …, a·r^K` with `D = 1 − ρ + ρv`,
`r = ρv/D` and `a = ρ/D`, whose mean is that of Pollaczek and Khinchine without a room.  Both are M/M/1/K for `v = 1`.
What is served is what is not refused: a fixed point.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.chain import Burstiness, PoolState, limited_sharing
from hydra_dse.estimator.exponential import EXPONENTIAL_EDGES, EXPONENTIAL_POINTS, EXPONENTIAL_WEIGHTS
from hydra_dse.estimator.nodes import BatchNodes
from hydra_dse.estimator.prompts import PromptQueue
from hydra_dse.estimator.static_waits import NORMAL_POINTS, NORMAL_WEIGHTS

FloatArray = NDArray[np.float64]

POINTS = 512
"""Numbers of waiting requests that are told apart; longer rooms are walked in wider steps."""
REACH = 30.0
"""Where a geometric tail ends: at e^{−30} of its first weight."""
BINDS = 0.02
"""Share of refused prompts from which on waits are those of a room alone."""


@dataclass(frozen=True)
class RoomState(PoolState):
    """A pool with a room.

    Attributes:
        level, mass: waiting beyond the limit and its probability, (n, points).
        refused: share of the arrivals, (n,).
        service_scv: squared coefficient of variation of the time between departures of a full pool, (n,).
    """

    level: FloatArray
    mass: FloatArray
    refused: FloatArray
    service_scv: FloatArray

    def waits(self, places: FloatArray) -> FloatArray:
        """Waits of those who find `places` or more waiting, in the slices of `EXPONENTIAL_POINTS`, over their mean.

        Who finds `j` waits for `j + 1` departures: a normal variable, cut at zero.
        """
        found = np.ones((len(self.level), len(EXPONENTIAL_POINTS)))
        for row, (level, mass, scv) in enumerate(zip(self.level, self.mass, self.service_scv, strict=True)):
            met = mass * (level >= places[row] - 1e-9)
            met[np.flatnonzero(mass)[-1:]] *= 0.0 if len(level) > 1 and np.count_nonzero(met) > 1 else 1.0
            count = np.maximum(level - places[row], 0.0) + 1.0
            value = np.maximum(count[:, None] + NORMAL_POINTS * np.sqrt(scv * count)[:, None], 0.05).ravel()
            weight = (met[:, None] * NORMAL_WEIGHTS).ravel()
            order = np.argsort(value)
            total = max(float(weight.sum()), 1e-300)
            upto = np.concatenate(([0.0], np.cumsum(weight[order]) / total))
            area = np.concatenate(([0.0], np.cumsum((weight * value)[order]) / total))
            means = np.diff(np.interp(EXPONENTIAL_EDGES, upto, area)) / EXPONENTIAL_WEIGHTS
            found[row] = means / max(float(means @ EXPONENTIAL_WEIGHTS), 1e-300)
        return found

    def beyond(self, places: FloatArray) -> FloatArray:
        """Mean number waiting beyond the first `places` waiting places."""
        return np.asarray((np.maximum(self.level - places[:, None], 0.0) * self.mass).sum(axis=1))

    def exceeds(self, places: FloatArray) -> FloatArray:
        """Probability that one who is let in finds `places` or more waiting."""
        met = ((self.level >= places[:, None] - 1e-9) * self.mass).sum(axis=1) - self.refused
        return np.asarray(np.clip(met / np.maximum(1.0 - self.refused, 1e-12), 0.0, 1.0), dtype=np.float64)


def pool_with_room(
    offered: FloatArray,
    nodes: BatchNodes,
    residence_s: FloatArray,
    limit: FloatArray,
    burst: Burstiness,
    load: FloatArray,
    room: FloatArray,
) -> RoomState:
    """The chain of `limited_sharing` at any load, ended at `room` waiting, shape (n,).

    Args:
        offered: arrivals per second, those that are refused included, shape (n,).
        nodes: batch nodes of the pools.
        residence_s: time in service at each of them, shape (n, k).
        limit: sequences in service at most, shape (n,).
        burst: variability factors.
        load: offered over highest rate, shape (n,); may exceed 1.
        room: requests that may wait, shape (n,).
    """
    state = limited_sharing(offered, nodes, residence_s, limit, burst, load=load)
    met = np.minimum(load, 1.0 - 1e-9)
    short = met ** (1.0 / burst.blocking)
    last = state.full * (1.0 - short)
    spread = burst.wait(limit, np.clip(load, 1e-9, 1.0 - 1e-9))
    log_r = np.log(np.where(np.abs(load - 1.0) < 1e-6, 1.0 - 1e-6, load)) / spread
    # c·Σ r^j = short/(1 − short), the tail of the chain without a room.
    tail = np.where(load < 1.0, short / (1.0 - short) * np.expm1(-log_r), burst.blocking / spread)
    room = _within_reach(room, log_r)
    width = np.maximum(room / POINTS, 1.0)
    level = np.minimum(np.arange(1, POINTS + 1) * width[:, None], room[:, None])
    inside = np.arange(1, POINTS + 1) <= np.ceil(room / width)[:, None]
    logs = np.log(last * np.maximum(tail, 1e-300) * width)[:, None] + level * log_r[:, None]
    logs = np.where(inside, logs, -np.inf)
    fixed = np.log(np.stack((np.maximum(1.0 - state.full, 1e-300), np.maximum(last, 1e-300)), axis=1))
    most = np.maximum(logs.max(axis=1), fixed.max(axis=1))[:, None]
    below, at_limit = np.exp(fixed - most).T
    waiting = np.exp(logs - most)
    total = below + at_limit + waiting.sum(axis=1)
    full = (total - below) / total
    # What leaves is let in: levels up to the limit pass on what comes below it, those beyond the pool's highest rate.
    let_in = np.minimum((below + waiting.sum(axis=1) / load) / total, 1.0 / load)
    refused = np.clip(1.0 - let_in, 0.0, 1.0)
    top = nodes.project(np.zeros((len(room), 2)), np.ones(len(room)), limit)
    inner = state.at_nodes - top * state.full[:, None]
    at_nodes = np.maximum(inner, 0.0) * (below / total / np.maximum(1.0 - state.full, 1e-300))[:, None]
    serving = (state.in_service - state.full * limit) / np.maximum(1.0 - state.full, 1e-300)
    return RoomState(
        at_nodes + top * full[:, None],
        full,
        np.minimum(load, 1.0),
        state.queue_ratio,
        state.queues,
        serving * below / total + limit * full,
        np.hstack((np.zeros((len(room), 1)), level)),
        np.hstack((at_limit[:, None], waiting)) / total[:, None],
        refused,
        np.maximum(2.0 * spread - burst.arrival, 0.05),
        stairs=state.stairs,
    )


def _within_reach(room: FloatArray, log_r: FloatArray) -> FloatArray:
    """The room, or of a queue that dies out the part that it ever reaches."""
    return np.asarray(np.where(log_r < 0.0, np.minimum(room, np.ceil(REACH / np.maximum(-log_r, 1e-12))), room))


@dataclass(frozen=True)
class PromptRoom:
    """Prompts that may wait: the share that is refused, that of those let in that wait, their mean wait; (n,)."""

    refused: FloatArray
    waits: FloatArray
    wait_s: FloatArray


def prompt_room(
    offered: FloatArray, service_s: FloatArray, service_square: FloatArray, arrival_scv: float, room: FloatArray
) -> PromptRoom:
    """One prompt server with a room, each of shape (n,).

    Args:
        offered: prompts per second, those that are refused included.
        service_s: mean time of a prompt.
        service_square: its second moment.
        arrival_scv: squared coefficient of variation of the gaps.
        room: prompts that may wait.
    """
    rho = offered * service_s
    spread = (arrival_scv + service_square / service_s**2 - 1.0) / 2.0
    slack = np.maximum(1.0 - rho + rho * spread, 0.05)
    log_r = np.log(np.maximum(rho * spread, 1e-12) / slack)
    room = _within_reach(room, log_r)
    width = np.maximum(room / POINTS, 1.0)
    level = np.minimum(np.arange(POINTS + 1) * width[:, None], room[:, None])
    inside = np.arange(POINTS + 1) <= np.ceil(room / width)[:, None]
    logs = np.where(inside, np.log(rho / slack * width)[:, None] + level * log_r[:, None], -np.inf)
    most = np.maximum(logs.max(axis=1), 0.0)
    busy = np.exp(logs - most[:, None])
    total = np.exp(-most) + busy.sum(axis=1)
    # What a busy server completes is let in.
    refused = np.clip(1.0 - busy.sum(axis=1) / (total * rho), 0.0, 1.0)
    let_in = np.maximum(1.0 - refused, 1e-12)
    waits = np.clip((busy.sum(axis=1) / total - refused) / let_in, 1e-12, 1.0)
    mean = (level * busy).sum(axis=1) / total / (offered * let_in)
    return PromptRoom(refused, waits, mean / waits)


def queue_with_room(queue: PromptQueue, found: PromptRoom) -> PromptQueue:
    """A prompt queue whose waits go over to those of the room as it begins to bind."""
    share = np.clip(found.refused / BINDS, 0.0, 1.0)[:, None]
    wait = (1.0 - share) * queue.wait_s + share * found.wait_s[:, None]
    return replace(
        queue,
        waits=(1.0 - share) * queue.waits + share * found.waits[:, None],
        wait_s=wait,
        # Full rooms are waited for alike: a sum of as many services as there are places.
        wait_shape=(1.0 - share) * queue.wait_shape + share * np.maximum(queue.wait_shape, 2.0),
    )
