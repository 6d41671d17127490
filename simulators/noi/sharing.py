"""Speeds of jobs that share resources: bandwidth max-min on every bottleneck.

Job `j` alone keeps resource `r` busy for the share `u_jr ≤ 1` of its time; at speed `s_j ≤ 1` it takes `s_j·u_jr`
of it.  An allocation is fair when every job slower than 1 has a bottleneck: a full resource on which no other job
takes more than it does (Bonald and Roberts, "Multi-resource fairness: objectives, algorithms and performance",
SIGMETRICS 2015, where it is called bottleneck max fairness).  On one resource this is max-min: two equal jobs get
half each, a job that asks for less than its fair share keeps what it asks for.

What is left of resource `r` for job `j` when the others take `v_1 ≤ v_2 ≤ …` is the water level
`max_i (1 − v_1 − … − v_i)/(n − i)` (`m` equal jobs look at the `n − m` others together), so a fair allocation is a
fixed point of
`s_j = min(1, min_r level_jr / u_jr)`.  Every fixed point is feasible: were a resource over-full, the job that takes
most of it would be above its own level.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

PASSES = 200
"""Sweeps over the jobs before the search for a fixed point is cut off (it takes two to ten as a rule)."""

TOLERANCE = 1e-12
"""Of speeds and of a resource's capacity, for rounding."""


def fair_speeds(usage: FloatArray) -> FloatArray:
    """Return the speed of each job in (0, 1].

    Args:
        usage: shape (jobs, resources): busy share of each resource while the job runs alone, in [0, 1].
    """
    jobs = len(usage)
    if jobs == 2:
        return np.array(fair_pair(usage[0], usage[1]))
    speeds = np.ones(jobs)
    contended = usage.sum(axis=0) > 1.0 + TOLERANCE
    if not contended.any():
        return speeds
    usage = usage[:, contended]
    # Jobs of equal usage have equal speeds (all transfers between two pools, say): each kind is looked at once.
    numbers: dict[bytes, int] = {}
    kind = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in usage])
    _, first, counts = np.unique(kind, return_index=True, return_counts=True)
    speeds, kinds = np.ones(len(first)), usage[first]
    for _ in range(PASSES):
        before = speeds.copy()
        for number in range(len(first)):
            speeds[number] = _speed(kinds, counts, speeds, number)
        if np.abs(speeds - before).max() < TOLERANCE:
            break
    fair: FloatArray = (speeds / max(1.0, float(((speeds * counts) @ kinds).max())))[kind]
    return fair


def _speed(usage: FloatArray, counts: NDArray[np.int64], speeds: FloatArray, kind: int) -> float:
    """Speed of the jobs of one kind given what those of the others take; they share what is left evenly."""
    mine, own = usage[kind], int(counts[kind])
    used = mine > 0.0
    if not used.any():
        return 1.0
    others = np.repeat(np.delete(usage * speeds[:, None], kind, axis=0)[:, used], np.delete(counts, kind), axis=0)
    taken = np.concatenate((np.zeros((1, others.shape[1])), np.cumsum(np.sort(others, axis=0), axis=0)))
    level = ((1.0 - taken) / (len(others) + own - np.arange(len(others) + 1))[:, None]).max(axis=0)
    return min(1.0, float((level / mine[used]).min()))


def fair_pair(first: FloatArray, second: FloatArray) -> tuple[float, float]:
    """The same fixed point for two jobs, given the usage of each; the common case, on plain floats."""
    both = first + second
    if not len(both) or both.max() <= 1.0 + TOLERANCE:
        return 1.0, 1.0
    contended = (both > 1.0 + TOLERANCE).nonzero()[0]
    # A usage is at most 1, so both jobs use a resource on which they add up to more.
    return pair_speeds(list(zip(first[contended].tolist(), second[contended].tolist(), strict=True)))


def pair_speeds(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """The fixed point for two jobs, given the usage of both on every resource on which they add up to more than 1."""
    one = two = 1.0
    for _ in range(PASSES):
        new_one = min([1.0, *[max(0.5, 1.0 - b * two) / a for a, b in pairs]])
        new_two = min([1.0, *[max(0.5, 1.0 - a * new_one) / b for a, b in pairs]])
        done = abs(new_one - one) < TOLERANCE and abs(new_two - two) < TOLERANCE
        one, two = new_one, new_two
        if done:
            break
    excess = max([1.0, *[a * one + b * two for a, b in pairs]])
    return one / excess, two / excess
