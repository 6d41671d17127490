"""An experiment under another calibration: drawn from the intervals of its own, or with slower memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp
from typing import Protocol

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.nouns import Design
from hydra_dse.design.space import Point
from hydra_dse.estimator.calibration_draws import drawn
from hydra_dse.estimator.intervals import NORMAL_90
from hydra_dse.hardware.calibration import Calibration, CalibrationSet
from hydra_dse.hardware.components import Chiplet
from hydra_dse.rng import derive
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.references import References
from hydra_dse.search.scenarios import ScenarioScorer
from hydra_dse.search.scores import Scorer, ScoreTable, constrained


@dataclass(frozen=True)
class Variant:
    """What is changed: draw `number` of the calibration, and `memory` times what every stack gives."""

    number: int | None = None
    memory: float = 1.0

    def of(self, experiment: Experiment) -> Experiment:
        """The experiment with the change."""
        if self.number is not None:
            rng = derive(experiment.search.seed, "calibration draw", self.number)
            experiment = replace(experiment, calibration=drawn(with_intervals(experiment.calibration), rng))
        if self.memory == 1.0:
            return experiment
        build, factor = experiment.space.build, self.memory

        def slower(point: Point) -> Design:
            return with_slower_memory(build(point), factor)

        return replace(experiment, space=replace(experiment.space, build=slower))


def has_intervals(calibrations: CalibrationSet) -> bool:
    """Whether a calibration says how sure its parameters are, by intervals or as assumptions."""
    return any(part.intervals or part.basis for part in (calibrations.default, *calibrations.by_style.values()))


def with_intervals(calibrations: CalibrationSet) -> CalibrationSet:
    """A calibration that states no intervals with those of its relative error, the same for every parameter."""
    if has_intervals(calibrations):
        return calibrations
    styles = {style: _spread(part) for style, part in calibrations.by_style.items()}
    return CalibrationSet(_spread(calibrations.default), styles)


def _spread(part: Calibration) -> Calibration:
    factor = exp(NORMAL_90 * part.relative_error)
    values = {f"compute.{kind.value}": value for kind, value in part.compute.items()}
    values |= {f"memory.{kind}": value for kind, value in part.memory.items()}
    values |= {"operator_overhead": part.operator_overhead_s, "iteration_overhead": part.iteration_overhead_s}
    intervals = {name: (value / factor, value * factor) for name, value in values.items() if value > 0.0}
    return replace(part, intervals=intervals)


def with_slower_memory(design: Design, factor: float) -> Design:
    """The design with `factor` times the bandwidth of every stack, and of memory that comes with a die."""
    package = design.package
    groups = tuple(
        replace(
            group,
            stack=replace(
                group.stack,
                bandwidth_bytes_per_s=group.stack.bandwidth_bytes_per_s * factor,
                peak_bandwidth_bytes_per_s=group.stack.peak_bandwidth_bytes_per_s * factor,
            ),
        )
        for group in package.memories
    )
    dies = tuple(replace(group, chiplet=_slower(group.chiplet, factor)) for group in package.dies)
    return replace(design, package=replace(package, dies=dies, memories=groups))


def _slower(chiplet: Chiplet, factor: float) -> Chiplet:
    if not chiplet.memory_bandwidth_bytes_per_s:
        return chiplet
    return replace(chiplet, memory_bandwidth_bytes_per_s=chiplet.memory_bandwidth_bytes_per_s * factor)


class VariantScorer(Protocol):
    """Scores points under a changed calibration; picklable where it travels to another process."""

    def score(self, variant: Variant, points: Sequence[Point]) -> ScoreTable:
        """Scores with the experiment's bounds as violations."""


@dataclass(frozen=True, eq=False)
class VariantsHere:
    """Scores under the experiment that is loaded already."""

    experiment: Experiment
    references: References

    def score(self, variant: Variant, points: Sequence[Point]) -> ScoreTable:
        """Scores with the experiment's bounds as violations."""
        experiment = variant.of(self.experiment)
        scorer: Scorer = EstimatorScorer(experiment)
        if experiment.scenarios.items:
            scorer = ScenarioScorer(self.references.applied(experiment), self.references)
        return constrained(scorer.score(points), experiment.objectives, experiment.bounds)


@dataclass(frozen=True)
class VariantsOfStored:
    """Scores under a stored experiment, loaded where it works.

    Attributes:
        digest: of the file, so that a process that sees another one refuses it.
    """

    path: str
    references: References
    digest: str = ""

    def score(self, variant: Variant, points: Sequence[Point]) -> ScoreTable:
        """Scores with the experiment's bounds as violations."""
        return _here(self).score(variant, points)


@lru_cache(maxsize=2)
def _here(stored: VariantsOfStored) -> VariantsHere:
    from hydra_dse.studies.estimating import same_experiment

    return VariantsHere(same_experiment(stored.path, stored.digest), stored.references)
