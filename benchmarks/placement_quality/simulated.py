"""What a placement is worth in service: the same package under every placement, simulated with the same requests.

All placements of a package are offered one rate, a share of the least saturation among them, so that each sustains it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.placement_quality.cases import Layout, layout, on
from benchmarks.placement_quality.gaps import DRAWS, Placed, placements
from hydra_dse.config import load_calibration, load_design, load_workload
from hydra_dse.design.evaluator import EvaluationOptions, Evaluator
from hydra_dse.design.nouns import Design, Placement
from hydra_dse.mapping import reference_parts
from hydra_dse.placement import place
from hydra_dse.rng import derive
from hydra_dse.studies.comparison.ratios import half_width, paired_ratio
from hydra_dse.studies.simulators import find_simulator
from hydra_dse.workload.nouns import Workload

SHIPPED = "hydra-24-nemotron-chat"
LOAD = 0.8
SATURATION, TTFT = "saturation_tokens_per_s", "ttft_mean_s"
_REQUESTS_PER_S = "saturation_requests_per_s"


@dataclass(frozen=True)
class Effort:
    """How much is simulated."""

    requests: int = 200
    replications: int = 3
    draws: int = 6
    steps: int = 4000


@dataclass(frozen=True)
class Effect:
    """A placement against ours on one package, simulated: ratios with 95 % intervals.

    Attributes:
        objective: of the placement relative to ours.
        saturation, ttft: value, low, high; intervals are over replications, of random placements over draws.
    """

    kind: str
    link_gb_per_s: float
    algorithm: str
    objective: float
    saturation: tuple[float, float, float]
    ttft: tuple[float, float, float]


def shipped(kind: str, link_gb_per_s: float) -> Design:
    """A package of HYDRA's front on a layout; on the irregular one it has fewer dies, as many as there are slots."""
    design = load_design(SHIPPED, [f"package.link.bandwidth={link_gb_per_s:g} GB/s"])
    where = layout(kind, 6, 4)
    return on(_of_size(design, where), where)


def _of_size(design: Design, where: Layout) -> Design:
    dies = design.package.dies
    surplus = design.package.die_count + design.package.stack_count - len(where.topology.slots)
    most = max(range(len(dies)), key=lambda place: dies[place].count)
    kept = tuple(
        replace(group, count=group.count - surplus) if place == most else group for place, group in enumerate(dies)
    )
    return replace(design, package=replace(design.package, dies=kept))


def effects(kind: str, link_gb_per_s: float, effort: Effort) -> Iterator[Effect]:
    """Every algorithm against ours on one package."""
    workload = load_workload("hydra-chat", ["model=nemotronh-4b", "arrivals={process: poisson, rate: 1 req/s}"])
    design = shipped(kind, link_gb_per_s)
    traffic = reference_parts(design, workload.models[0])
    found = placements(design, traffic, effort.steps)
    chosen = [one for one in found if math.isfinite(one.objective_bytes) and one.algorithm != "random mean"]
    drawn = [place(design.package, traffic, "random", seed) for seed in range(DRAWS)]
    chosen += [
        Placed("random", one.objective_bytes, one.placement.slots, 0.0)
        for one in drawn[: effort.draws]
        if one.placement is not None
    ]
    runs = _Runs(find_simulator(), design, workload, effort)
    saturations = [runs.saturation(one.slots) for one in chosen]
    rate = LOAD * min(min(series) for series in saturations)
    latencies = [runs.at(one.slots, rate) for one in chosen]
    measured = list(zip(chosen, runs.tokens, latencies, strict=True))
    yield from _ratios(kind, link_gb_per_s, measured)


Measured = tuple[Placed, Sequence[float], Sequence[float]]


def _ratios(kind: str, link_gb_per_s: float, measured: Sequence[Measured]) -> Iterator[Effect]:
    ours, tokens, ttft = measured[0]
    for one, mine, waits in measured[1:]:
        if one.algorithm != "random":
            pair = (paired_ratio(mine, tokens), paired_ratio(waits, ttft))
            spans = [(ratio.value, ratio.low, ratio.high) for ratio in pair]
            yield Effect(kind, link_gb_per_s, one.algorithm, one.objective_bytes / ours.objective_bytes, *spans)
    random = [item for item in measured if item[0].algorithm == "random"]
    objective = float(np.mean([one.objective_bytes for one, _, _ in random])) / ours.objective_bytes
    spans = [
        _over_draws([paired_ratio(item[place], base).value for item in random])
        for place, base in ((1, tokens), (2, ttft))
    ]
    yield Effect(kind, link_gb_per_s, "random mean", objective, *spans)


def _over_draws(ratios: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of ratios of random placements with its 95 % interval over draws."""
    logs = np.log(ratios)
    value, half = float(np.exp(logs.mean())), half_width(logs)
    return value, value * math.exp(-half), value * math.exp(half)


class _Runs:
    """Simulated figures of one package under placements, by replication with shared random numbers."""

    def __init__(self, engine: Evaluator, design: Design, workload: Workload, effort: Effort) -> None:
        self._engine, self._design, self._workload, self._effort = engine, design, workload, effort
        self._calibration = load_calibration("default")
        self.tokens: list[list[float]] = []

    def saturation(self, slots: tuple[int, ...]) -> list[float]:
        """Requests per second at saturation; tokens are kept beside."""
        found = [self._one(slots, 1e-3, number, saturate=True) for number in range(self._effort.replications)]
        self.tokens.append([metrics[SATURATION] for metrics in found])
        return [metrics[_REQUESTS_PER_S] for metrics in found]

    def at(self, slots: tuple[int, ...], rate_per_s: float) -> list[float]:
        """Mean TTFT at a rate."""
        return [self._one(slots, rate_per_s, number)[TTFT] for number in range(self._effort.replications)]

    def _one(
        self, slots: tuple[int, ...], rate_per_s: float, replication: int, saturate: bool = False
    ) -> dict[str, float]:
        placed = replace(self._design, placement=Placement(slots), placement_algorithm="explicit")
        options = EvaluationOptions(
            requests=self._effort.requests, replications=1, rate_per_s=rate_per_s, saturate=saturate
        )
        seed = int(derive(1, "placement effect", replication).integers(1 << 53))
        [found] = self._engine.evaluate([placed], self._workload, self._calibration, options, seed)
        if not found.feasible:
            raise ValueError(f"{placed.name} cannot serve: {'; '.join(str(one) for one in found.violations)}")
        return {name: value for name, value in found.metrics.items() if value is not None}
