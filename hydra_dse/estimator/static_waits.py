"""What an arrival finds in a queue that is served in closed batches, as weighted points.

An arrival comes while a batch runs, at a uniform moment of it (batches count by their length), or into an idle
server.  `k` requests are ahead of it: what the running batch left behind and what came since.  It waits for the rest of
that batch and for `⌊k/B⌋` full ones, and is number `k mod B` of its own batch, which those behind it may join.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.bulk import BatchTimes, BulkState

FloatArray = NDArray[np.float64]

GROUPS = 24
"""Slices of the states that arrivals find, of equal weight."""
ELAPSED = (np.arange(5) + 0.5) / 5.0
# Gauss–Hermite: three points of a normal variable.
NORMAL_POINTS = np.array([-np.sqrt(3.0), 0.0, np.sqrt(3.0)])
NORMAL_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6.0
LENGTH_CUTS = np.array([0.0, 0.4, 0.75, 0.95, 1.0])
LENGTH_WEIGHTS = np.diff(LENGTH_CUTS)
POINTS = 1 + GROUPS * len(ELAPSED) * len(LENGTH_WEIGHTS) * len(NORMAL_POINTS)


@dataclass(frozen=True)
class Found:
    """Points, each of shape (POINTS,); weights sum to 1.

    Attributes:
        wait_s: until its batch starts.
        ahead: members of its batch that came before it.
        size: of its batch.
        queue: requests ahead when it came.
    """

    weight: FloatArray
    wait_s: FloatArray
    ahead: FloatArray
    size: FloatArray
    queue: FloatArray


def found_by_arrivals(state: BulkState, times: BatchTimes, rate: float, scv: float, limit: float) -> Found:
    """Points for arrivals that are let in."""
    mass = state.probability * state.seconds
    left, size = _grouped(mass, state.left, state.size)
    seconds = _lengths_met(times, size)
    elapsed = seconds[:, :, None] * ELAPSED
    # From an arrival, others are met as in an ordinary renewal process, back in time and ahead.
    come = np.maximum(rate * elapsed + clumped(rate * elapsed, scv), 0.0)
    count = come[..., None] + np.sqrt(max(scv, 0.0) * come)[..., None] * NORMAL_POINTS
    queue = np.maximum(left[:, None, None, None] + np.maximum(count, 0.0), 0.0)
    weight = LENGTH_WEIGHTS[:, None, None] / (GROUPS * len(ELAPSED)) * NORMAL_WEIGHTS * np.ones_like(queue)
    if np.isfinite(state.room):
        weight = weight * (queue <= state.room - 0.5)
    rest = (seconds[:, :, None] - elapsed)[..., None] * np.ones_like(queue)
    weight, queue, rest = weight.ravel(), queue.ravel(), rest.ravel()
    before = np.floor(queue / limit + 1e-9)
    full_s = float(times.mean(np.array([limit]))[0])
    wait = rest + before * full_s
    ahead = queue - before * limit
    most = np.minimum(limit, max(state.room, 1.0))
    size = np.clip(ahead + 1.0 + rate * wait + clumped(rate * wait, scv), np.minimum(ahead + 1.0, most), most)
    # Of all arrivals of a cycle one finds the server idle with the chance that a batch leaves nobody.
    busy, idle = rate * float(mass.sum()), float(state.probability[0])
    total = max(float(weight.sum()), 1e-300)
    let_in = busy * min(total, 1.0) + idle
    weight = np.concatenate(([idle / let_in], weight / total * (1.0 - idle / let_in)))
    zero, one = np.zeros(1), np.ones(1)
    return Found(
        weight,
        np.concatenate((zero, wait)),
        np.concatenate((zero, ahead)),
        np.concatenate((one, size)),
        np.concatenate((zero, queue)),
    )


def clumped(expected: FloatArray, scv: float) -> FloatArray:
    """Others that an arrival meets beyond the `expected`: `(c² − 1)/2` in a long time, none in a short one."""
    return np.asarray((scv - 1.0) / 2.0 * -np.expm1(-2.0 * expected / (scv + 1.0)), dtype=np.float64)


def _grouped(mass: FloatArray, *values: FloatArray) -> list[FloatArray]:
    """Weighted means in `GROUPS` slices of equal weight along the states."""
    total = mass.sum()
    cumulative = np.concatenate(([0.0], np.cumsum(mass) / total))
    cuts = np.linspace(0.0, 1.0, GROUPS + 1)
    return [
        np.diff(np.interp(cuts, cumulative, np.concatenate(([0.0], np.cumsum(mass * value) / total)))) * GROUPS
        for value in values
    ]


def _lengths_met(times: BatchTimes, size: FloatArray) -> FloatArray:
    """Lengths of the batches of some sizes as arrivals meet them, means of four slices, (…, 4)."""
    seconds, weight = times.of(size)
    order = np.argsort(seconds, axis=1)
    seconds = np.take_along_axis(seconds, order, axis=1)
    met = np.take_along_axis(weight, order, axis=1) * seconds
    found = []
    for length, mass in zip(seconds, met / met.sum(axis=1, keepdims=True), strict=True):
        upto = np.concatenate(([0.0], np.cumsum(mass)))
        area = np.concatenate(([0.0], np.cumsum(mass * length)))
        found.append(np.diff(np.interp(LENGTH_CUTS, upto, area)) / LENGTH_WEIGHTS)
    return np.stack(found)
