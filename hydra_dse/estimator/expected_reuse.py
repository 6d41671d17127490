"""Hits of a prefix cache as a function of its capacity: sampled system prompts and sessions, in closed form.

Che's approximation (2002): a least-recently-used cache keeps an entry for a time `T` after its last use, the same for
all entries; `T` follows from the capacity, which the entries used within `T` fill on average.

- Units of a system prompt are used by every turn of its sessions, at rate `λ_k`: in the cache with probability
  `1 − e^{−λ_k(T + R)}`, R the time for which a running request reads them (checkpoints: without R).
- Units that a session adds wait for its next turn: found where the think time `G` is at most `T`.  They lie in the
  cache for `min(T, G)`, those of the last turn for `T`; checkpoints also while the turn runs.

A path that is no small part of the cache leaves less to the others: it is found where what they use within `G` and
its own size fit.  Paths count in two halves, as their far end may be gone while the near one is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc

from hydra_dse.estimator.reuse import Sizes
from hydra_dse.workload.nouns import LengthPoints, Workload
from hydra_dse.workload.points import thin
from hydra_dse.workload.prefixes import Prefixes, Think
from hydra_dse.workload.turns import Turns, sampled_turns

FloatArray = NDArray[np.float64]

SESSIONS = 2000
"""Drawn to know what sessions share."""
HALVES = (0.25, 0.75)
"""The middles of both halves of a path."""
GRID, LONGEST = 90, 9.0
"""Times from 0.1 ms to 10^9 s."""
STEP = 0.01
"""Capacities are rounded to 1 %, so that designs of a sweep share what is worked out for them."""


def within(think: Think, time_s: FloatArray) -> FloatArray:
    """Probability of a think time of at most `time_s`; 0 for times below 0."""
    if think.cv <= 0.0 or think.mean_s <= 0.0:
        return np.asarray(np.where(time_s >= think.mean_s, 1.0, 0.0))
    shape = 1.0 / think.cv**2
    return np.asarray(gammainc(shape, np.maximum(time_s, 0.0) * shape / think.mean_s))


def shorter_of(think: Think, time_s: float) -> float:
    """`E[min(T, G)]` of a gamma distributed think time: `E[G]·F_{k+1}(T) + T·(1 − F_k(T))`."""
    if think.cv <= 0.0 or think.mean_s <= 0.0:
        return min(time_s, think.mean_s)
    shape = 1.0 / think.cv**2
    scaled = time_s * shape / think.mean_s
    return float(think.mean_s * gammainc(shape + 1.0, scaled) + time_s * (1.0 - gammainc(shape, scaled)))


@dataclass(frozen=True)
class Surroundings:
    """What the cache meets of the server: turns per second, and for how long requests wait and hold their memory."""

    rate_per_s: float
    wait_s: float = 0.0
    running_s: float = 0.0

    @property
    def rounded(self) -> Surroundings:
        """The same to two digits, so that designs of a sweep share what is worked out for it."""
        return Surroundings(self.rate_per_s, float(f"{self.wait_s:.2g}"), float(f"{self.running_s:.2g}"))


@dataclass(frozen=True)
class _Own:
    """Bytes per turn: KV and checkpoints that it leaves, of turns that another follows and of last ones.

    `new_state`: checkpoints that it adds; they are there from the end of its prefill.
    """

    kv: float
    state: float
    last_kv: float
    last_state: float
    new_state: float


@dataclass(frozen=True)
class ExpectedReuse:
    """Sampled turns of a workload and the sizes of a cache."""

    workload: Workload
    prefixes: Prefixes
    sizes: Sizes

    @cached_property
    def turns(self) -> Turns:
        """Turns of some thousand sessions."""
        return sampled_turns(self.workload, self.prefixes, SESSIONS)

    @cached_property
    def _units(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Units of the system prompt, of the history that a turn finds at most, and that a turn leaves."""
        turns, unit = self.turns, self.sizes.unit_tokens
        shared = np.minimum(turns.shared_tokens, turns.prompt_tokens - 1) // unit
        history = np.where(turns.number > 0, (turns.history_tokens - 1) // unit, 0)
        return shared, history, (turns.prompt_tokens + turns.output_tokens - 1) // unit

    def occupied(self, time_s: float, around: Surroundings) -> float:
        """Bytes that lie in the cache when entries stay for `time_s` after their last use."""
        popularity = np.array(self.prefixes.popularity or (0.0,)) * around.rate_per_s
        units = np.array(self.prefixes.system_tokens or (0,), dtype=np.int64) // self.sizes.unit_tokens
        kv, states = self.sizes.bytes_of(units)
        common = kv @ -np.expm1(-popularity * (time_s + around.running_s)) + states @ -np.expm1(-popularity * time_s)
        own, think = self._own, self.prefixes.think
        again = float(within(think, np.asarray(time_s - around.wait_s)))
        waits, running = shorter_of(think, time_s), min(around.running_s, time_s)
        own_bytes = (own.last_kv + own.last_state) * time_s + (own.kv + own.state) * waits
        return float(common + around.rate_per_s * (own_bytes + (own.state * again + own.new_state) * running))

    @cached_property
    def _own(self) -> _Own:
        """What turns leave beyond their system prompt."""
        shared, history, left = self._units
        kv, state = (x - y for x, y in zip(self.sizes.bytes_of(left), self.sizes.bytes_of(shared), strict=True))
        new = np.maximum(self.sizes.bytes_of(left)[1] - self.sizes.bytes_of(np.maximum(history, shared))[1], 0.0)
        last = self.turns.last
        means = ((kv * ~last), (state * ~last), (kv * last), (state * last), new)
        return _Own(*(float(x.mean()) for x in means))

    def stays(self, around: Surroundings) -> tuple[FloatArray, FloatArray]:
        """Times `T` and the bytes that lie in the cache for each, both ascending."""
        times = np.logspace(-4.0, LONGEST, GRID)
        return times, np.maximum.accumulate([self.occupied(float(time), around) for time in times])

    def time_of(self, capacity_bytes: float, around: Surroundings) -> float:
        """`T` at a capacity."""
        return float(_times(*_stays(self, around.rounded), np.array([capacity_bytes]))[0])

    def points(self, capacity_bytes: float, around: Surroundings) -> tuple[LengthPoints, float]:
        """Lengths with what is found of each prompt, and the mean bytes of KV that requests find of system prompts."""
        if capacity_bytes > 0.0:
            capacity_bytes = float(np.exp(round(np.log(capacity_bytes) / STEP) * STEP))
        return _points(self, capacity_bytes, around.rounded)


def _times(times: FloatArray, occupied: FloatArray, capacity: FloatArray) -> FloatArray:
    """`T` at capacities of any shape: 0 below the first, the longest beyond the last."""
    found = np.exp(np.interp(np.log(np.maximum(capacity, 1e-300)), np.log(np.maximum(occupied, 1e-300)), np.log(times)))
    return np.asarray(np.where(capacity > occupied[0], found, 0.0))


@lru_cache(maxsize=64)
def _stays(reuse: ExpectedReuse, around: Surroundings) -> tuple[FloatArray, FloatArray]:
    return reuse.stays(around)


@lru_cache(maxsize=512)
def _points(reuse: ExpectedReuse, capacity: float, around: Surroundings) -> tuple[LengthPoints, float]:
    turns, sizes, think = reuse.turns, reuse.sizes, reuse.prefixes.think
    shared, history, _ = reuse._units
    times, occupied = _stays(reuse, around)
    popularity = (np.array(reuse.prefixes.popularity or (0.0,)) * around.rate_per_s)[turns.system]
    pinned = around.running_s if sizes.state_bytes <= 0.0 else 0.0
    rows = []
    read = np.zeros(len(turns))
    for depth in HALVES:
        own, far = (sum(sizes.bytes_of(np.rint(units * depth).astype(np.int64))) for units in (history, shared))
        stay = _times(times, occupied, capacity - np.asarray(own))
        again = np.where((turns.number > 0) & (stay > 0.0), within(think, stay - around.wait_s), 0.0)
        there = -np.expm1(-popularity * (_times(times, occupied, capacity - np.asarray(far)) + pinned))
        rows.append((again, np.where(sizes.useless, 0.0, there)))
        read += np.maximum(*rows[-1]) * shared / 2.0
    points = _mixture(reuse, rows)
    return points, float(read.mean()) * sizes.kv_bytes


def _mixture(reuse: ExpectedReuse, rows: list[tuple[FloatArray, FloatArray]]) -> LengthPoints:
    """Turns that find all of their history, half of it, their system prompt, half of that, or nothing."""
    turns, sizes = reuse.turns, reuse.sizes
    shared, history, _ = reuse._units
    (near, near_common), (whole, whole_common) = rows
    whole, whole_common = np.minimum(whole, near), np.minimum(whole_common, near_common)
    miss = 1.0 - near
    common = sizes.usable(shared)
    parts = (
        (whole, np.maximum(sizes.usable(history), common)),
        (near - whole, np.maximum(sizes.usable(history // 2), np.minimum(common, history // 2))),
        (miss * whole_common, common),
        (miss * (near_common - whole_common), sizes.usable(shared // 2)),
        (miss * (1.0 - near_common), np.zeros_like(shared)),
    )
    weight = np.concatenate([share for share, _ in parts])
    cached = np.concatenate([units for _, units in parts]).astype(float) * sizes.unit_tokens
    prompt, output = (np.tile(x, len(parts)).astype(float) for x in (turns.prompt_tokens, turns.output_tokens))
    kept = weight > 1e-9
    total = weight[kept].sum()
    return thin(LengthPoints(prompt[kept], output[kept], weight[kept] / total, cached[kept]))
