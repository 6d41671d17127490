"""Shift events: the mix of classes and the rate as functions of time.

The rate is shifted by running the arrival process through the inverse of `∫factor(u)du`, so that any process keeps
its own burstiness inside a phase.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hydra_dse.errors import InputError
from hydra_dse.workload.arrivals import invert
from hydra_dse.workload.nouns import FloatArray, Workload


@dataclass(frozen=True)
class Phase:
    """A stretch of time with constant mix and rate.

    Attributes:
        weight: share of time in the long run.
        shares: of the classes.
        rate_factor: relative to the workload's own rate.
    """

    weight: float
    shares: tuple[float, ...]
    rate_factor: float


def phases(workload: Workload) -> tuple[Phase, ...]:
    """The phases of the long run: those of a cycle, or the last one where shifts do not repeat."""
    starts, shares, factors = _table(workload)
    if workload.cycle_s is None:
        return (Phase(1.0, shares[-1], factors[-1]),)
    lengths = np.diff([*starts, workload.cycle_s])
    weights = (lengths / workload.cycle_s).tolist()
    return tuple(Phase(*row) for row in zip(weights, shares, factors, strict=True))


def _table(workload: Workload) -> tuple[list[float], list[tuple[float, ...]], list[float]]:
    """Start, shares and rate factor of each phase, the first from 0."""
    starts, shares, factors = [0.0], [tuple(kind.share for kind in workload.classes)], [1.0]
    for shift in workload.shifts:
        if shift.at_s < starts[-1] or (shift.at_s == starts[-1] and len(starts) > 1):
            raise InputError(f"shifts must ascend in time, got {shift.at_s:g} s after {starts[-1]:g} s")
        if shift.rate_factor < 0 or (shift.shares is not None and len(shift.shares) != len(workload.classes)):
            raise InputError(f"the shift at {shift.at_s:g} s needs a rate factor of 0 or more and a share per class")
        row = (shift.at_s, shift.shares or shares[-1], shift.rate_factor)
        if shift.at_s == 0:
            starts, shares, factors = [], [], []
        starts.append(row[0])
        shares.append(row[1])
        factors.append(row[2])
    if workload.cycle_s is not None and workload.cycle_s <= starts[-1]:
        raise InputError(f"the cycle of {workload.cycle_s:g} s must end after the last shift at {starts[-1]:g} s")
    if (workload.cycle_s is None and factors[-1] == 0) or max(factors) == 0:
        raise InputError("the rate must not stay 0 for ever: raise the last rate factor or let the shifts repeat")
    return starts, shares, factors


def warp(workload: Workload, times_s: FloatArray) -> FloatArray:
    """Arrival times of the unshifted process moved to where the shifted rate puts them."""
    if all(shift.rate_factor == 1.0 for shift in workload.shifts):
        return times_s
    starts, _, factors = _table(workload)
    cycle = workload.cycle_s
    # Without a cycle the last phase runs as long as the longest arrival needs.
    end = cycle if cycle is not None else starts[-1] + 1 + float(times_s[-1]) / factors[-1]
    ends = np.array([*starts, end])
    mass = np.concatenate([[0.0], np.cumsum(np.diff(ends) * factors)])
    if cycle is None:
        return invert(times_s, ends, mass)
    turns, rest = np.divmod(times_s, mass[-1])
    return np.asarray(turns * cycle + invert(rest, ends, mass))


def shares_at(workload: Workload, times_s: FloatArray) -> FloatArray:
    """Shares of the classes at each time, one row per time."""
    starts, shares, _ = _table(workload)
    at = times_s % workload.cycle_s if workload.cycle_s is not None else times_s
    return np.asarray(shares)[np.searchsorted(starts, at, side="right") - 1]
