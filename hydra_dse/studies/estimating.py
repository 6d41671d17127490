"""Factories of the estimator's scorer: in this process, and in another one from the experiment's file."""

from __future__ import annotations

from dataclasses import dataclass

from hydra_dse.design.experiment import Experiment
from hydra_dse.search.estimating import EstimatorScorer
from hydra_dse.search.scores import Scorer


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
