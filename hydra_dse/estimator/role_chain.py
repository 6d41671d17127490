"""The Markov chain of prompts and roles: a quasi-birth–death process, level by level.

Level `q`: prompts that wait or are under way.  Phases (`Phase`): `S` role states; `S − 1` in which dies go up from
state `s` to `s + 1`, and as many in which they go down; and, for every pair, one in which an iteration still runs in
state `s` while dies of state `t > s` have come and wait for its end.  Arrivals raise the level, finished prompts lower
it, at the rate of the phase; from `up` on every state but the highest leaves at once, at `down` and below every state
but the lowest.  A change takes an exponential time; dies that have come join where an iteration ends, which may be one
of several of a prompt, or at once where there is none.

Levels from `K = max(up) + 1` on are alike, so `π_{q+1} = π_q R` with the minimal `R` (logarithmic reduction, Latouche
and Ramaswami 1993) and their sums are closed; below, `R_q = λ(−A₁(q + 1) − R_{q+1} A₂)⁻¹` from the top down.  States
that a design lacks have exits towards those that it has, so that the stationary vector is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

AT_ONCE = 1e5
"""Rate of what happens at once, over the fastest rate of the chain."""
DOUBLINGS = 40
"""Of the steps that logarithmic reduction looks ahead, at most."""
CLOSE = 1e-13
"""Probability still under way at which it stops."""


@dataclass(frozen=True)
class RoleRates:
    """A chain of `n` designs with `S` role states and the `M` phases of `phases_of`.

    Attributes:
        arrival: prompts per second, shape (n,).
        service: prompts per second that a busy phase finishes, shape (n, M).
        iterations: of a prompt, at least 1, shape (n,).
        rise_s, fall_s: mean time from state `s` to `s + 1`, and back, shape (n, S − 1).
        up, down: thresholds, shape (n,).
        lowest, highest: states that each design has, shape (n,).
    """

    arrival: FloatArray
    service: FloatArray
    iterations: FloatArray
    rise_s: FloatArray
    fall_s: FloatArray
    up: FloatArray
    down: FloatArray
    lowest: IntArray
    highest: IntArray

    @property
    def states(self) -> int:
        """Number of role states."""
        return int(self.rise_s.shape[1]) + 1


@dataclass(frozen=True)
class RoleState:
    """Stationary state.

    Attributes:
        share: probability of each phase, shape (n, M).
        busy: probability of each phase with a prompt, shape (n, M).
        prompts: mean level, shape (n,).
        square: mean of its square.
    """

    share: FloatArray
    busy: FloatArray
    prompts: FloatArray
    square: FloatArray

    @property
    def wait_scv(self) -> FloatArray:
        """Squared coefficient of variation of the wait of those that wait, 1 of an M/M/1 queue.

        With `q` prompts ahead, each exponential: `E[q(q + 1)]/E[q]² − 1`.
        """
        busy = self.busy.sum(axis=1)
        return np.asarray((self.square + self.prompts) * busy / np.maximum(self.prompts, 1e-300) ** 2 - 1.0)

    def mixed(self, other: RoleState, share: FloatArray) -> RoleState:
        """This state and a share of another one, shape (n,)."""
        rest, wide = 1.0 - share, share[:, None]
        return RoleState(
            (1.0 - wide) * self.share + wide * other.share,
            (1.0 - wide) * self.busy + wide * other.busy,
            rest * self.prompts + share * other.prompts,
            rest * self.square + share * other.square,
        )

    @property
    def waiting(self) -> FloatArray:
        """Mean prompts beyond the one that is served."""
        return np.asarray(self.prompts - self.busy.sum(axis=1))


@dataclass(frozen=True)
class Phase:
    """What the pools are: prefill as in one role state, decode as in another.

    Attributes:
        kind: `"still"`, `"rising"`, `"ready"` or `"falling"`.
    """

    kind: str
    prefill: int
    decode: int


@cache
def phases_of(states: int) -> tuple[Phase, ...]:
    """The phases of a chain in order; while dies change roles, both pools lack them."""
    low = range(states - 1)
    return (
        *(Phase("still", state, state) for state in range(states)),
        *(Phase("rising", state, state + 1) for state in low),
        *(Phase("falling", state, state + 1) for state in low),
        *(Phase("ready", state, target) for state in low for target in range(state + 1, states)),
    )


def solve_roles(rates: RoleRates) -> RoleState:
    """Solve the chain of each design; the highest state must keep up with the arrivals."""
    top = int(np.nanmax(rates.up)) + 1
    identity = np.eye(rates.service.shape[1])
    up = rates.arrival[:, None, None] * identity
    down = rates.service[:, :, None] * _joining(rates.states)
    inner = [_inner(rates, level) for level in range(top + 1)]
    ratios = [_minimal_ratio(up, inner[top], down)]
    for level in range(top - 1, 0, -1):
        ratios.append(up @ np.linalg.inv(-inner[level] - ratios[-1] @ down))
    ratios.reverse()
    # ratios[q] leads from level q to q + 1; the last one holds for all levels beyond.
    vectors = [_null(inner[0] + ratios[0] @ down)]
    for level in range(top - 1):
        vectors.append(_times(vectors[-1], ratios[level]))
    return _summed(vectors, ratios[-1])


def _summed(vectors: list[FloatArray], ratio: FloatArray) -> RoleState:
    """Join the levels below with the closed sums of those from K − 1 on."""
    first = len(vectors) - 1
    identity = np.eye(ratio.shape[1])
    beyond: FloatArray = np.asarray(np.linalg.inv(identity - ratio), dtype=float)
    last = vectors.pop()
    tail = _times(last, beyond)
    once = _times(_times(tail, ratio), beyond)
    twice = _times(_times(once, ratio), beyond)
    zero = vectors[0] if vectors else last
    share: FloatArray = sum(vectors, np.zeros_like(tail)) + tail
    total = share.sum(axis=1)
    # Σ k Rᵏ = R N² and Σ k² Rᵏ = R N² + 2 R² N³ with N = (I − R)⁻¹.
    tail, once, twice = tail.sum(axis=1), once.sum(axis=1), twice.sum(axis=1)
    below = [vector.sum(axis=1) for vector in vectors]
    prompts = sum((q * mass for q, mass in enumerate(below)), first * tail + once)
    square = sum((q**2 * mass for q, mass in enumerate(below)), first**2 * tail + (2 * first + 1) * once + 2 * twice)
    wide = total[:, None]
    return RoleState(share / wide, (share - zero) / wide, prompts / total, square / total)


def _joining(states: int) -> FloatArray:
    """Phase after a prompt has ended, shape (M, M)."""
    phases = phases_of(states)
    matrix = np.zeros((len(phases), len(phases)))
    for number, phase in enumerate(phases):
        matrix[number, phase.decode if phase.kind == "ready" else number] = 1.0
    return matrix


def _inner(rates: RoleRates, level: int) -> FloatArray:
    """Rates within a level, with the outflow of all transitions on the diagonal, shape (n, M, M)."""
    n, size = rates.service.shape
    phases = phases_of(rates.states)
    at = {phase: number for number, phase in enumerate(phases)}
    matrix = np.zeros((n, size, size))
    at_once = AT_ONCE * np.maximum(rates.service.max(axis=1), rates.arrival)
    rise = 1.0 / np.maximum(rates.rise_s, 1.0 / at_once[:, None])
    fall = 1.0 / np.maximum(rates.fall_s, 1.0 / at_once[:, None])
    climbs, sinks = level >= rates.up, level <= rates.down
    for number, phase in enumerate(phases):
        low, high = phase.prefill, phase.decode
        if phase.kind == "rising":
            matrix[:, number, at[Phase("ready", low, high)]] = rise[:, low]
        elif phase.kind == "falling":
            matrix[:, number, low] = fall[:, low]
            exists = (low >= rates.lowest) & (high <= rates.highest)
            matrix[:, low, at[Phase("rising", low, high)]] = np.where(exists & climbs, at_once, 0.0)
            matrix[:, high, number] = np.where(exists & sinks, at_once, 0.0)
            matrix[:, low, high] = np.where(low < rates.lowest, at_once, 0.0)
            matrix[:, high, low] = np.where(high > rates.highest, at_once, 0.0)
        elif phase.kind == "ready":
            within = rates.service[:, number] * (rates.iterations - 1.0)
            matrix[:, number, high] = within if level else at_once
            if high + 1 < rates.states:
                further = climbs & (high + 1 <= rates.highest)
                matrix[:, number, at[Phase("ready", low, high + 1)]] = np.where(further, rise[:, high], 0.0)
    out = matrix.sum(axis=2) + rates.arrival[:, None] + (rates.service if level else 0.0)
    matrix[:, np.arange(size), np.arange(size)] -= out
    return matrix


def _minimal_ratio(up: FloatArray, inner: FloatArray, down: FloatArray) -> FloatArray:
    """Minimal solution R of `A₀ + R A₁ + R² A₂ = 0`."""
    identity = np.eye(inner.shape[1])
    inverse = np.linalg.inv(-inner)
    high, low = inverse @ up, inverse @ down
    first, passed = low.copy(), high.copy()
    for _ in range(DOUBLINGS):
        step = np.linalg.inv(identity - high @ low - low @ high)
        high, low = step @ (high @ high), step @ (low @ low)
        first = first + passed @ low
        passed = passed @ high
        if not np.nanmax(np.abs(passed)) > CLOSE:
            break
    return np.asarray(up @ np.linalg.inv(-inner - up @ first))


def _null(matrix: FloatArray) -> FloatArray:
    """Row vectors with `x·matrix = 0` and sum 1."""
    bordered = matrix.copy()
    bordered[:, :, 0] = 1.0
    right = np.zeros((len(matrix), matrix.shape[1], 1))
    right[:, 0] = 1.0
    return np.asarray(np.linalg.solve(bordered.transpose(0, 2, 1), right)[:, :, 0])


def _times(vector: FloatArray, matrix: FloatArray) -> FloatArray:
    return np.asarray((vector[:, None, :] @ matrix)[:, 0])
