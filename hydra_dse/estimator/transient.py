"""Queues of a piece of time in which they need not settle.

Three forms, by what is known of the piece:
- A recorded path: waits follow Lindley's recursion `W' = (W + S − gap)⁺`, exact for one server, first come, first
  served; written as a reflection it is a cumulative sum and a running minimum.
- Rates alone: below saturation the queue is a reflected Brownian motion that starts empty, seen at an exponential
  time of mean `T/2`; above it stays that of a load of 1, on top of a fluid.
- A fluid backlog builds at `λ − μ` and drains at `μ − λ` from piece to piece; its area is what requests wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hydra_dse.estimator.lengths import Bins
from hydra_dse.workload.pieces import Path

FloatArray = NDArray[np.float64]

# Designs whose paths are followed at a time: their arrays stay in cache.
ROWS = 32


@dataclass(frozen=True)
class Transient:
    """A piece of time as a solver meets it.

    Attributes:
        offered: arrivals per second, shape (n,); the rate a solver gets is what is served, which differs while a
            backlog builds or drains.
        duration_s: of the piece.
        path: its requests, where recorded.
        left_s: prompt work that the piece before left, in s, shape (n,).
        held: requests of a fluid backlog that a full pool keeps from their prompts, mean over the piece, shape (n,);
            held_share: of the time, in which it does.
        parked: the same between prompt and decode.
        stretch: gaps of the path are longer by this factor, shape (n,) (another mean rate).
    """

    offered: FloatArray
    duration_s: float
    path: Path | None
    left_s: FloatArray
    held: FloatArray
    held_share: FloatArray
    parked: FloatArray
    stretch: FloatArray

    @property
    def horizon_per_s(self) -> float:
        """Rate of the exponential time at which queues are seen."""
        return 2.0 / self.duration_s


def settled_load(load: FloatArray, diffusion: FloatArray, horizon_per_s: float | FloatArray) -> FloatArray:
    """Load of the stationary queue that is as long as one seen at an exponential time after an empty start.

    Args:
        load: offered load, may exceed 1.
        diffusion: variance of the net work per second, in s: `λE[S]²(c_a² + c_s²)`.
        horizon_per_s: 1 / mean of that time.
    """
    idle = 1.0 - load
    return np.asarray(1.0 - (idle + np.sqrt(idle**2 + 2.0 * horizon_per_s * diffusion)) / 2.0)


def critical(load: FloatArray) -> FloatArray:
    """The load of the queue on top of a fluid: at most 1.

    In overload by θ per second the queue is the fluid `θt` and what chance adds.  For a constant rate that is `σ²/2θ`,
    less than at a load of 1; the rate of a piece is a mean over a time that is sometimes below it, so that a load of
    1 is taken: an upper bound, small against the fluid where the overload is large.
    """
    return np.minimum(load, 1.0)


@dataclass(frozen=True)
class Ramp:
    """A fluid backlog over a piece: mean height above a level, share of time above it, and the height at the end."""

    mean: FloatArray
    share: FloatArray
    left: FloatArray


def ramp(start: FloatArray, slope: FloatArray, duration_s: float, level: FloatArray | float = 0.0) -> Ramp:
    """A backlog that changes by `slope` per second, down to 0 at the lowest.

    Args:
        start: at the beginning of the piece.
        slope: arrivals less service.
        duration_s: of the piece.
        level: what of the backlog is not counted.
    """
    left = np.maximum(start + slope * duration_s, 0.0)
    first, last = np.maximum(start - level, 0.0), np.maximum(left - level, 0.0)
    steep = np.abs(slope) > 0
    crossed = np.abs(first - last) / np.where(steep, np.abs(slope), 1.0)
    # On the level at one end, the backlog is above it only while it climbs or falls; above at both, all the time.
    time = np.where((first > 0) & (last > 0), duration_s, np.minimum(crossed, duration_s))
    return Ramp((first + last) / 2.0 * time / duration_s, time / duration_s, left)


@dataclass(frozen=True)
class PathWaits:
    """Waits along a path.

    Attributes:
        waits: share of requests that wait, shape (n,); wait_s: mean wait of those.
        points: means of that wait between its quantiles `edges`, shape (n, slices).
        dispersion: variance of the number of requests that end within a life, over its mean, shape (n,).
        left_s: work after the last request, shape (n,).
    """

    waits: FloatArray
    wait_s: FloatArray
    points: FloatArray
    dispersion: FloatArray
    left_s: FloatArray


def follow(
    transient: Transient,
    light: FloatArray,
    heavy_s: FloatArray,
    full_s: FloatArray,
    bins: Bins,
    life_s: FloatArray,
    edges: tuple[float, ...],
) -> PathWaits:
    """Follow the path of a piece for every design.

    Args:
        transient: with a path.
        light: service of a prompt of each size bin that finds no one ahead, shape (n, bins).
        heavy_s: service per token in full iterations, shape (n,).
        full_s: a full iteration, shape (n,): with that much work ahead a prompt is in one.
        bins: sizes of the prompts.
        life_s: time for which a request stays in the station that follows, shape (n,).
        edges: quantiles between which waits are averaged.
    """
    found = [
        _follow(transient, light[rows], heavy_s[rows], full_s[rows], bins, life_s[rows], edges, rows)
        for rows in (slice(start, start + ROWS) for start in range(0, len(heavy_s), ROWS))
    ]
    return PathWaits(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _follow(
    transient: Transient,
    light: FloatArray,
    heavy_s: FloatArray,
    full_s: FloatArray,
    bins: Bins,
    life_s: FloatArray,
    edges: tuple[float, ...],
    rows: slice,
) -> tuple[FloatArray, ...]:
    path = transient.path
    if path is None:
        raise ValueError("a piece without a path has nothing to follow")
    alone = _at_sizes(light, bins.size, path.prompt_tokens) * path.count
    packed = heavy_s[:, None] * (path.prompt_tokens * path.count)
    gaps = path.gap_s * transient.stretch[rows, None]
    start = transient.left_s[rows]
    wait = reflect(start, alone, gaps)
    for _ in range(2):
        company = np.minimum(wait / full_s[:, None], 1.0)
        service = alone + company * (packed - alone)
        wait = reflect(start, service, gaps)
    ends = np.cumsum(gaps, axis=1) + wait + service
    dispersion = dispersion_of(ends, path.count, life_s)
    # Joined neighbours wait for each other.
    seen = wait + (path.count - 1.0) / 2.0 / path.count * service
    return *sliced(seen, edges), dispersion, wait[:, -1] + service[:, -1]


def sliced(values: FloatArray, edges: tuple[float, ...]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Share above 0, mean of those, and their means between quantiles, of samples of shape (n, m)."""
    n, m = values.shape
    ordered = np.sort(values, axis=1)
    above = np.maximum((ordered > 0.0).sum(axis=1), 1)
    mass = np.hstack((np.zeros((n, 1)), np.cumsum(ordered, axis=1)))
    where = (m - above)[:, None] + np.asarray(edges) * above[:, None]
    left = np.minimum(where.astype(np.int64), m - 1)
    rows = np.arange(n)[:, None]
    at = mass[rows, left] + (where - left) * ordered[rows, left]
    points = np.diff(at, axis=1) / (np.diff(edges) * above[:, None])
    return above / m, mass[:, -1] / above, points


