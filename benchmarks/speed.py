"""Speed of the estimator: designs per second in batches of 512 distinct designs, beside the readable reference.

The reference is the same estimator on a profile of plain loops (`ReferencePool`: operators × dies × sites × links, one
batch at a time), one design at a time, in the same process.  All times are CPU time of one core.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import cpu_seconds
from hydra_dse.config import load_calibration, load_space, load_workload
from hydra_dse.design.nouns import Design
from hydra_dse.estimator.estimate import estimate
from hydra_dse.hardware.calibration import CalibrationSet
from hydra_dse.hardware.topology import build_topology
from hydra_dse.model.blocks import Model
from hydra_dse.model.operators import Batch
from hydra_dse.network_load import pair_speeds
from hydra_dse.physical.cost import technology_of
from hydra_dse.placement import forget_placements, place_design
from hydra_dse.profile import ReferencePool, ServiceProfile, build_profile
from hydra_dse.workload import pieces
from hydra_dse.workload.nouns import ArrivalStatistics, LengthPoints

FloatArray = NDArray[np.float64]

DESIGNS = 512
REFERENCES = 2
# A second of calm at half the rate, then a third of a second at two and a half times it.
PHASES = ((0.5, 1.0), (2.5, 1.0 / 3.0))
_FIELDS = (
    "prefill_tokens",
    "prefill_sequences",
    "prefill_pairs",
    "prefill_context_tokens",
    "decode_sequences",
    "decode_context_tokens",
    "emitted_tokens",
)


@dataclass(frozen=True)
class PlainPool:
    """A `PoolModel` of one design by plain loops."""

    pool: ReferencePool

    def _each(self, batch: Batch, value: Callable[[Batch], float]) -> FloatArray:
        arrays = np.broadcast_arrays(*(np.atleast_2d(getattr(batch, name)) for name in _FIELDS))
        columns = zip(*(array[0].tolist() for array in arrays), strict=True)
        return np.array([[value(Batch(*column)) for column in columns]])

    def time_s(self, batch: Batch) -> FloatArray:
        return self._each(batch, self.pool.time_s)

    def energy_j(self, batch: Batch) -> FloatArray:
        return self._each(batch, self.pool.energy_j)

    def busy_s(self, batch: Batch) -> dict[str, FloatArray]:
        names = list(self.pool.busy_s(Batch()))
        return {name: self._each(batch, lambda one, name=name: self.pool.busy_s(one)[name]) for name in names}

    def usage(self, batch: Batch) -> FloatArray:
        """Busy shares of all links and sites, shape (k, resources)."""
        arrays = np.broadcast_arrays(*(np.atleast_2d(getattr(batch, name)) for name in _FIELDS))
        rows = []
        for column in zip(*(array[0].tolist() for array in arrays), strict=True):
            part = self.pool.part(Batch(*column))
            costs, seconds = self.pool.operators(part), self.pool.time_s(Batch(*column))
            busy = np.concatenate([self.pool.link_busy(costs), self.pool.site_busy(costs)])
            rows.append(self.pool.in_flight * busy / seconds)
        return np.array(rows)


@dataclass(frozen=True)
class PlainContention:
    """Speeds of two pools without dies in common, by plain loops."""

    prefill: PlainPool
    decode: PlainPool

    def speeds(self, prefill: Batch, decode: Batch) -> tuple[FloatArray, FloatArray]:
        first, second = pair_speeds(self.prefill.usage(prefill), self.decode.usage(decode))
        return first[None], second[None]


@dataclass(frozen=True)
class Bench:
    """Placed designs and the load they are estimated under."""

    designs: list[Design]
    arrivals: ArrivalStatistics
    lengths: LengthPoints

    def profile(self, designs: Sequence[Design] | None = None) -> ServiceProfile:
        """Profile of the designs."""
        return build_profile(designs or self.designs, _model(), _calibration())

    def readable(self, design: Design) -> ServiceProfile:
        """Profile of one design by plain loops."""
        profile = build_profile([design], _model(), load_calibration("default"), vectorised=False)
        pools = {
            name: PlainPool(ReferencePool(design, _model(), load_calibration("default"), name))
            for name in profile.pools
        }
        contention = PlainContention(pools["prefill"], pools["decode"]) if len(pools) == 2 else None
        return replace(profile, pools=pools, contention=contention)

    def solve(self, profile: ServiceProfile, percentiles: bool = True) -> object:
        """Estimate everything."""
        return estimate(profile, self.arrivals, self.lengths, percentiles=percentiles)


@lru_cache(maxsize=1)
def _model() -> Model:
    return load_workload("azure-conversation").models[0]


@lru_cache(maxsize=1)
def _calibration() -> CalibrationSet:
    return load_calibration("default")


def distinct(count: int, **policy: object) -> list[Design]:
    """Placed designs of hydra-24 that differ in package, links and batch limit alike."""
    space = load_space("hydra-24")
    points = list(space.points())
    step = len(points) // (count + count // 8)
    designs = [place_design(space.build(point), _model(), 0)[0] for point in points[::step][:count]]
    return [replace(design, policy=replace(design.policy, **policy)) for design in designs]  # type: ignore[arg-type]


def cases(count: int = DESIGNS) -> dict[str, Bench]:
    """Serving policies and arrivals of the speed list."""
    workload = load_workload("azure-conversation")
    [piece] = pieces(workload)
    rate, lengths = piece.arrivals.rate_per_s, piece.lengths
    phases = tuple((rate * share, seconds) for share, seconds in PHASES)
    together, apart = distinct(count, serving="colocated"), distinct(count)
    return {
        "poisson": Bench(together, ArrivalStatistics(rate, 1.0), lengths),
        "gamma": Bench(together, ArrivalStatistics(rate, 2.0), lengths),
        "mmpp": Bench(together, ArrivalStatistics(rate, 1.4, phases), lengths),
        "disaggregated": Bench(apart, ArrivalStatistics(rate, 1.0), lengths),
    }


@dataclass(frozen=True)
class Speed:
    """Designs per second; `readable` of the plain loops."""

    name: str
    estimator: float
    end_to_end: float
    means_only: float
    readable: float


def speed(name: str, bench: Bench) -> Speed:
    """Measure one case."""
    profile, count = bench.profile(), len(bench.designs)
    given = count / cpu_seconds(lambda: bench.solve(profile), 5)
    whole = count / cpu_seconds(lambda: bench.solve(bench.profile()), 5)
    means = count / cpu_seconds(lambda: bench.solve(profile, percentiles=False), 5)
    some = bench.designs[:: count // REFERENCES][:REFERENCES]
    slow = REFERENCES / cpu_seconds(lambda: [bench.solve(bench.readable(design)) for design in some], 1)
    return Speed(name, given, whole, means, slow)


def single_ms(bench: Bench) -> tuple[float, float]:
    """Milliseconds of one design alone: with a profile, and from the placed design."""
    one = replace(bench, designs=bench.designs[:1])
    profile = one.profile()
    return 1e3 * cpu_seconds(lambda: one.solve(profile), 9), 1e3 * cpu_seconds(lambda: one.solve(one.profile()), 9)


def by_batch_limit(bench: Bench, limits: Sequence[int] = (16, 64, 256)) -> dict[int, float]:
    """CPU seconds of profile and estimate by batch limit."""
    found = {}
    for limit in limits:
        designs = [replace(on, policy=replace(on.policy, max_batch=limit)) for on in bench.designs]
        other = replace(bench, designs=designs)
        found[limit] = cpu_seconds(lambda other=other: other.solve(other.profile()), 3)  # type: ignore[misc]
    return found


def by_tiles(bench: Bench, factors: Sequence[tuple[int, int]] = ((1, 1), (2, 1), (2, 2))) -> dict[int, float]:
    """CPU seconds of profile and estimate by number of tiles: the same packages with every count multiplied."""
    found = {}
    for wide, high in factors:
        other = replace(bench, designs=[_enlarged(on, wide, high) for on in bench.designs[::8]])
        if any(other.profile().violations):
            raise RuntimeError("an enlarged design cannot serve: its time would be that of telling so")
        found[24 * wide * high] = cpu_seconds(lambda other=other: other.solve(other.profile()), 3)  # type: ignore[misc]
    return found


def _enlarged(design: Design, wide: int, high: int) -> Design:
    package = design.package
    made_with = technology_of(package)
    # An interposer of the size that is needed: the limit of today's is no matter here.
    carrier = replace(made_with.interposer, max_reticles=made_with.interposer.max_reticles * wide * high)
    slot = package.topology.slots[0]
    grid = build_topology("mesh", 6 * wide, 4 * high, slot.width_mm, slot.height_mm)
    larger = replace(
        package,
        topology=grid,
        dies=tuple(replace(group, count=group.count * wide * high) for group in package.dies),
        memories=tuple(replace(group, count=group.count * wide * high) for group in package.memories),
        limits=type(package.limits)(),
        memory_is_leaf=False,
        technology=replace(made_with, interposer=carrier),
    )
    unplaced = replace(design, package=larger, placement=None, placement_algorithm="random")
    return place_design(unplaced, _model(), 0)[0]


def placement_ms() -> tuple[float, float]:
    """Milliseconds of a placement at 24 tiles: the first of its counts in a process, and the mean over the space."""
    space = load_space("hydra-24")
    designs = [space.build(point) for point in list(space.points())[::24]]
    start = time.process_time()
    place_design(designs[0], _model(), 0)
    first = time.process_time() - start
    some = designs[::7]
    [place_design(design, _model(), 0) for design in some]

    def again() -> None:
        forget_placements()
        for design in some:
            place_design(design, _model(), 0)

    return 1e3 * first, 1e3 * cpu_seconds(again, 2) / len(some)


def peak_mib() -> float:
    """Most memory that this process held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def table() -> dict[str, tuple[float, str, float | None]]:
    """All figures: value, unit, reference."""
    first, mean = placement_ms()
    found: dict[str, tuple[float, str, float | None]] = {
        "placement_first": (first, "ms", None),
        "placement_mean": (mean, "ms", None),
    }
    benches = cases()
    for name, bench in benches.items():
        measured = speed(name, bench)
        found[f"{name}_estimator"] = (measured.estimator, "designs/s", measured.readable)
        found[f"{name}_end_to_end"] = (measured.end_to_end, "designs/s", measured.readable)
        found[f"{name}_means_only"] = (measured.means_only, "designs/s", measured.readable)
    for name in ("poisson", "disaggregated"):
        given, whole = single_ms(benches[name])
        found[f"{name}_single_design"] = (given, "ms", None)
        found[f"{name}_single_design_end_to_end"] = (whole, "ms", None)
    apart = benches["disaggregated"]
    tiles, limits = by_tiles(apart), by_batch_limit(apart)
    # Against what linear growth would take: at most 1.
    found["tiles_24_to_96_over_linear"] = (tiles[96] / tiles[24] / 4.0, "1", None)
    found["batch_limit_16_to_256_over_linear"] = (limits[256] / limits[16] / 16.0, "1", None)
    found["peak_memory"] = (peak_mib(), "MiB", None)
    return found
