"""The loads of a study of task maps: the mixes of a shifting workload at rest, their mean, and shifts at each speed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hydra_dse.design.experiment import DynamicSettings
from hydra_dse.workload.nouns import Workload
from hydra_dse.workload.sampling import arrival_statistics, at_rate
from hydra_dse.workload.shifts import Phase, phases

MEAN = "steady mean"


@dataclass(frozen=True)
class Load:
    """One load of the study.

    Attributes:
        cycle_s: length of the cycle of shifts; None for a load at rest.
        starts_s: when each phase of the cycle starts, ascending from 0; empty for a load at rest.
    """

    name: str
    workload: Workload
    cycle_s: float | None = None
    starts_s: tuple[float, ...] = ()


def loads_of(workload: Workload, settings: DynamicSettings, rate_per_s: float) -> tuple[Load, ...]:
    """Mean mix, each mix alone, then the shifting load by the length of its cycle; the mean rate is the same for all.

    Args:
        workload: whose shifts repeat.
        settings: lengths of the cycle.
        rate_per_s: mean rate; phases with a rate factor differ from it as they do in the workload.
    """
    parts = phases(workload)
    mean = sum(part.weight * part.rate_factor for part in parts)
    rest = [Load(MEAN, at_rate(steady(workload, mean_shares(parts)), rate_per_s))]
    rest += [
        Load(f"steady {number}", at_rate(steady(workload, part.shares), rate_per_s * part.rate_factor / mean))
        for number, part in enumerate(parts, start=1)
        if part.rate_factor > 0.0
    ]
    moving = []
    for cycle in settings.cycles_s:
        stretched = at_rate(stretch(workload, cycle), rate_per_s)
        starts = np.cumsum([0.0, *(part.weight * cycle for part in parts)])[:-1]
        moving.append(Load(f"cycle {cycle:g} s", stretched, cycle, tuple(starts.tolist())))
    return (*rest, *moving)


def mean_shares(parts: tuple[Phase, ...]) -> tuple[float, ...]:
    """Shares of the classes among all requests of a cycle."""
    weights = np.array([part.weight * part.rate_factor for part in parts])
    shares = np.array([part.shares for part in parts])
    shares = shares / shares.sum(axis=1, keepdims=True)
    return tuple((weights @ shares / weights.sum()).tolist())


def steady(workload: Workload, shares: tuple[float, ...]) -> Workload:
    """The workload without shifts, with these shares of its classes."""
    total = sum(shares)
    classes = tuple(replace(kind, share=share / total) for kind, share in zip(workload.classes, shares, strict=True))
    return replace(workload, classes=classes, shifts=(), cycle_s=None)


def stretch(workload: Workload, cycle_s: float) -> Workload:
    """The workload with its cycle of shifts stretched to another length."""
    factor = cycle_s / (workload.cycle_s or cycle_s)
    shifts = tuple(replace(shift, at_s=shift.at_s * factor) for shift in workload.shifts)
    return replace(workload, shifts=shifts, cycle_s=cycle_s)


def requests_for(load: Load, settings: DynamicSettings, wanted: int, warmup_share: float) -> int:
    """Requests of a run: as many as wanted, and enough for the least number of cycles after the warm-up."""
    if load.cycle_s is None:
        return wanted
    rate = arrival_statistics(load.workload).rate_per_s
    return max(wanted, int(np.ceil(settings.least_cycles * load.cycle_s * rate / (1.0 - warmup_share))))