def dispersion_of(ends_s: FloatArray, count: FloatArray, life_s: FloatArray) -> FloatArray:
    """Variance over mean of the counts of events in windows of a life, shape (n,).

    It is the peakedness of the number in a station that each event enters for a life; 1 for a Poisson process.
    """
    n = len(ends_s)
    span = ends_s[:, -1] - ends_s[:, 0]
    windows = np.clip(span / life_s, 2.0, ends_s.shape[1]).astype(np.int64)
    index = np.minimum(
        ((ends_s - ends_s[:, :1]) / span[:, None] * windows[:, None]).astype(np.int64), windows[:, None] - 1
    )
    most = int(windows.max())
    cells = (index + np.arange(n)[:, None] * most).ravel()
    counts = np.bincount(cells, np.broadcast_to(count, ends_s.shape).ravel(), n * most).reshape(n, most)
    mean = count.sum() / windows
    square = (counts**2).sum(axis=1) / windows
    return np.asarray((square - mean**2) * windows / (windows - 1.0) / mean)


def reflect(start: FloatArray, service: FloatArray, gaps: FloatArray) -> FloatArray:
    """Waits by Lindley's recursion, shape (n, m); `start` is the work left when the gap before the first begins."""
    steps = -gaps
    steps[:, 0] += start
    steps[:, 1:] += service[:, :-1]
    free = np.cumsum(steps, axis=1)
    return np.asarray(free - np.minimum(np.minimum.accumulate(free, axis=1), 0.0))


def _at_sizes(values: FloatArray, sizes: FloatArray, at: FloatArray) -> FloatArray:
    """Interpolate values at size bins, (n, bins) → (n, m); beyond the ends on the line of the last two."""
    if len(sizes) == 1:
        return np.asarray(values[:, :1] * np.maximum(at / sizes[0], 0.0))
    left = np.clip(np.searchsorted(sizes, at) - 1, 0, len(sizes) - 2)
    part = (at - sizes[left]) / (sizes[left + 1] - sizes[left])
    low = values[:, left]
    return np.maximum(low + part * (values[:, left + 1] - low), 1e-9)
