"""Tables of a study of task maps: service by map and load, recovery after shifts, and what a map gains on the first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hydra_dse.studies.comparison.ratios import half_width
from hydra_dse.studies.dynamic_course import COURSE, mean_course
from hydra_dse.studies.dynamic_loads import Load
from hydra_dse.studies.dynamic_simulation import BINS, METRICS, MapRun

PAYS, COSTS, UNDECIDED = "pays", "costs", "undecided"


@dataclass(frozen=True)
class MapRow:
    """A task map under a load: metric → mean and 95 % interval over the replications.

    Attributes:
        recovery_s: by phase of the cycle, time after its start until the share of requests that meet their SLO stays at
            the promised one until the next shift; 0 where it never falls below, NaN where it does not come back.
    """

    share: float
    rate_per_s: float
    task_map: str
    load: Load
    values: Mapping[str, tuple[float, float, float]]
    recovery_s: tuple[float, ...]


@dataclass(frozen=True)
class Gain:
    """A map against the first one under the same load, paired by replication.

    Attributes:
        attainment: difference of SLO attainment with its 95 % interval.
        p99_ratio: of TTFT p99, below 1 in favour of the map, with its interval.
        verdict: `pays` or `costs` where the interval of the attainment's difference lies on one side of 0, or, where
            both maps attain all, that of the ratio on one side of 1; else `undecided`.
    """

    share: float
    task_map: str
    load: Load
    attainment: tuple[float, float, float]
    p99_ratio: tuple[float, float, float]
    verdict: str


def rows_of(
    records: Mapping[MapRun, Mapping[str, Any]],
    loads: Sequence[Load],
    maps: Sequence[str],
    share: float,
    rate_per_s: float,
    promised: float,
) -> list[MapRow]:
    """One row for each map and load at one mean rate."""
    rows = []
    for load in loads:
        for task_map in maps:
            mine = [
                record
                for run, record in records.items()
                if (run.task_map, run.load, run.rate_per_s) == (task_map, load.name, rate_per_s)
            ]
            values = {name: interval([_number(record["metrics"][name]) for record in mine]) for name in METRICS}
            rows.append(MapRow(share, rate_per_s, task_map, load, values, recovery(mine, load, promised)))
    return rows


def recovery(records: Sequence[Mapping[str, Any]], load: Load, promised: float) -> tuple[float, ...]:
    """Time to recover by phase, of all replications together; empty for a load at rest."""
    if load.cycle_s is None:
        return ()
    lengths = np.diff([*load.starts_s, load.cycle_s])
    found = []
    for number, length in enumerate(lengths.tolist()):
        count = np.sum([record["phases"][number]["requests"] for record in records], axis=0)
        met = np.sum([record["phases"][number]["met"] for record in records], axis=0)
        with np.errstate(invalid="ignore"):
            below = np.where(count > 0, met / count, 1.0) < promised
        last = int(np.flatnonzero(below)[-1]) if below.any() else -1
        found.append(math.nan if last == BINS - 1 else (last + 1) * length / BINS)
    return tuple(found)


@dataclass(frozen=True)
class CourseRow:
    """A part of a phase of the cycle under a task map, all replications together.

    Attributes:
        phase, part: from 1.
        start_s, end_s: from the start of the cycle.
        requests: that arrived in it; `attainment` of them, and their mean TTFT, NaN without any.
        course: means by name of `dynamic_course.COURSE`, NaN where the runs do not tell.
    """

    share: float
    load: Load
    task_map: str
    phase: int
    part: int
    start_s: float
    end_s: float
    requests: float
    attainment: float
    ttft_s: float
    course: Mapping[str, float]


def course_rows(
    records: Mapping[MapRun, Mapping[str, Any]], loads: Sequence[Load], maps: Sequence[str], share: float, rate: float
) -> list[CourseRow]:
    """Service and queues over the cycle, load by load and map by map; nothing of loads at rest."""
    rows = []
    for load in loads:
        for task_map in maps if load.cycle_s is not None else ():
            mine = [
                record
                for run, record in records.items()
                if (run.task_map, run.load, run.rate_per_s) == (task_map, load.name, rate)
            ]
            for number in range(len(load.starts_s)):
                rows += _phase_rows([record["phases"][number] for record in mine], load, task_map, number, share)
    return rows


def _phase_rows(
    told: Sequence[Mapping[str, Sequence[float]]], load: Load, task_map: str, number: int, share: float
) -> list[CourseRow]:
    begin, end = [*load.starts_s, load.cycle_s or 0.0][number : number + 2]
    edges = np.linspace(begin, end, BINS + 1).tolist()
    count, met, ttft = (np.sum([phase[name] for phase in told], axis=0) for name in ("requests", "met", "ttft_s"))
    with np.errstate(invalid="ignore", divide="ignore"):
        attained, mean = met / count, ttft / count
    courses = {name: mean_course(told, name) for name in COURSE}
    return [
        CourseRow(
            share, load, task_map, number + 1, part + 1, edges[part], edges[part + 1], float(count[part]),
            float(attained[part]), float(mean[part]),
            {name: math.nan if means is None else float(means[part]) for name, means in courses.items()},
        )
        for part in range(BINS)
    ]  # fmt: skip


def gains_of(
    records: Mapping[MapRun, Mapping[str, Any]], loads: Sequence[Load], maps: Sequence[str], share: float, rate: float
) -> list[Gain]:
    """Every map but the first against the first, load by load."""
    found = []
    for load in loads:
        for task_map in maps[1:]:
            pairs = _pairs(records, load, (maps[0], task_map), rate)
            apart = interval([other["slo_attainment"] - own["slo_attainment"] for own, other in pairs])
            with np.errstate(all="ignore"):
                logs = [np.log(np.float64(other["ttft_p99_s"]) / own["ttft_p99_s"]) for own, other in pairs]
            ratio = interval([float(value) for value in logs])
            low, middle, high = (math.exp(ratio[at]) for at in (1, 0, 2))
            verdict = _verdict(apart, ratio)
            found.append(Gain(share, task_map, load, apart, (middle, low, high), verdict))
    return found


def breakeven(gains: Sequence[Gain], task_map: str, share: float) -> tuple[float | None, float | None]:
    """The shortest cycle from which on a map pays at all longer ones, and the longest at which it does not.

    None for the first where it does not pay even at the longest, for the second where it pays at all.
    """
    mine = sorted(
        (gain for gain in gains if gain.load.cycle_s is not None and (gain.task_map, gain.share) == (task_map, share)),
        key=lambda gain: gain.load.cycle_s or 0.0,
    )
    shortest, longest = None, None
    for gain in reversed(mine):
        if gain.verdict != PAYS:
            longest = gain.load.cycle_s
            break
        shortest = gain.load.cycle_s
    return shortest, longest


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval of independent values by Student's t; no width for a single one."""
    mean = float(np.mean(values)) if len(values) else math.nan
    half = half_width(np.asarray(values))
    return mean, mean - half, mean + half


def _pairs(
    records: Mapping[MapRun, Mapping[str, Any]], load: Load, maps: tuple[str, str], rate: float
) -> list[tuple[dict[str, float], dict[str, float]]]:
    numbers = sorted({run.replication for run in records})
    found = []
    for number in numbers:
        sides = [records.get(MapRun(name, load.name, rate, number)) for name in maps]
        if all(side is not None for side in sides):
            first, second = (
                {name: _number(value) for name, value in side["metrics"].items()} for side in sides if side is not None
            )
            found.append((first, second))
    return found


def _verdict(apart: tuple[float, float, float], log_ratio: tuple[float, float, float]) -> str:
    _, low, high = apart
    if low > 0.0 or high < 0.0:
        return PAYS if low > 0.0 else COSTS
    if low == high == 0.0 and (log_ratio[2] < 0.0 or log_ratio[1] > 0.0):
        return PAYS if log_ratio[2] < 0.0 else COSTS
    return UNDECIDED


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
