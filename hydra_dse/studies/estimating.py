"""Factories of the estimator's scorer: in this process, and in another one from the experiment's file."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hydra_dse.design.experiment import Experiment
from hydra_dse.design.space import Point
from hydra_dse.errors import Fault, InputError
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
    """Scores a resolved experiment by its file: a space holds functions, which do not travel to a process.

    Attributes:
        digest: of the file, where a process may outlive it: one that scores again after a change reads it anew, and
            one that sees another file than the parent refuses it.
    """

    path: str
    digest: str = ""

    def __call__(self) -> Scorer:
        """Load the experiment and return its scorer."""
        return EstimatorScorer(same_experiment(self.path, self.digest))


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
    digest: str = ""

    def __call__(self) -> Scorer:
        """Load the experiment and return its scorer."""
        return ScenarioScorer(self.references.applied(same_experiment(self.path, self.digest)), self.references)


def same_experiment(path: str, digest: str) -> Experiment:
    """The experiment of a file that the parent has written.

    Raises:
        InputError: this process sees no such file, or another one.
    """
    from hydra_dse.config import load_experiment
    from hydra_dse.config.experiments import digest_of

    if digest:
        file = Path(path)
        if not file.is_file() or digest_of(file) != digest:
            found = "another file there" if file.is_file() else "no such file"
            message = f"the worker on {platform.node()} sees {found}; it must share the run directory and its inputs"
            raise InputError(Fault(message, file=path))
    return load_experiment(path)


@lru_cache(maxsize=2)
def stored_experiment(path: str, digest: str) -> Experiment:
    """`same_experiment`, read again by a process only when the digest is another.

    Raises:
        InputError: this process sees no such file, or another one.
    """
    return same_experiment(path, digest)


def measured(experiment: Experiment) -> References:
    """The references of an experiment's scenarios, estimated in this process."""
    metrics = metrics_inside(experiment)

    def score(references: References, names: Sequence[str], points: Sequence[Point]) -> dict[str, ScoreTable]:
        estimator = ScenarioEstimator(references.applied(experiment), metrics)
        return {name: estimator.score([name], points)[name] for name in names}

    return references_of(experiment, metrics, score)
