"""A queue served in closed batches: the chain embedded at their ends.

State `q`: requests that wait when a batch ends.  The next one takes `n = min(q, B)` of them (with `q = 0` the first
that comes) and lasts `T_n`; `A` come meanwhile, so `q' = q − n + A`, at most the room `K` for waiting ones.  `A` given
`T` is a renewal count with gamma gaps of shape `1/c²`, from any moment or, after an idle time, from an arrival: exact
for Poisson arrivals (Bailey 1954).  Long queues are counted in units of several requests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

FloatArray = NDArray[np.float64]

STATES = 240
"""Levels of the chain; what is longer is told apart in wider levels."""
TIMES = 64
"""Points of time at which the distribution of a batch's time is known."""
SMALLEST_SCV = 0.02
"""Of the gaps: steadier arrivals are taken as these."""


@dataclass(frozen=True)
class BatchTimes:
    """How long batches last.

    Attributes:
        size: batch sizes, ascending from 1, shape (k,).
        seconds: times of each size, shape (k, x).
        weight: their probabilities, shape (k, x).
    """

    size: FloatArray
    seconds: FloatArray
    weight: FloatArray

    def of(self, size: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Times and weights at sizes of shape (m,), each (m, x), linear in between."""
        times = np.stack([np.interp(size, self.size, column) for column in self.seconds.T], axis=1)
        weights = np.stack([np.interp(size, self.size, column) for column in self.weight.T], axis=1)
        return times, weights

    def mean(self, size: FloatArray) -> FloatArray:
        """Mean time at sizes of shape (m,)."""
        times, weights = self.of(size)
        return np.asarray((times * weights).sum(axis=1))


@dataclass(frozen=True)
class BulkState:
    """Stationary state of one queue.

    Attributes:
        probability: of each state at the end of a batch, shape (s,); waiting: requests that wait in it.
        size: of the batch that follows; left: requests that it leaves behind.
        seconds: mean of its time.
        cycle_s: mean time from one end to the next, idle time included.
        rejected: share of arrivals that find the room full.
        room: requests that may wait; infinite where there is no limit.
    """

    probability: FloatArray
    waiting: FloatArray
    size: FloatArray
    left: FloatArray
    seconds: FloatArray
    cycle_s: float
    rejected: float
    room: float

    @property
    def mean_size(self) -> float:
        """Mean size of a batch."""
        return float(self.probability @ self.size)


def bulk_queue(rate: float, scv: float, times: BatchTimes, limit: float, room: float = np.inf) -> BulkState:
    """Solve the chain of one queue whose load is below 1, or whose room is finite.

    Args:
        rate: arrivals per second.
        scv: squared coefficient of variation of the gaps.
        times: of the batches.
        limit: members of a batch at most.
        room: requests that may wait.
    """
    states, unit = _states(rate, scv, times, limit, room)
    waiting = np.arange(states + 1) * unit
    size = np.clip(waiting, 1.0, limit)
    left = np.maximum(waiting - size, 0.0)
    seconds, weights = times.of(size)
    grid = np.geomspace(max(seconds.min(), 1e-12), seconds.max() * (1.0 + 1e-9), TIMES)
    share = _shares(grid, seconds, weights)
    # P(A ≥ (i − ½)·unit + ½) for i = 0 … states, by state
    counts = share @ _at_least(rate, scv, grid, states, unit, settled=True)
    counts[0] = share[0] @ _at_least(rate, scv, grid, states, unit, settled=False)
    mass = counts - np.hstack((counts[:, 1:], np.zeros((states + 1, 1))))
    matrix = np.zeros((states + 1, states + 1))
    start = np.rint(left / unit).astype(int)
    for row, first in enumerate(start):
        inside = states - first
        matrix[row, first:] = mass[row, : inside + 1]
        matrix[row, states] = counts[row, inside]
    probability: FloatArray = _stationary(matrix)
    mean = np.asarray((seconds * weights).sum(axis=1), dtype=np.float64)
    served, overflow = float(probability @ size), 0.0
    if np.isfinite(room):
        # Of a batch's arrivals those come in that find room: E[min(A, K − left)] = Σ_{k=1}^{K−left} P(A ≥ k).
        come = rate * mean
        many = int(2.0 * rate * grid[-1] + 50.0)
        come[0] = share[0] @ _at_least(rate, scv, grid, many, 1.0, settled=False)[:, 1:].sum(axis=1)
        fits = np.array([unit * counts[row, 1 : states - first + 1].sum() for row, first in enumerate(start)])
        overflow = float(probability @ np.maximum(come - fits, 0.0))
    # All that come in a cycle are served or refused.
    cycle = (served + overflow) / rate
    rejected = overflow / (served + overflow)
    return BulkState(
        probability,
        np.asarray(waiting, dtype=np.float64),
        np.asarray(size, dtype=np.float64),
        np.asarray(left, dtype=np.float64),
        mean,
        cycle,
        rejected,
        room,
    )


def _states(rate: float, scv: float, times: BatchTimes, limit: float, room: float) -> tuple[int, float]:
    """Highest state and requests per state: the room, or what holds all but e^{−9} of the queue's tail."""
    full, weight = times.of(np.array([limit]))
    mean = float((full * weight).sum())
    spread = scv * rate * mean + rate**2 * max(float((full**2 * weight).sum()) - mean**2, 0.0)
    tail = 9.0 * spread / (2.0 * max(limit - rate * mean, 0.02 * limit))
    needed = limit + tail + 6.0 * np.sqrt(spread)
    if np.isfinite(room):
        needed = room
    if needed <= STATES:
        return int(np.ceil(needed)), 1.0
    # Whole units in a full batch, so that it ends on a state.
    unit = limit / max(np.floor(limit * STATES / needed), 1.0) if limit > 1.0 else needed / STATES
    return int(np.ceil(needed / unit)), float(unit)


def _at_least(rate: float, scv: float, grid: FloatArray, states: int, unit: float, settled: bool) -> FloatArray:
    """`P(A ≥ e_i)`, `e_i = (i − ½)·unit + ½` for i = 0…states, at each time, shape (times, states + 1).

    From an arrival: `P(Γ(e/c²) ≤ x)`, `x = λT/c²`.  From any moment (`settled`), where the first gap is a residual one:
    `c²·(H((e − 1)/c²) − H(e/c²))` with `H(a) = ∫₀ˣ P(Γ(a) ≤ t) dt = x·P(Γ(a) ≤ x) − a·P(Γ(a + 1) ≤ x)`.
    """
    spread = max(scv, SMALLEST_SCV)
    edges = (np.arange(1, states + 1) - 0.5) * unit + 0.5
    x = rate * grid[:, None] / spread
    shape = np.asarray(edges / spread, dtype=np.float64)
    found = np.asarray(gammainc(shape, x), dtype=np.float64)
    if settled:
        found = spread * (_integral(np.maximum(shape - 1.0 / spread, 0.0), x) - _integral(shape, x))
    return np.hstack((np.ones((len(grid), 1)), np.clip(found, 0.0, 1.0)))


def _integral(shape: FloatArray, x: FloatArray) -> FloatArray:
    """`∫₀ˣ P(Γ(shape) ≤ t) dt`; x for shape 0."""
    safe = np.maximum(shape, 1e-12)
    found = np.where(shape > 0, x * gammainc(safe, x) - safe * gammainc(safe + 1.0, x), x)
    return np.asarray(found, dtype=np.float64)


def _shares(grid: FloatArray, seconds: FloatArray, weights: FloatArray) -> FloatArray:
    """Weights of the grid that give the same mean time for each state, shape (states, times)."""
    left = np.clip(np.searchsorted(grid, seconds, side="right") - 1, 0, len(grid) - 2)
    part = np.clip((seconds - grid[left]) / (grid[left + 1] - grid[left]), 0.0, 1.0)
    rows = np.arange(len(seconds))[:, None] * len(grid)
    size = len(seconds) * len(grid)
    low = np.bincount((rows + left).ravel(), (weights * (1.0 - part)).ravel(), size)
    high = np.bincount((rows + left + 1).ravel(), (weights * part).ravel(), size)
    return np.asarray((low + high).reshape(len(seconds), len(grid)))


def _stationary(matrix: FloatArray) -> FloatArray:
    """The left null vector of `matrix − 1`, normalised."""
    size = len(matrix)
    system = matrix.T - np.eye(size)
    system[-1] = 1.0
    target = np.zeros(size)
    target[-1] = 1.0
    found = np.maximum(np.linalg.solve(system, target), 0.0)
    return np.asarray(found / found.sum(), dtype=np.float64)
