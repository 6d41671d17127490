"""Factories of the estimator's scorer: in this process, and in another one from the experiment's file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.references import References, references_of
from hydra_dse.search.scenarios import ScenarioEstimator, ScenarioScorer, metrics_inside
from hydra_dse.search.scores import Scorer, ScoreTable


@dataclass(frozen=True, eq=False)
class EstimatorOf:
    """Scores an experiment that is loaded already."""

    experiment: Experiment

    def __call__(self) -> Scorer:
        """Return the scorer."""
        return EstimatorScorer(self.experiment)


@dataclass(frozen=True)
class EstimatorOfFile:
    """Scores a resolved experiment by its file: a space holds functions, which do not travel to a process."""

    path: str

    def __call__(self) -> Scorer:
        """Load the experiment and return its scorer."""
        from hydra_dse.config import load_experiment

        return EstimatorScorer(load_experiment(self.path))


@dataclass(frozen=True, eq=False)
class ScenariosOf:
    """Scores an experiment with scenarios that is loaded already."""

    experiment: Experiment
    references: References

    def __call__(self) -> Scorer:
        """Return the scorer."""
        return ScenarioScorer(self.references.applied(self.experiment), self.references)


@dataclass(frozen=True)
class ScenariosOfFile:
    """Scores a resolved experiment with scenarios by its file."""

    path: str
    references: References

    def __call__(self) -> Scorer:
        """Load the experiment and return its scorer."""
        from hydra_dse.config import load_experiment

        return ScenarioScorer(self.references.applied(load_experiment(self.path)), self.references)


def measured(experiment: Experiment) -> References:
    """The references of an experiment's scenarios, estimated in this process."""
    metrics = metrics_inside(experiment)

    def score(references: References, names: Sequence[str], points: Sequence[Point]) -> dict[str, ScoreTable]:
        estimator = ScenarioEstimator(references.applied(experiment), metrics)
        return {name: estimator.score([name], points)[name] for name in names}

    return references_of(experiment, metrics, score)
