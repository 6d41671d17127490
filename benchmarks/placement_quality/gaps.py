"""Objectives of placements: against the exact optimum on nine slots, against baselines and annealing on 24."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.placement_quality.annealing import annealed
from benchmarks.placement_quality.cases import Layout, layout, mixes, on, small_designs
from benchmarks.placement_quality.optimum import optimum
from hydra_dse.config import load_space
from hydra_dse.design.nouns import Design
from hydra_dse.mapping import reference_parts
from hydra_dse.model.blocks import Model
from hydra_dse.placement import Problem, place
from hydra_dse.placement.problem import FloatArray

OURS = "communication_aware"
DRAWS = 64
ALGORITHMS = (OURS, "hydra", "round_robin", "random mean", f"random best of {DRAWS}", "annealing")


@dataclass(frozen=True)
class Placed:
    """A placement by one algorithm.

    Attributes:
        objective_bytes: NaN where it found none.
        cpu_s: to find it.
    """

    algorithm: str
    objective_bytes: float
    slots: tuple[int, ...]
    cpu_s: float


@dataclass(frozen=True)
class Gap:
    """One algorithm on one package: its objective relative to the reference's, the optimum or our own placement."""

    kind: str
    case: int
    algorithm: str
    ratio: float
    cpu_s: float


def placements(design: Design, traffic: FloatArray, steps: int) -> list[Placed]:
    """A placement by every algorithm; the mean of random ones has the slots of the first.

    Times are without those of layouts, which all packages of equal counts share.
    """
    _placed(design, traffic, OURS, 0)
    named = [_timed(name, partial(_placed, design, traffic, name, 0)) for name in ALGORITHMS[:3]]
    drawn = [_timed("random", partial(_placed, design, traffic, "random", seed)) for seed in range(DRAWS)]
    there = [one for one in drawn if np.isfinite(one.objective_bytes)]
    if there:
        mean = float(np.mean([one.objective_bytes for one in there]))
        best = min(there, key=lambda one: one.objective_bytes)
        named.append(Placed(ALGORITHMS[3], mean, there[0].slots, there[0].cpu_s))
        named.append(Placed(ALGORITHMS[4], best.objective_bytes, best.slots, sum(one.cpu_s for one in drawn)))
        start = there[0].slots
        problem = Problem.of(design.package, traffic)
        named.append(_timed(ALGORITHMS[5], partial(annealed, problem, start, steps)))
    return named


def _placed(design: Design, traffic: FloatArray, algorithm: str, seed: int) -> tuple[float, tuple[int, ...]]:
    found = place(design.package, traffic, algorithm, seed)
    return found.objective_bytes, () if found.placement is None else found.placement.slots


def _timed(name: str, work: Callable[[], tuple[float, tuple[int, ...]]]) -> Placed:
    start = time.process_time()
    objective, slots = work()
    return Placed(name, objective, slots, time.process_time() - start)


def small_gaps(kind: str, model: Model, steps: int, limit: int | None = None) -> Iterator[Gap]:
    """Every algorithm against the exact optimum, for the packages of small-9 on nine slots of a kind."""
    for case, design in enumerate(small_designs(kind)[:limit]):
        traffic = reference_parts(design, model)
        exact = optimum(design.package, traffic)
        if np.isfinite(exact.objective_bytes):
            yield from _gaps(kind, case, placements(design, traffic, steps), exact.objective_bytes)


def large_gaps(kind: str, model: Model, steps: int, count: int) -> Iterator[Gap]:
    """Every algorithm against ours, for packages of hydra-24 spread over the space, on 24 slots (irregular: 20)."""
    where = layout(kind, 6, 4)
    for case, design in enumerate(large_designs(where, count)):
        traffic = reference_parts(design, model)
        found = placements(design, traffic, steps)
        if np.isfinite(found[0].objective_bytes):
            yield from _gaps(kind, case, found, found[0].objective_bytes)


def large_designs(where: Layout, count: int) -> list[Design]:
    """Packages of hydra-24 that have as many components as the layout has slots, evenly over the space."""
    designs = mixes(load_space("hydra-24", [] if len(where.topology.slots) == 24 else ["counts.tiles=20"]))
    return [on(design, where) for design in designs[:: max(1, len(designs) // count)][:count]]


def _gaps(kind: str, case: int, found: Sequence[Placed], reference: float) -> Iterator[Gap]:
    for one in found:
        yield Gap(kind, case, one.algorithm, one.objective_bytes / reference, one.cpu_s)
