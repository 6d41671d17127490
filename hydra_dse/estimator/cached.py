"""Designs with a prefix cache: what it finds shortens prompts, what runs takes memory from it.

Fixed point: capacity = cache memory − what running requests hold; hits from the capacity (`reuse` for recorded,
`expected_reuse` for sampled requests); prompts with their cached part through the solver; memory of running requests
from there.  Both tiers are one least-recently-used order: what the device holds is the part of it within the device's
capacity, what the host holds the part behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hydra_dse.errors import InputError
from hydra_dse.estimator.expected_reuse import ExpectedReuse, Surroundings
from hydra_dse.estimator.reuse import Sizes, distances_of, sizes_of
from hydra_dse.estimator.table import EstimateTable
from hydra_dse.policy import Policy
from hydra_dse.profile.nouns import ServiceProfile
from hydra_dse.workload import Piece, arrival_statistics, pieces
from hydra_dse.workload.nouns import LengthPoints, Workload

FloatArray = NDArray[np.float64]
Solve = Callable[[Sequence[Piece], bool], EstimateTable]

ROUNDS = 8
"""Of the fixed point of what is cached and how fast requests are; it settles in fewer or its last state is taken."""
CLOSE = 0.003
"""Capacities that differ by less, as a share of the cache memory, are the same."""


@dataclass(frozen=True)
class Reused:
    """A prefix cache at the capacity that running requests leave it.

    Attributes:
        memory_bytes: memory for all caches; capacity_bytes: of it, for cached entries.
        stay_s: time for which an entry stays after its last use; NaN for recorded requests.
        hit_share: prompt tokens found over all prompt tokens; device_share: those found on the device.
        course: pieces of the workload with what is found of their prompts.
        hit_share_at: hits at other capacities, with the load as it is.
    """

    memory_bytes: float
    capacity_bytes: float
    stay_s: float
    hit_share: float
    device_share: float
    course: tuple[Piece, ...]
    hit_share_at: Callable[[float], float]


@dataclass(frozen=True)
class _Found:
    """Pieces with what is found of their prompts, the shares found, and bytes that requests read together."""

    course: tuple[Piece, ...]
    hit_share: float
    device_share: float
    read_bytes: float
    stay_s: float


class _Finder:
    """Hits of one workload under one policy, by capacity."""

    def __init__(self, workload: Workload, policy: Policy, profile: ServiceProfile) -> None:
        self.workload, self.policy = workload, policy
        recorded = workload.replay
        id_tokens = recorded.block_tokens if recorded is not None else workload.prefixes.block_tokens  # type: ignore[union-attr]
        kv, state = float(profile.kv_bytes_per_token[0]), float(profile.state_bytes_per_sequence[0])
        self.sizes: Sizes = sizes_of(policy, id_tokens, kv, state)
        self.expected = None
        if recorded is None and workload.prefixes is not None:
            self.expected = ExpectedReuse(workload, workload.prefixes, self.sizes)

    def at(self, capacity_bytes: float, around: Surroundings) -> _Found:
        """What a cache of that capacity finds, host included."""
        whole = capacity_bytes + self.policy.host_cache_bytes
        if self.expected is None:
            return self._recorded(capacity_bytes, whole)
        points, read = self.expected.points(whole, around)
        near = points if whole == capacity_bytes else self.expected.points(capacity_bytes, around)[0]
        [piece] = pieces(self.workload)
        return _Found(
            (replace(piece, lengths=points),), _share(points), _share(near), read, self.expected.time_of(whole, around)
        )

    def _recorded(self, capacity_bytes: float, whole_bytes: float) -> _Found:
        record = self.workload.replay
        if record is None:
            raise InputError("no recorded requests")
        distances = distances_of(record, self.sizes)
        found = distances.found(whole_bytes)
        course = pieces(self.workload, found)
        return _Found(course, distances.share(whole_bytes), distances.share(capacity_bytes), 0.0, np.nan)


def _share(points: LengthPoints) -> float:
    cached = points.cached_tokens
    return 0.0 if cached is None else points.mean(cached) / points.mean(points.prompt_tokens)


def estimate_cached(
    profile: ServiceProfile, workload: Workload, policy: Policy, solve: Solve
) -> tuple[EstimateTable, Reused]:
    """Estimate one design with a prefix cache.

    Args:
        profile: of the one design.
        workload: that says what its requests share.
        policy: of the design.
        solve: estimates the design under given pieces; the flag asks for means only.
    """
    memory = float(profile.cache_bytes[0]) / (1.0 - policy.memory_watermark)
    finder = _Finder(workload, policy, profile)
    rate = arrival_statistics(workload).rate_per_s
    around = Surroundings(rate)
    capacity = memory
    found = finder.at(capacity, around)
    for _ in range(ROUNDS):
        table = solve(found.course, True)
        around = _surroundings(table, rate)
        free = max(memory - _running_bytes(table, profile, found, around), 0.0)
        settled = abs(free - capacity) <= CLOSE * memory
        capacity = (capacity + free) / 2.0
        found = finder.at(capacity, around)
        if settled:
            break
    table = solve(found.course, False)
    last = around
    reused = Reused(
        memory,
        capacity,
        found.stay_s,
        found.hit_share,
        found.device_share,
        found.course,
        lambda capacity_bytes: finder.at(capacity_bytes, last).hit_share,
    )
    return _finished(table, workload, found, policy, finder.sizes, rate), reused


def _surroundings(table: EstimateTable, rate: float) -> Surroundings:
    """Waits and times in service; none where the design is overloaded."""
    ttft, scheduled, e2e = (
        float(table.metrics.get(name, np.array([np.nan]))[0])
        for name in ("ttft_mean_s", "ttft_scheduled_mean_s", "e2e_mean_s")
    )
    if not np.isfinite([ttft, scheduled, e2e]).all():
        return Surroundings(rate)
    return Surroundings(rate, max(ttft - scheduled, 0.0), max(e2e - ttft, 0.0))


def _running_bytes(table: EstimateTable, profile: ServiceProfile, found: _Found, around: Surroundings) -> float:
    """Memory of running requests; what several read at once is counted with the cache."""
    occupied = sum(float(np.nan_to_num(table.metrics[f"{kind}_occupancy"][0])) for kind in ("kv", "state"))
    running = occupied * float(profile.cache_bytes[0])
    return max(running - around.rate_per_s * around.running_s * found.read_bytes, 0.0)


def _finished(
    table: EstimateTable, workload: Workload, found: _Found, policy: Policy, sizes: Sizes, rate: float
) -> EstimateTable:
    """Add the share found, the time of sessions, and the wait for what comes from the host."""
    metrics = dict(table.metrics)
    prompt = sum(piece.share * piece.lengths.mean(piece.lengths.prompt_tokens) for piece in found.course)
    per_token = sizes.kv_bytes / sizes.unit_tokens
    moved = max(found.hit_share - found.device_share, 0.0) * prompt * per_token
    delay = _transfer_s(moved, policy.host_bytes_per_s, rate) if moved > 0.0 else 0.0
    for name in metrics:
        if name.startswith(("ttft_", "e2e_")) and delay:
            metrics[name] = metrics[name] + delay
    metrics["prefix_hit_share"] = np.full(table.size, found.hit_share)
    return EstimateTable(metrics, table.low, table.high, table.violations, table.notes)


def _transfer_s(mean_bytes: float, bytes_per_s: float, rate: float) -> float:
    """Mean time of a transfer over the host link and of its wait for others: M/M/1."""
    seconds = mean_bytes / max(bytes_per_s, 1e-300)
    load = min(rate * seconds, 0.99)
    return seconds / (1.0 - load)


def session_s(workload: Workload, e2e_s: FloatArray) -> FloatArray | None:
    """Mean time of a session of several turns, think times included; None where there are none."""
    prefixes = workload.prefixes
    if prefixes is None or not workload.has_sessions:
        return None
    return np.asarray(prefixes.mean_turns * e2e_s + (prefixes.mean_turns - 1.0) * prefixes.think.mean_s)
